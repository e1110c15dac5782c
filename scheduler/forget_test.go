package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
)

// forgetting is a log in memory with something on chains of every kind, all of it old.
type forgetting struct {
	t   *testing.T
	now time.Time
	ids int
	log *events.Memory
	rec *events.Recorder
}

func newForgetting(t *testing.T) *forgetting {
	w := &forgetting{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return w.now }
	w.log = events.NewMemory(clock, time.Minute)
	w.rec = &events.Recorder{Log: w.log, Actor: "ops", Now: clock, NewID: func(time.Time) string {
		w.ids++
		return fmt.Sprintf("01JNA0%020d", w.ids)
	}}
	return w
}

func (w *forgetting) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// say appends a fact behind the last one on its chain.
func (w *forgetting) say(f events.Fact) uint64 {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	f.ID, f.At, f.Type = w.rec.NewID(w.now), w.now, events.TypeOf(f.Event)
	_, end, err := w.log.Latest(context.Background(), f)
	w.must(nil, err)
	seq, err := w.log.Append(context.Background(), &f, end)
	w.must(nil, err)
	return seq
}

// born makes a task of job j, and ends it if it is to end.
func (w *forgetting) born(more func(*task.Submitted), ends bool) task.ID {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	ctx, id := context.Background(), task.ID(w.rec.NewID(w.now))
	e, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "work"}, Delay: value.Duration(1000 * time.Hour)}, nil, 0, w.now)
	w.must(nil, err)
	if e.Job = "j"; more != nil {
		more(&e)
	}
	w.must(w.rec.Submit(ctx, id, e))
	if ends {
		t, err := w.rec.Load(ctx, id)
		w.must(nil, err)
		_, _, err = w.rec.Do(ctx, t, task.Cancel{Reason: "old"})
		w.must(nil, err)
	}
	return id
}

func (w *forgetting) forget() *Forget {
	return &Forget{Rec: w.rec, Log: w.log, Keeping: Keeping{Age: time.Hour, Least: 1}, Wait: func(_ context.Context, d time.Duration) error {
		w.now = w.now.Add(d)
		return nil
	}}
}

func (w *forgetting) move(f *Forget) Forgotten {
	w.t.Helper()
	done, err := f.Round(context.Background())
	w.must(nil, err)
	return done
}

