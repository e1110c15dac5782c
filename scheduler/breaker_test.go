package scheduler

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// judged is a world in which schedulers judge the breaker of job j.
type judged struct {
	*testWorld
	t    *testing.T
	spec *job.Spec
}

// watch makes a scheduler observe the log, as its projector would.
func (w *judged) watch() { w.watchFrom(1, Config{Settings: settings}, "") }

// watchFrom is watch for a scheduler that observes the log from a sequence on.
func (w *judged) watchFrom(seq uint64, cfg Config, name string) (stop func()) {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w.t.Cleanup(func() { stop(); synctest.Wait() })
	feed, err := w.Follow(ctx, seq)
	if err != nil {
		w.t.Fatal(err)
	}
	s := New(w.Memory, w, w, cfg)
	s.turns.Name = name
	go func() {
		tasks := map[task.ID]task.Task{}
		for {
			records, err := feed.Next(ctx)
			if err != nil {
				return
			}
			steps := make([]events.Step, len(records))
			for i := range records {
				k := tasks[records[i].Fact.Task]
				steps[i] = events.Step{Record: &records[i], Was: events.GlanceAt(&k)}
				k = task.Evolve(k, records[i].Task())
				steps[i].Is = events.GlanceAt(&k)
				tasks[records[i].Fact.Task] = k
			}
			s.Observe(steps)
		}
	}()
	go func() { _ = s.Run(ctx) }()
	return stop
}

// attempt runs a task of the job to its end.
func (w *judged) attempt(fails bool) {
	w.t.Helper()
	id := task.ID(events.NewID(time.Now()))
	if _, err := w.rec.Submit(w.t.Context(), id, task.Submitted{Work: task.Work{Job: "j", Spec: w.spec, Route: "default.5"}}); err != nil {
		w.t.Fatal(err)
	}
	k, _, err := w.rec.Do(w.t.Context(), w.task(w.t, id), task.Claim{Node: "n", Session: "s"})
	if err != nil {
		w.t.Fatal(err)
	}
	var end task.Command = task.Finish{Epoch: k.Epoch}
	if fails {
		end = task.Fail{Epoch: k.Epoch, Class: value.Exit}
	}
	if _, _, err := w.rec.Do(w.t.Context(), k, end); err != nil {
		w.t.Fatal(err)
	}
	pass(10 * time.Millisecond)
}

// told lists the types of the facts about breakers.
func (w *judged) told() (types []events.Type) {
	for _, r := range w.All() {
		if r.Kind == events.KindBreaker {
			types = append(types, r.Fact.Type)
		}
	}
	return types
}

// With any number of schedulers, each change of a breaker is recorded once.
func TestBreakerIsJudgedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &judged{newTestWorld(t), t, &job.Spec{Handler: "h",
			Breaker: &limit.Breaker{Failures: 3, Within: value.Duration(time.Minute), Cooldown: value.Duration(20 * time.Second)}}}
		w.join(t, "n")
		for range 3 {
			w.watch()
		}
		want := func(types ...events.Type) {
			t.Helper()
			if got := w.told(); !slices.Equal(got, types) {
				t.Fatalf("the facts are %v, want %v", got, types)
			}
		}
		for _, fails := range []bool{true, false, true} {
			w.attempt(fails)
		}
		pass(time.Second)
		want()
		w.attempt(true)
		pass(time.Second)
		want(events.BreakerOpened)
		pass(18 * time.Second)
		want(events.BreakerOpened)
		pass(2 * time.Second)
		want(events.BreakerOpened, events.BreakerHalfOpened)
		w.attempt(true)
		pass(time.Second)
		want(events.BreakerOpened, events.BreakerHalfOpened, events.BreakerOpened)
		pass(20 * time.Second)
		w.watch() // a scheduler that knows nothing of the past
		w.attempt(false)
		pass(time.Second)
		want(events.BreakerOpened, events.BreakerHalfOpened, events.BreakerOpened, events.BreakerHalfOpened, events.BreakerClosed)
		pass(time.Hour)
		want(events.BreakerOpened, events.BreakerHalfOpened, events.BreakerOpened, events.BreakerHalfOpened, events.BreakerClosed)
	})
}

// The scheduler that goes first with a breaker may have started too late to know what the others
// know, or be dead.
func TestABreakerIsNotLeftToOneThatKnowsLess(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := &judged{newTestWorld(t), t, &job.Spec{Handler: "h",
				Breaker: &limit.Breaker{Failures: 3, Within: value.Duration(time.Minute), Cooldown: value.Duration(20 * time.Second)}}}
			w.join(t, "n")
			first, second := "one", "two"
			if Weight(second, "j") > Weight(first, "j") {
				first, second = second, first
			}
			cfg := Config{Settings: settings, Peers: &peers{}, Last: w.Last}
			w.watchFrom(1, cfg, second)
			w.attempt(true)
			w.attempt(true)
			last, err := w.Last(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stop := w.watchFrom(last+1, cfg, first)
			pass(2 * Patience)
			if dies {
				stop()
			}
			w.attempt(true)
			pass(Patience / 4)
			if got := w.told(); len(got) > 0 {
				t.Errorf("the second one does not wait: %v", got)
			}
			pass(Patience + Patience/4)
			if got := w.told(); !slices.Equal(got, []events.Type{events.BreakerOpened}) {
				t.Errorf("the facts are %v, want that it opened", got)
			}
		})
	}
}
