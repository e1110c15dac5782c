package promises

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/history/verify"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/schedule"
	"millrace/task/value"
	"millrace/worker"
)

func drawn() task.ID { return task.ID(events.NewID(time.Now())) }

// No submission from outside may set the fields that Millrace sets itself, whichever door it takes.
func TestWhatIsOursIsRefused(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	c := client.New(store, "test")
	spec := &job.Spec{Handler: "nobody"}
	tick := time.Now().Add(time.Minute).UTC()
	for what, s := range map[string]birth.Submission{
		"the id of a tick":  {ID: schedule.TaskID("nightly", tick), Spec: spec},
		"the id of a child": {ID: birth.ChildID(drawn(), "a"), Spec: spec},
		"a lower case id":   {ID: task.ID(strings.ToLower(string(schedule.TaskID("nightly", tick)))), Spec: spec},
		"a schedule":        {Spec: spec, Origin: task.Origin{Schedule: "nightly"}},
		"a tick":            {Spec: spec, Origin: task.Origin{Tick: tick}},
		"a trigger":         {Spec: spec, Origin: task.Origin{Trigger: task.TriggerSchedule}},
		"a parent":          {Spec: spec, Parent: drawn()},
	} {
		_, one := c.Submit(t.Context(), s)
		all := c.SubmitAll(t.Context(), []birth.Submission{s}, nil)
		var copied error = client.ErrInvalid
		if s.ID == "" {
			of, err := c.Submit(t.Context(), birth.Submission{Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			over := s
			over.Spec = nil
			_, copied = c.Copy(t.Context(), of.ID, over)
		}
		for door, err := range map[string]error{"Submit": one, "SubmitAll": all, "Copy": copied} {
			if !errors.Is(err, client.ErrInvalid) {
				t.Errorf("%s with %s: %v, want it refused", door, what, err)
			}
		}
	}
}

// Options of a manual run override those of the schedule; options that would make it another task
// are refused.
func TestScheduleByHand(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	c := client.New(store, "test")
	d := schedule.Definition{Name: "s", When: job.Schedule{Cron: "0 * * * *"},
		Make: birth.Submission{Spec: &job.Spec{Handler: "h"}, Queue: "q", Priority: 2, Labels: map[string]string{"a": "1", "b": "1"}}}
	if _, _, err := store.PutSchedule(t.Context(), d, "test"); err != nil {
		t.Fatal(err)
	}
	r, err := c.RunSchedule(t.Context(), "s", birth.Submission{Priority: 7, Overrides: job.Overrides{Slots: 2}, Labels: map[string]string{"b": "2"}, Delay: value.Duration(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	is, err := c.Task(t.Context(), r.ID)
	if err != nil || is.QueueName() != "q" || is.Route.Priority() != 7 || is.Spec.Slots != 2 || fmt.Sprint(is.Labels) != "map[a:1 b:2]" || is.State != task.Scheduled || is.Schedule != "s" {
		t.Errorf("its task is %+v, %v", is, err)
	}
	for what, over := range map[string]birth.Submission{
		"a job": {Job: "j"}, "a spec": {Spec: &job.Spec{Handler: "x"}}, "an id": {ID: drawn()}, "a parent": {Parent: drawn()}, "a tick": {Origin: task.Origin{Tick: time.Now()}},
	} {
		if r, err := c.RunSchedule(t.Context(), "s", over); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("with %s: %+v, %v", what, r, err)
		}
	}
}

// Of several submissions with one id, one is accepted, and it is the one that runs.
func TestOneIDOneTask(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{Node: "n1", Queues: []string{"q0", "q1", "q2"}, Slots: 4})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ran := map[task.ID][]string{}
	w.Handle("note", func(_ context.Context, k task.Task) error {
		mu.Lock()
		defer mu.Unlock()
		ran[k.ID] = append(ran[k.ID], string(k.Params))
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	working := make(chan error, 1)
	go func() { working <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-working; err != nil {
			t.Error(err)
		}
	}()
	const submitters = 6
	rounds := 20
	if *harness.Long {
		rounds = 1000
	}
	for round := range rounds {
		id := drawn()
		var wg sync.WaitGroup
		var accepted atomic.Int64
		params := func(i int) json.RawMessage { return json.RawMessage(fmt.Sprintf("%d", i/2)) } // two ask for the same
		for i := range submitters {
			c := client.New(store, fmt.Sprintf("submitter-%d", i))
			wg.Go(func() {
				r, err := c.Submit(t.Context(), birth.Submission{
					ID: id, Spec: &job.Spec{Handler: "note"}, Queue: fmt.Sprintf("q%d", i/2), Priority: 1 + i/2, Params: map[string]json.RawMessage{"i": params(i)},
				})
				switch {
				case err == nil && !r.Again:
					accepted.Add(1)
				case err == nil:
					now, err := c.Task(t.Context(), id)
					if err != nil || string(now.Params) != fmt.Sprintf(`{"i":%s}`, params(i)) {
						t.Errorf("round %d: submitter %d is told that it is in, and the task's parameters are %s (%v)", round, i, now.Params, err)
					}
				case !errors.Is(err, client.ErrOther):
					t.Errorf("round %d: submitter %d: %v", round, i, err)
				}
			})
		}
		wg.Wait()
		c := client.New(store, "test")
		var k task.Task
		testkit.Eventually(t, "it has run", func() bool { k, err = c.Task(t.Context(), id); return err == nil && k.State.Terminal() })
		mu.Lock()
		if accepted.Load() != 1 || len(ran[id]) != 1 || ran[id][0] != string(k.Params) {
			t.Errorf("round %d: %d are accepted, %v ran, and the log says %s", round, accepted.Load(), ran[id], k.Params)
		}
		mu.Unlock()
	}
}

// Many submitters at once keep within the bound of a queue that no worker has ever served.
func TestBoundOfSeveral(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	const most, submitters = 25, 8
	bound := most
	if _, err := client.New(store, "test").LimitQueue(t.Context(), "q", queue.Limit{Waiting: &bound}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var accepted, refused atomic.Int64
	began := time.Now()
	for i := range submitters {
		c := client.New(store, fmt.Sprintf("submitter-%d", i))
		wg.Go(func() {
			for n := range 10 {
				s := birth.Submission{Spec: &job.Spec{Handler: "x"}, Queue: "q", Priority: 1 + i}
				var err error
				switch n % 3 {
				case 0:
					_, err = c.Submit(t.Context(), s)
				case 1:
					s.ID = drawn()
					_, err = c.Submit(t.Context(), s)
				default:
					err = c.SubmitMany(t.Context(), s, 1, nil)
				}
				switch {
				case err == nil:
					accepted.Add(1)
				case errors.Is(err, queue.ErrFull):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if accepted.Load() != most || refused.Load() != submitters*10-most {
		t.Errorf("%d are accepted and %d refused, want %d and %d", accepted.Load(), refused.Load(), most, submitters*10-most)
	}
	for _, name := range []string{"bounded", "without a bound"} {
		c := client.New(store, "test")
		if thousand := 1000; name == "bounded" {
			if _, err := c.LimitQueue(t.Context(), name, queue.Limit{Waiting: &thousand}); err != nil {
				t.Fatal(err)
			}
		}
		const n = 200
		began := time.Now()
		for range n {
			if _, err := c.Submit(t.Context(), birth.Submission{Spec: &job.Spec{Handler: "x"}, Queue: strings.ReplaceAll(name, " ", "-")}); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("a submission to a queue %s takes %v", name, time.Since(began)/n)
	}
	t.Logf("%d submissions of %d submitters to a queue with a bound took %v", submitters*10, submitters, time.Since(began))
	var some atomic.Int64
	c := client.New(store, "test")
	larger := most + 10
	if _, err := c.LimitQueue(t.Context(), "q", queue.Limit{Waiting: &larger}); err != nil {
		t.Fatal(err)
	}
	err := c.SubmitMany(t.Context(), birth.Submission{Spec: &job.Spec{Handler: "x"}, Queue: "q"}, 100, func(client.Receipt) { some.Add(1) })
	if !errors.Is(err, queue.ErrFull) || some.Load() != 10 {
		t.Errorf("of 100 at once %d are in, %v; want the 10 for which there is room", some.Load(), err)
	}
}

// A task that is put in the place of a tick's before its time does not pass for it.
func TestStrangerUnderATicksID(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	c := client.New(store, "test")
	d := schedule.Definition{Name: "backup", When: job.Schedule{Cron: "0 * * * *", CatchUp: "none"}, Make: birth.Submission{Spec: &job.Spec{Handler: "backup"}}}
	if _, _, err := store.PutSchedule(t.Context(), d, "test"); err != nil {
		t.Fatal(err)
	}
	tick := time.Now().Truncate(time.Hour)
	id := schedule.TaskID("backup", tick)
	rec := &events.Recorder{Log: store, Actor: "stranger", Now: time.Now, NewID: events.NewID}
	forged := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "nothing"}, Route: "default.5", Origin: task.Origin{Schedule: "backup", Tick: tick.UTC(), Trigger: task.TriggerSchedule}}}
	if _, err := rec.Submit(t.Context(), id, forged); err != nil {
		t.Fatal(err)
	}
	fire := fireOf(t, store, "backup", tick)
	handle(t, lasting(store), &fire, 1)
	stored, err := store.Schedule(t.Context(), "backup")
	if err != nil {
		t.Fatal(err)
	}
	stored.Since = tick.Add(-time.Minute)
	reports, err := c.Ticks(t.Context(), &stored, stored.Since, 10)
	if err != nil || len(reports) != 1 || reports[0].Outcome != client.TickHole || !strings.Contains(reports[0].Why, "another task has the id") {
		t.Errorf("the tick is reported as %+v, %v; want a hole that says why", reports, err)
	}
	wantBroken(t, store, verify.OneTask, verify.CauseFirst)
}

// wantBroken checks that verify finds these promises of the log broken.
func wantBroken(t *testing.T, store *jet.Store, rules ...verify.Rule) {
	t.Helper()
	last, err := store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	feed, err := store.Follow(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	v := verify.New(verify.Config{})
	for at := uint64(0); at < last; {
		records, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			at = records[i].Seq
			if err := v.Add(&records[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	broken := map[verify.Rule]bool{}
	report := v.Report(time.Time{})
	for _, f := range report.Findings {
		broken[f.Rule] = true
	}
	for _, rule := range rules {
		if !broken[rule] {
			t.Errorf("verify does not find %s broken: %+v", rule, report.Findings)
		}
	}
}

// Children that a program has asked for are stopped with their parent, and live again with it.
func TestSpawnedAreStopped(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	d := startDecider(t, store, filepath.Join(t.TempDir(), "view.db"), 0)
	defer d.end(t)
	c := client.New(store, "test")
	w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{Node: "n1", Slots: 8, Submit: c.Spawn})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("parent", func(ctx context.Context, k task.Task) error {
		a := worker.FromContext(ctx)
		for i := range 3 {
			s := birth.Submission{Spec: &job.Spec{Handler: "child"}}
			if i == 0 {
				s.Spec.Handler = "parent" // it has children of its own
			}
			if len(k.Parent) > 0 && i == 0 {
				continue
			}
			if _, err := a.Spawn(ctx, fmt.Sprint(i), s); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	w.Handle("child", func(ctx context.Context, _ task.Task) error { <-ctx.Done(); return context.Cause(ctx) })
	ctx, stop := context.WithCancel(t.Context())
	working := make(chan error, 1)
	go func() { working <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-working; err != nil {
			t.Error(err)
		}
	}()
	parent, err := c.Submit(t.Context(), birth.Submission{Spec: &job.Spec{Handler: "parent", Timeout: job.Timeout{Stop: value.Duration(time.Second)}}})
	if err != nil {
		t.Fatal(err)
	}
	first := birth.ChildID(parent.ID, "0")
	all := []task.ID{first, birth.ChildID(parent.ID, "1"), birth.ChildID(parent.ID, "2"), birth.ChildID(first, "1"), birth.ChildID(first, "2")}
	are := func(state task.State) func() bool {
		return func() bool {
			for _, id := range all {
				if k, err := c.Task(t.Context(), id); err != nil || k.State != state {
					return false
				}
			}
			return true
		}
	}
	testkit.Eventually(t, "all children run", are(task.Running))
	if _, err := c.Cancel(t.Context(), parent.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all children are cancelled", are(task.Cancelled))
	testkit.Eventually(t, "their parent is, too", func() bool { k, err := c.Task(t.Context(), parent.ID); return err == nil && k.State == task.Cancelled })
	if _, err := c.Retry(t.Context(), parent.ID, ""); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all children run again", are(task.Running))
	if _, err := c.Cancel(t.Context(), parent.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all children are cancelled again", are(task.Cancelled))
}