// What lives on chains of each kind outlives the front of the log, and what does not goes.
func TestEachChainOutlivesTheFront(t *testing.T) {
	w := newForgetting(t)
	ctx := context.Background()
	applied := func(n uint64) task.DefinitionApplied {
		return task.DefinitionApplied{Edition: task.Edition{Revision: n, Text: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}}
	}
	var revisions []uint64
	for n := range uint64(4) {
		revisions = append(revisions, w.say(events.Fact{Def: "schedule.s", Event: applied(n + 1)}))
	}
	tick := w.say(events.Fact{Schedule: "s", Event: task.ScheduleSkipped{Tick: w.now, Reason: task.SkipMissed, Ledger: task.Ledger{Failures: 3}}})
	w.say(events.Fact{Schedule: "removed", Event: task.ScheduleSkipped{Tick: w.now, Reason: task.SkipMissed}})
	open := w.say(events.Fact{Job: "j", Event: limit.HalfOpened{Left: 2}})
	w.say(events.Fact{Job: "calm", Event: limit.Closed{}})
	unique := func(key string) func(*task.Submitted) {
		return func(e *task.Submitted) { e.Spec = &job.Spec{Handler: "work", Unique: job.Unique{Key: key}} }
	}
	holder := w.born(unique("/held"), false)
	w.born(unique("/free"), true)
	w.say(events.Fact{Event: task.CopiesRestored{More: 1}})
	w.say(events.Fact{Message: 3, Event: task.MessageDismissed{}})
	w.born(nil, true)
	stays := w.born(func(e *task.Submitted) {
		e.Spec = &job.Spec{Handler: "work", Keep: job.Keep{Failed: value.Duration(48 * time.Hour)}}
	}, true)
	claim, _, err := w.log.Latest(ctx, events.Fact{Key: "/held"})
	w.must(nil, err)

	f := w.forget()
	f.Keeping.Of = func(t *task.Task) time.Duration { return max(t.Kept().Failed.Std(), time.Hour) }
	for round := range 3 {
		w.now = w.now.Add(3 * time.Hour)
		w.say(events.Fact{Def: "job.other", Event: applied(uint64(round + 1))})
		w.now = w.now.Add(3 * time.Hour)
		if done := w.move(f); !done.Done || round == 0 && done.Tasks != 2 {
			t.Fatalf("round %d: %+v", round, done)
		}
		last := func(about events.Fact, original uint64) {
			t.Helper()
			is, end, err := w.log.Latest(ctx, about)
			if w.must(nil, err); is.Original() != original || original == 0 && end != 0 {
				t.Errorf("round %d: the last fact about %s is that of %d, up to %d; want %d", round, about.About(), is.Original(), end, original)
			}
		}
		last(events.Fact{Def: "schedule.s"}, revisions[3])
		last(events.Fact{Def: "schedule.s", Event: task.DefinitionCarried{}}, revisions[2])
		last(events.Fact{Schedule: "s"}, tick)
		last(events.Fact{Schedule: "removed"}, 0)
		last(events.Fact{Job: "j"}, open)
		last(events.Fact{Job: "calm"}, 0)
		last(events.Fact{Key: "/held"}, claim.Seq)
		last(events.Fact{Key: "/free"}, 0)
		last(events.Fact{Message: 3}, 0)
		if d, err := w.log.Definition(ctx, "schedule.s"); err != nil || d.Revision != 4 {
			t.Errorf("the definition has revision %d, %v", d.Revision, err)
		}
		if c, err := w.rec.Circuit(ctx, "j"); err != nil || c.State != limit.StateHalfOpen || c.From != open || c.Left != 2 {
			t.Errorf("the breaker is %+v, %v", c, err)
		}
		for _, id := range []task.ID{holder, stays} {
			if _, err := w.rec.Load(ctx, id); err != nil {
				t.Errorf("round %d: task %s: %v", round, id, err)
			}
		}
		is, _, err := w.log.Latest(ctx, events.Fact{Job: "j", Event: task.JobTallied{}})
		if sum, _ := is.Fact.Event.(task.JobTallied); err != nil || sum.Cancelled != 2 {
			t.Errorf("round %d: the tally is %+v, %v", round, sum, err)
		}
	}
	carried := map[uint64]int{}
	for _, r := range w.log.All() {
		if r.Kind == events.KindCarried && r.Fact.Def == "schedule.s" {
			carried[r.Original()]++
		}
	}
	if len(carried) != 3 || carried[revisions[0]] != 1 {
		t.Errorf("of the earlier revisions %v, the log has %v", revisions[:3], carried)
	}
	// A key whose holder is gone is free at once.
	next := w.born(unique("/free"), false)
	if _, err := w.rec.Load(ctx, next); err != nil {
		t.Error(err)
	}
}

// What a schedule has not counted yet stays: its next decision depends on how the task ended.
func TestTasksOfLedgersStay(t *testing.T) {
	w := newForgetting(t)
	ctx := context.Background()
	for _, name := range []string{"watches", "allows"} {
		text := fmt.Sprintf(`{"name":%q,"schedule":{"every":"720h"},"task":{"spec":{"handler":"work"}}}`, name)
		if name == "watches" {
			text = strings.Replace(text, `"720h"`, `"720h","pause_after":1`, 1)
		}
		w.say(events.Fact{Def: task.Named(task.DefSchedule, name), Event: task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: json.RawMessage(text)}}})
	}
	of := func(name string) func(*task.Submitted) {
		return func(e *task.Submitted) { e.Origin = task.Origin{Schedule: name, Tick: w.now} }
	}
	counted, free := w.born(of("watches"), true), w.born(of("allows"), true)
	w.say(events.Fact{Schedule: "watches", Event: task.ScheduleAdmitted{Tick: w.now, Made: counted, Ledger: task.Ledger{Open: []task.ID{counted}}}})
	w.say(events.Fact{Schedule: "allows", Event: task.ScheduleAdmitted{Tick: w.now, Made: free, Ledger: task.Ledger{Open: []task.ID{free}}}})
	move := func() {
		w.now = w.now.Add(3 * time.Hour)
		w.say(events.Fact{Job: "calm", Event: limit.Closed{}})
		w.now = w.now.Add(3 * time.Hour)
		if done := w.move(w.forget()); !done.Done {
			t.Fatalf("%+v", done)
		}
	}
	for range 2 {
		move()
		if is, err := w.rec.Load(ctx, counted); err != nil || is.State != task.Cancelled {
			t.Fatalf("the task that the schedule is to count is %s, %v", is.State, err)
		}
	}
	if _, err := w.rec.Load(ctx, free); !errors.Is(err, task.ErrUnknown) {
		t.Errorf("a task that nobody counts: %v", err)
	}
	w.say(events.Fact{Schedule: "watches", Event: task.ScheduleSkipped{Tick: w.now, Reason: task.SkipFailing, Ledger: task.Ledger{Failures: 1}}})
	move()
	if _, err := w.rec.Load(ctx, counted); !errors.Is(err, task.ErrUnknown) {
		t.Errorf("a task that was counted: %v", err)
	}
}

