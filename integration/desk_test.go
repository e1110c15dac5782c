package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/client"
	"millrace/desk"
	"millrace/events"
	"millrace/jet"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/verify"
	"millrace/worker"
)

// withJobs is a log for a scheduler of schedules that name jobs.
type withJobs struct {
	*jet.Store
	births desk.Store
}

func (s withJobs) JobToRun(ctx context.Context, name string) (task.Job, uint64, error) {
	return s.JobAt(ctx, name, 0)
}

func (s withJobs) PinFiles(ctx context.Context, f *task.Files) (*task.Files, error) {
	return s.births.PinFiles(ctx, f)
}

func (s withJobs) Waiting(ctx context.Context, queue string, most int) (int, error) {
	return s.births.Waiting(ctx, queue, most)
}

// doors are all ways by which a task of a job comes into the world. Each returns what it made.
var doors = []struct {
	name string
	make func(t *testing.T, store *jet.Store, c *client.Client, job string) (task.ID, error)
}{
	{"one", func(t *testing.T, _ *jet.Store, c *client.Client, job string) (task.ID, error) {
		r, err := c.Submit(t.Context(), task.Submission{Job: job})
		return r.ID, err
	}},
	{"one under a chosen id", func(t *testing.T, _ *jet.Store, c *client.Client, job string) (task.ID, error) {
		r, err := c.Submit(t.Context(), task.Submission{Job: job, ID: drawn()})
		return r.ID, err
	}},
	{"several at once", func(t *testing.T, _ *jet.Store, c *client.Client, job string) (id task.ID, err error) {
		err = c.SubmitAll(t.Context(), []task.Submission{{Job: job}}, func(r client.Receipt) { id = r.ID })
		return id, err
	}},
	{"several at once under ids of their own", func(t *testing.T, _ *jet.Store, c *client.Client, job string) (id task.ID, err error) {
		err = c.SubmitAll(t.Context(), []task.Submission{{Job: job, ID: drawn(), Fresh: true}}, func(r client.Receipt) { id = r.ID })
		return id, err
	}},
	{"many that are equal", func(t *testing.T, _ *jet.Store, c *client.Client, job string) (id task.ID, err error) {
		err = c.SubmitMany(t.Context(), task.Submission{Job: job}, 1, func(r client.Receipt) { id = r.ID })
		return id, err
	}},
	{"a copy", func(t *testing.T, store *jet.Store, c *client.Client, job string) (task.ID, error) {
		stored, err := store.Job(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		// What it copies has ended; it was made before there was any condition.
		rec := &events.Recorder{Log: store, Actor: "test", Now: time.Now, NewID: events.NewID}
		spec := stored.Spec
		spec.Unique, spec.Files = task.Unique{}, nil
		of := drawn()
		if _, err := rec.Submit(t.Context(), of, task.Submitted{Work: task.Work{Job: job, Revision: stored.Revision, Spec: &spec, Route: "elsewhere.5"}}); err != nil {
			t.Fatal(err)
		}
		over := task.Submission{Queue: stored.Queue, Unique: &stored.Spec.Unique, Files: stored.Spec.Files}
		r, err := c.Copy(t.Context(), of, over)
		return r.ID, err
	}},
	{"a schedule, by hand", func(t *testing.T, store *jet.Store, c *client.Client, job string) (task.ID, error) {
		r, err := c.RunSchedule(t.Context(), hourly(t, store, job), task.Submission{})
		return r.ID, err
	}},
	{"a backfill", func(t *testing.T, store *jet.Store, c *client.Client, job string) (task.ID, error) {
		r, _, err := c.RunTick(t.Context(), hourly(t, store, job), time.Now().Truncate(time.Hour).Add(-time.Hour))
		return r.ID, err
	}},
	{"a tick", func(t *testing.T, store *jet.Store, c *client.Client, job string) (task.ID, error) {
		name, tick := hourly(t, store, job), time.Now().Truncate(time.Hour)
		fire := fired(t, store, name, tick)
		s := scheduler.New(store, nil, nil, scheduler.Config{Schedules: withJobs{store, c.DeskStore()}, Log: slog.New(slog.DiscardHandler)})
		if err := s.Fired(t.Context(), &fire, false); err != nil {
			return "", err
		}
		last, err := store.LastDecision(t.Context(), name)
		if left, ok := last.Fact.Event.(task.ScheduleSkipped); ok {
			return "", map[string]error{task.SkipUnique: &events.Taken{}, task.SkipFull: task.ErrQueueFull, task.SkipInvalid: client.ErrInvalid}[left.Reason]
		}
		return schedule.TaskID(name, tick), err
	}},
	{"a child that a program asks for", func(t *testing.T, _ *jet.Store, c *client.Client, job string) (task.ID, error) {
		parent := drawn()
		id := task.ChildID(parent, "a")
		return id, c.Spawn(t.Context(), task.Submission{Job: job, ID: id, Parent: parent})
	}},
}

func drawn() task.ID { return task.ID(events.NewID(time.Now())) }

// hourly stores a schedule of a job and returns its name.
func hourly(t *testing.T, store *jet.Store, job string) string {
	t.Helper()
	d := schedule.Definition{Name: job, When: task.Schedule{Cron: "0 * * * *", CatchUp: "none"}, Make: task.Submission{Job: job}}
	if _, _, err := store.PutSchedule(t.Context(), d, "test"); err != nil {
		t.Fatal(err)
	}
	return job
}

// Every door has every condition.
func TestDoors(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	c := client.New(store, "test")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PushFiles(t.Context(), client.FilesPush{Dir: dir, Name: "app"}); err != nil {
		t.Fatal(err)
	}
	one := 1
	for i, door := range doors {
		job := func(t *testing.T, name string, spec task.Spec) string {
			t.Helper()
			spec.Run = &task.Run{Argv: []string{"true"}}
			j := task.Job{Name: fmt.Sprintf("%s-%d", name, i), Queue: fmt.Sprintf("q-%s-%d", name, i), Spec: spec}
			if _, _, err := c.Apply(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			return j.Name
		}
		holder := func(t *testing.T, job string) task.ID { // which a door of its own has made
			t.Helper()
			r, err := c.Submit(t.Context(), task.Submission{Job: job})
			if err != nil {
				t.Fatal(err)
			}
			return r.ID
		}
		t.Run(door.name+": the key is taken", func(t *testing.T) {
			job := job(t, "key", task.Spec{Unique: task.Unique{Key: "k"}})
			holder(t, job)
			id, err := door.make(t, store, c, job)
			if !errors.As(err, new(*events.Taken)) && (door.name != "many that are equal" || !errors.Is(err, client.ErrInvalid)) {
				t.Errorf("made %s, %v; want it refused", id, err)
			}
		})
		t.Run(door.name+": the holder of the key stands for it", func(t *testing.T) {
			job := job(t, "return", task.Spec{Unique: task.Unique{Key: "k", OnConflict: task.ConflictReturn}})
			first := holder(t, job)
			id, err := door.make(t, store, c, job)
			if taken := (*events.Taken)(nil); id != first && !errors.As(err, &taken) && !errors.Is(err, client.ErrInvalid) {
				t.Errorf("made %s, %v; want %s or a refusal", id, err, first)
			}
		})
		t.Run(door.name+": the key is free again", func(t *testing.T) {
			job := job(t, "free", task.Spec{Unique: task.Unique{Key: "k"}})
			if _, err := c.Cancel(t.Context(), holder(t, job), ""); err != nil {
				t.Fatal(err)
			}
			id, err := door.make(t, store, c, job)
			if door.name == "many that are equal" {
				return // they cannot share a key
			}
			if made, loadErr := c.Task(t.Context(), id); err != nil || loadErr != nil || made.State != task.Pending {
				t.Errorf("made %s: %v, %v, %s", id, err, loadErr, made.State)
			}
		})
		t.Run(door.name+": the queue is full", func(t *testing.T) {
			job := job(t, "full", task.Spec{})
			holder(t, job)
			if _, err := c.LimitQueue(t.Context(), "q-"+job, task.LimitQueue{Waiting: &one}); err != nil {
				t.Fatal(err)
			}
			// A client may go by what it has known for a second; this one knows nothing.
			id, err := door.make(t, store, client.New(store, "test"), job)
			if !errors.Is(err, task.ErrQueueFull) {
				t.Errorf("made %s, %v; want it refused", id, err)
			}
		})
		t.Run(door.name+": files are pinned", func(t *testing.T) {
			id, err := door.make(t, store, c, job(t, "files", task.Spec{Files: &task.Files{Bundle: "app"}}))
			if err != nil {
				t.Fatal(err)
			}
			made, err := c.Task(t.Context(), id)
			if err != nil || made.Spec.Files == nil || !strings.HasPrefix(made.Spec.Files.Bundle, "app@") {
				t.Errorf("%v: its files are %+v, want a version of app", err, made.Spec.Files)
			}
		})
	}
}

// What Millrace itself sets no submission from outside may, at any door.
func TestWhatIsOursIsRefused(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	c := client.New(store, "test")
	spec := &task.Spec{Handler: "nobody"}
	tick := time.Now().Add(time.Minute).UTC()
	for what, s := range map[string]task.Submission{
		"the id of a tick":  {ID: schedule.TaskID("nightly", tick), Spec: spec},
		"the id of a child": {ID: task.ChildID(drawn(), "a"), Spec: spec},
		"a lower case id":   {ID: task.ID(strings.ToLower(string(schedule.TaskID("nightly", tick)))), Spec: spec},
		"a schedule":        {Spec: spec, Origin: task.Origin{Schedule: "nightly"}},
		"a tick":            {Spec: spec, Origin: task.Origin{Tick: tick}},
		"a trigger":         {Spec: spec, Origin: task.Origin{Trigger: task.TriggerSchedule}},
		"a parent":          {Spec: spec, Parent: drawn()},
	} {
		_, one := c.Submit(t.Context(), s)
		all := c.SubmitAll(t.Context(), []task.Submission{s}, nil)
		var copied error = client.ErrInvalid
		if s.ID == "" {
			of, err := c.Submit(t.Context(), task.Submission{Spec: spec})
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

// Of submissions under one id one is accepted, and it is what runs.
func TestOneIDOneTask(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	w, err := worker.New(store, worker.Config{Node: "n1", Queues: []string{"q0", "q1", "q2"}, Slots: 4})
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
	if *long {
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
				r, err := c.Submit(t.Context(), task.Submission{
					ID: id, Spec: &task.Spec{Handler: "note"}, Queue: fmt.Sprintf("q%d", i/2), Priority: 1 + i/2, Params: map[string]json.RawMessage{"i": params(i)},
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
		eventually(t, "it has run", func() bool { k, err = c.Task(t.Context(), id); return err == nil && k.State.Terminal() })
		mu.Lock()
		if accepted.Load() != 1 || len(ran[id]) != 1 || ran[id][0] != string(k.Params) {
			t.Errorf("round %d: %d are accepted, %v ran, and the log says %s", round, accepted.Load(), ran[id], k.Params)
		}
		mu.Unlock()
	}
}

// Many submitters at once keep the bound of a queue that nobody has ever served.
func TestBoundOfSeveral(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	const most, submitters = 25, 8
	bound := most
	if _, err := client.New(store, "test").LimitQueue(t.Context(), "q", task.LimitQueue{Waiting: &bound}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var accepted, refused atomic.Int64
	began := time.Now()
	for i := range submitters {
		c := client.New(store, fmt.Sprintf("submitter-%d", i))
		wg.Go(func() {
			for n := range 10 {
				s := task.Submission{Spec: &task.Spec{Handler: "x"}, Queue: "q", Priority: 1 + i}
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
				case errors.Is(err, task.ErrQueueFull):
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
	for _, queue := range []string{"bounded", "without a bound"} {
		c := client.New(store, "test")
		if thousand := 1000; queue == "bounded" {
			if _, err := c.LimitQueue(t.Context(), queue, task.LimitQueue{Waiting: &thousand}); err != nil {
				t.Fatal(err)
			}
		}
		const n = 200
		began := time.Now()
		for range n {
			if _, err := c.Submit(t.Context(), task.Submission{Spec: &task.Spec{Handler: "x"}, Queue: strings.ReplaceAll(queue, " ", "-")}); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("a submission to a queue %s takes %v", queue, time.Since(began)/n)
	}
	t.Logf("%d submissions of %d submitters to a queue with a bound took %v", submitters*10, submitters, time.Since(began))
	var some atomic.Int64
	c := client.New(store, "test")
	larger := most + 10
	if _, err := c.LimitQueue(t.Context(), "q", task.LimitQueue{Waiting: &larger}); err != nil {
		t.Fatal(err)
	}
	err := c.SubmitMany(t.Context(), task.Submission{Spec: &task.Spec{Handler: "x"}, Queue: "q"}, 100, func(client.Receipt) { some.Add(1) })
	if !errors.Is(err, task.ErrQueueFull) || some.Load() != 10 {
		t.Errorf("of 100 at once %d are in, %v; want the 10 for which there is room", some.Load(), err)
	}
}

// A task that is put in the place of a tick's before its time does not pass for it.
func TestStrangerUnderATicksID(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	c := client.New(store, "test")
	d := schedule.Definition{Name: "backup", When: task.Schedule{Cron: "0 * * * *", CatchUp: "none"}, Make: task.Submission{Spec: &task.Spec{Handler: "backup"}}}
	if _, _, err := store.PutSchedule(t.Context(), d, "test"); err != nil {
		t.Fatal(err)
	}
	tick := time.Now().Truncate(time.Hour)
	id := schedule.TaskID("backup", tick)
	rec := &events.Recorder{Log: store, Actor: "stranger", Now: time.Now, NewID: events.NewID}
	forged := task.Submitted{Work: task.Work{Spec: &task.Spec{Handler: "nothing"}, Route: "default.5", Origin: task.Origin{Schedule: "backup", Tick: tick.UTC(), Trigger: task.TriggerSchedule}}}
	if _, err := rec.Submit(t.Context(), id, forged); err != nil {
		t.Fatal(err)
	}
	fire := fired(t, store, "backup", tick)
	s := scheduler.New(store, nil, nil, scheduler.Config{Schedules: withJobs{store, c.DeskStore()}, Log: slog.New(slog.DiscardHandler)})
	if err := s.Fired(t.Context(), &fire, false); err != nil {
		t.Fatal(err)
	}
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
	w, err := worker.New(store, worker.Config{Node: "n1", Slots: 8, Submit: c.Spawn})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("parent", func(ctx context.Context, k task.Task) error {
		a := worker.FromContext(ctx)
		for i := range 3 {
			s := task.Submission{Spec: &task.Spec{Handler: "child"}}
			if i == 0 {
				s.Spec.Handler = "parent" // which has children of its own
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
	parent, err := c.Submit(t.Context(), task.Submission{Spec: &task.Spec{Handler: "parent", Timeout: task.Timeout{Stop: task.Duration(time.Second)}}})
	if err != nil {
		t.Fatal(err)
	}
	first := task.ChildID(parent.ID, "0")
	all := []task.ID{first, task.ChildID(parent.ID, "1"), task.ChildID(parent.ID, "2"), task.ChildID(first, "1"), task.ChildID(first, "2")}
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
	eventually(t, "all children run", are(task.Running))
	if _, err := c.Cancel(t.Context(), parent.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all children are cancelled", are(task.Cancelled))
	eventually(t, "their parent is, too", func() bool { k, err := c.Task(t.Context(), parent.ID); return err == nil && k.State == task.Cancelled })
	if _, err := c.Retry(t.Context(), parent.ID, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all children run again", are(task.Running))
	if _, err := c.Cancel(t.Context(), parent.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all children are cancelled again", are(task.Cancelled))
}