// late is a log in which something happens between the last look at the front and its removal.
type late struct {
	*events.Memory
	happens func()
}

func (l *late) Trim(ctx context.Context, below uint64) error {
	l.happens()
	return l.Memory.Trim(ctx, below)
}

// A task that is born too late for the last look keeps what it needs. One that is born later is refused.
func TestNeedsOfLateBirthsStay(t *testing.T) {
	w := newForgetting(t)
	ctx := context.Background()
	needed, free := w.born(nil, true), w.born(nil, true)
	w.now = w.now.Add(3 * time.Hour)
	w.say(events.Fact{Job: "calm", Event: limit.Closed{}})
	w.now = w.now.Add(3 * time.Hour)
	needs := func(id task.ID) (task.ID, error) {
		e, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "work"}, Needs: &task.Needs{Of: []task.Need{{Task: id, When: job.WhenEnd}}}}, nil, 0, w.now)
		w.must(nil, err)
		born := task.ID(w.rec.NewID(w.now))
		_, err = w.rec.Submit(ctx, born, e)
		return born, err
	}
	f := w.forget()
	f.Log = &late{w.log, func() { w.must(needs(needed)) }}
	if done := w.move(f); !done.Done {
		t.Fatalf("%+v", done)
	}
	if is, err := w.rec.Load(ctx, needed); err != nil || is.State != task.Cancelled {
		t.Errorf("what the late task needs is %s, %v", is.State, err)
	}
	born, err := needs(free)
	if !errors.Is(err, events.ErrForgotten) {
		t.Errorf("a task that needs what is gone: %v, want ErrForgotten", err)
	}
	if is, err := w.rec.Load(ctx, born); err != nil || is.State != task.Cancelled {
		t.Errorf("a task that needs what is gone is %s, %v", is.State, err)
	}
}

// dying is a log that fails from its n-th write on.
type dying struct {
	*events.Memory
	left int
}

var errDied = errors.New("the process has died")

func (d *dying) dies() bool { d.left--; return d.left <= 0 }

func (d *dying) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if d.dies() {
		return 0, errDied
	}
	return d.Memory.Append(ctx, f, last)
}

func (d *dying) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	if d.dies() {
		return 0, errDied
	}
	return d.Memory.AppendAll(ctx, facts, last)
}

func (d *dying) Trim(ctx context.Context, below uint64) error {
	if d.dies() {
		return errDied
	}
	return d.Memory.Trim(ctx, below)
}

// Wherever a server dies, the next one goes on, and counts nothing twice.
func TestMoveGoesOn(t *testing.T) {
	for n := 1; ; n++ {
		w := newForgetting(t)
		w.born(nil, true)
		open := w.born(nil, false)
		w.born(nil, true)
		w.born(nil, false) // the last message stays in any case
		w.now = w.now.Add(3 * time.Hour)
		first := w.forget()
		d := &dying{w.log, n}
		rec := *w.rec
		rec.Log, first.Log, first.Rec = d, d, &rec
		_, err := first.Round(context.Background())
		if err == nil {
			if n < 6 {
				t.Fatalf("a move has only %d writes", n-1)
			}
			return
		}
		if !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		second := w.forget()
		second.Keeping.Least = 2
		for range 2 {
			w.must(second.Round(context.Background()))
		}
		h, err := w.rec.Horizon(context.Background())
		if w.must(nil, err); h.Step != task.HorizonRests || h.Below == 0 {
			t.Errorf("died at write %d: the horizon is %+v", n, h)
		}
		is, _, err := w.log.Latest(context.Background(), events.Fact{Job: "j", Event: task.JobTallied{}})
		if sum, _ := is.Fact.Event.(task.JobTallied); err != nil || sum.Cancelled != 2 {
			t.Errorf("died at write %d: the tally is %+v, %v", n, sum, err)
		}
		if is, err := w.rec.Load(context.Background(), open); err != nil || !is.Waiting() {
			t.Errorf("died at write %d: the open task is %s, %v", n, is.State, err)
		}
	}
}

// A collector says what holds the horizon back, and since when, from its first look on.
func TestCollectorSaysWhatHoldsTheHorizonBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newForgetting(t)
		w.born(nil, true)
		w.now = w.now.Add(2 * time.Hour)
		w.born(nil, true)
		var full, blind error
		c := &Collector{Forget: *w.forget(), First: func() bool { return false }}
		c.Sealer = sealerFunc(func() error { return full })
		c.Counts = func(context.Context) (time.Time, error) { return time.Time{}, blind }
		look := func() Looked {
			w.now = w.now.Add(time.Minute)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- c.Run(ctx) }()
			synctest.Wait()
			stop()
			<-ended
			return c.Last()
		}
		if c.Last() != (Looked{}) {
			t.Errorf("before the first look: %+v", c.Last())
		}
		blind, full = errors.New("no answer"), errors.New("no room")
		first := look()
		if again := look(); first.By != HeldByFault || first.What != "no answer" || first.Since != first.At || again.Since != first.Since || again.At == first.At {
			t.Errorf("what goes wrong: %+v, and later %+v", first, again)
		}
		blind = nil
		first = look()
		if again := look(); first.By != HeldByArchive || !strings.Contains(first.What, "no room") || first.Seq == 0 || first.Since.IsZero() || again.Since != first.Since {
			t.Errorf("an archive that fails: %+v, and later %+v", first, again)
		}
		full = nil
		if is := look(); is.Held != (Held{}) {
			t.Errorf("nothing holds it back: %+v", is)
		}
	})
}

// sealerFunc is an archive that fails, or says that it has what goes.
type sealerFunc func() error

func (s sealerFunc) Seal(_ context.Context, first uint64, chosen task.HorizonChosen) (task.HorizonSealed, error) {
	return task.HorizonSealed{First: first, Last: chosen.Below - 1, Segment: "s"}, s()
}

// rows is a read model that is as the log is.
type rows struct {
	Model
	*forgetting
}

func (r rows) Nodes(ctx context.Context) ([]node.Node, uint64, error) {
	last, err := r.log.Last(ctx)
	return nil, last, err
}

func (r rows) Held(context.Context, task.ID, int) ([]task.ID, error) { return nil, nil }

func (r rows) Known(ctx context.Context, ids []task.ID) (all []task.Task, err error) {
	for _, id := range ids {
		records, err := r.log.Task(ctx, id)
		if t := events.FoldTask(id, records); err == nil && t.State != task.Unknown {
			all = append(all, t)
		}
	}
	return all, nil
}

func (r rows) Since(ctx context.Context, ids []task.ID, seq uint64) (later map[task.ID]bool, unknown []task.ID, err error) {
	tasks, err := r.Known(ctx, ids)
	later = map[task.ID]bool{}
	for i := range tasks {
		if tasks[i].Seq >= seq {
			later[tasks[i].ID] = true
		}
	}
	return later, slices.DeleteFunc(slices.Clone(ids), func(id task.ID) bool {
		return slices.ContainsFunc(tasks, func(t task.Task) bool { return t.ID == id })
	}), err
}

// A front of tasks whose jobs or queues keep them for less long than the rest goes as soon as that has
// passed, and what else lies there is carried, however many may stay.
func TestShorterKeepMovesTheHorizon(t *testing.T) {
	w := newForgetting(t)
	brief := func(e *task.Submitted) {
		e.Spec = &job.Spec{Handler: "work", Keep: job.Keep{All: value.Duration(time.Minute)}}
	}
	bulk := func(e *task.Submitted) { e.Route = "bulk.5" }
	f := w.forget()
	f.Model, f.Keeping = rows{forgetting: w}, Keeping{Age: 1000 * time.Hour, Tasks: 1000, Least: 10, Queues: map[string]time.Duration{"bulk": time.Minute}}
	f.Ended = func(context.Context, int) (time.Time, error) { return time.Time{}, nil }
	var short, long []task.ID
	for i := range 40 {
		switch {
		case i%8 == 0:
			long = append(long, w.born(nil, true))
		case i%2 == 0:
			short = append(short, w.born(bulk, true))
		default:
			short = append(short, w.born(brief, true))
		}
	}
	if done := w.move(f); done.Done {
		t.Fatalf("it moved at once: %+v", done)
	}
	w.now = w.now.Add(2 * time.Minute)
	w.say(events.Fact{Job: "calm", Event: limit.Closed{}})
	if done := w.move(f); !done.Done || done.Tasks < len(short)-1 {
		t.Fatalf("it forgot %+v, want %d tasks", done, len(short))
	}
	for _, id := range long {
		if is, err := w.rec.Load(context.Background(), id); err != nil || is.State != task.Cancelled {
			t.Errorf("task %s, which stays, is %s: %v", id, is.State, err)
		}
	}
	w.now = w.now.Add(2 * time.Minute)
	for range 20 {
		w.born(nil, true)
	}
	if done := w.move(f); done.Done {
		t.Errorf("a front of tasks that stay went: %+v", done)
	}
}

// A server begins to hurry only if more may go than in one round, and more than before: what has been there for long
// goes in calm rounds.
func TestServersHurry(t *testing.T) {
	for _, c := range []struct {
		already   bool
		was, left uint64
		want      bool
	}{
		{false, 0, 9_000_000, false}, // the first look
		{false, 9_000_000, 8_900_000, false},
		{false, 9_000_000, 9_100_000, true},
		{true, 9_100_000, 8_900_000, true}, // until it has caught up
		{true, 500_000, 300_000, false},
		{false, 100_000, 250_000, false},
		{false, 250_000, 310_000, true},
	} {
		if got := (&Keeping{}).hurries(c.already, c.was, c.left); got != c.want {
			t.Errorf("from %d to %d: %v", c.was, c.left, got)
		}
	}
	if c := (Keeping{Age: 1, Least: 1, Most: 50}).Choose(Front{First: 1, Aged: Point{Seq: 201}}); c.Below != 51 || c.Left != 150 {
		t.Errorf("chose %+v", c)
	}
}

// The horizon lies where the fewest tasks lie on both sides of it, and as far as it can.
func TestFewestTasksStraddle(t *testing.T) {
	for name, c := range map[string]struct {
		lo, hi uint64
		tasks  [][2]uint64
		want   uint64
	}{
		"none":                            {10, 20, nil, 20},
		"no room":                         {20, 20, [][2]uint64{{5, 30}}, 20},
		"before all":                      {10, 20, [][2]uint64{{15, 25}, {16, 21}}, 15},
		"between two":                     {10, 20, [][2]uint64{{8, 13}, {14, 22}}, 14},
		"the last message may be the end": {10, 20, [][2]uint64{{8, 19}}, 20},
		"all the same":                    {10, 20, [][2]uint64{{1, 90}, {2, 91}}, 20},
		"outside":                         {10, 20, [][2]uint64{{1, 9}, {20, 30}, {25, math.MaxUint64}}, 20},
	} {
		s := newStraddled(c.lo, c.hi)
		for _, is := range c.tasks {
			s.add(is[0], is[1])
		}
		if at := s.fewest(); at != c.want {
			t.Errorf("%s: at %d, want %d", name, at, c.want)
		}
	}
}

// What a read model folds while the horizon moves is heard: of which tasks, and which births ask for. What one
// that begins anew folds counts for nothing.
func TestStirs(t *testing.T) {
	var s Stirs
	tells := func(seq uint64, id task.ID, needs ...task.ID) events.Step {
		r := events.Record{Seq: seq, Fact: events.Fact{Task: id, Event: task.Submitted{}}}
		if len(needs) > 0 {
			of := &task.Needs{}
			for _, id := range needs {
				of.Of = append(of.Of, task.Need{Task: id})
			}
			r.Fact.Event = task.Submitted{Work: task.Work{Needs: of}}
		}
		return events.Step{Record: &r}
	}
	hears := func(when string, id task.ID, stirred bool, upTo uint64) {
		t.Helper()
		if is, reached := s.heard(map[task.ID]bool{id: true}); is != stirred || reached != upTo {
			t.Errorf("%s: of %s it heard %v, and up to %d", when, id, is, reached)
		}
	}
	s.Observe([]events.Step{tells(1, "a")})
	hears("before it listens", "a", false, 0)
	s.listen()
	hears("what came before", "a", false, 1)
	s.Observe(nil)
	s.Observe([]events.Step{tells(2, "b"), tells(4, "c", "d", "e"), tells(5, "")})
	for _, id := range []task.ID{"b", "c", "d", "e"} {
		hears("in a batch", id, true, 0)
	}
	hears("in a batch", "a", false, 5)
	hears("once it was said that nobody stirred", "b", false, 5)
	s.Observe([]events.Step{tells(5, "f")})
	hears("of a read model that begins anew", "f", false, 0)
	s.Observe([]events.Step{tells(6, "f")})
	hears("of a read model that has begun anew", "f", false, 0)
	s.listen()
	s.Observe([]events.Step{tells(7, "g")})
	hears("when it listens again", "g", true, 0)
}

// Of tasks that were submitted all at once, births fill the front. It does not move for the few of them that are
// too many by their number, for all others would be carried, until most of them have ended in it. By age it does.
func TestFrontOfBirthsWaits(t *testing.T) {
	w := newForgetting(t)
	ctx := context.Background()
	f := w.forget()
	f.Model, f.Keeping = rows{forgetting: w}, Keeping{Tasks: 10, Least: 1}
	var ended []time.Time
	f.Ended = func(_ context.Context, n int) (time.Time, error) {
		if len(ended) <= n {
			return time.Time{}, nil
		}
		return ended[len(ended)-1-n], nil
	}
	var ids []task.ID
	for range 100 {
		ids = append(ids, w.born(nil, false))
	}
	moved := 0
	for i, id := range ids {
		is, err := w.rec.Load(ctx, id)
		w.must(nil, err)
		w.now = w.now.Add(time.Minute)
		_, _, err = w.rec.Do(ctx, is, task.Cancel{Reason: "old"})
		w.must(nil, err)
		ended = append(ended, w.now)
		w.now = w.now.Add(time.Minute)
		w.say(events.Fact{Job: "calm", Event: limit.Closed{}})
		if done := w.move(f); done.Done {
			if moved++; i < 50 || done.Chains > 60 {
				t.Errorf("after the end of %d tasks it moved, and carried %d", i+1, done.Chains)
			}
		}
	}
	if moved == 0 {
		t.Error("it never moved")
	}

	w = newForgetting(t)
	w.born(nil, true)
	for range 20 {
		w.born(nil, false)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.say(events.Fact{Job: "calm", Event: limit.Closed{}})
	if done := w.move(w.forget()); !done.Done || done.Tasks != 1 {
		t.Errorf("what is old stays: %+v", done)
	}
	for aged, want := range map[uint64]bool{0: true, 1: true, 5000: false} {
		if c := (Keeping{}).Choose(Front{First: 1, Aged: Point{Seq: aged}, Many: Point{Seq: 9000}}); c.Below != 9000 || c.Waits != want {
			t.Errorf("where %d is too old: %+v", aged, c)
		}
	}
}
