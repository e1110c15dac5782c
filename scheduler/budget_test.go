package scheduler

import (
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

// A budget holds over restarts and changes of the scheduler. Waiting tasks are admitted in order
// when the next day begins, without any other event.
func TestABudgetOfStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		stop := admitting(t.Context(), w, w.Memory)
		spec := job.Spec{Budget: limit.Budgets{{Starts: 3, Key: "/k"}}, Retry: job.Retry{Max: 2, Min: value.Duration(time.Second)}}
		var ids []task.ID
		for n := range 5 {
			ids = append(ids, w.submitLimited(t, n, spec))
			time.Sleep(10 * time.Millisecond)
		}
		for _, want := range ids[:2] {
			id, end := w.runOne(t, "n")
			if id != want {
				t.Fatalf("%q started, want %s", id, want)
			}
			end(nil)
		}
		stop()
		stop = admitting(t.Context(), w, w.Memory)
		time.Sleep(time.Second)
		third, end := w.runOne(t, "n")
		if third != ids[2] {
			t.Fatalf("after a restart %q started, want %s", third, ids[2])
		}
		end(task.Fail{Class: value.Task})
		stop() // the next scheduler knows only the log
		defer admitting(t.Context(), w, w.Memory)()
		for range 23 {
			time.Sleep(time.Hour)
			if id, _ := w.runOne(t, "n"); id != "" {
				t.Fatalf("%s started, and three attempts have", id)
			}
		}
		time.Sleep(time.Hour)
		var next []task.ID
		for range 4 {
			if id, _ := w.runOne(t, "n"); id != "" {
				next = append(next, id)
			}
		}
		if slices.Sort(next); !slices.Equal(next, ids[2:]) { // its second attempt counts again
			t.Errorf("on the next day %v started, want %v", next, ids[2:])
		}
	})
}

// The run time of attempts counts where they end, whichever scheduler decides then.
func TestABudgetOfRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		spec := job.Spec{Budget: limit.Budgets{{Run: value.Duration(3 * time.Hour)}}}
		stop := admitting(t.Context(), w, w.Memory)
		var ids []task.ID
		for n := range 5 {
			ids = append(ids, w.submitLimited(t, n, spec))
			time.Sleep(10 * time.Millisecond)
		}
		starts := func(want ...task.ID) (ends []func(task.Command)) {
			t.Helper()
			stop() // another scheduler makes each step
			stop = admitting(t.Context(), w, w.Memory)
			time.Sleep(time.Second)
			for _, id := range slices.Concat(want, []task.ID{""}) {
				is, end := w.runOne(t, "n")
				if is != id {
					t.Fatalf("%q started, want %q", is, id)
				}
				ends = append(ends, end)
			}
			return ends
		}
		first := starts(ids[0]) // the run time of such tasks is unknown
		starts()
		time.Sleep(time.Hour)
		first[0](nil)
		second := starts(ids[1:3]...) // one hour is used up, two are left for these
		time.Sleep(time.Minute)
		second[0](task.Fail{Class: value.Task, Final: true})
		third := starts(ids[3:]...) // such tasks take a minute now
		time.Sleep(3 * time.Hour)
		for _, end := range []func(task.Command){second[1], third[0], third[1]} {
			end(nil)
		}
		last := w.submitLimited(t, 9, spec)
		starts()
		time.Sleep(24 * time.Hour)
		starts(last)
		stop()
	})
}

// A batch may report a task that is further than the batch's first fact. Even then every start
// counts at every moment.
func TestABudgetIsNeverForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		s := limitedScheduler(w, w.Memory)
		spec := job.Spec{Budget: limit.Budgets{{Starts: 1, Key: "/k"}}}
		first := w.submitLimited(t, 1, spec)
		w.submitLimited(t, 2, spec)
		s.seeAll()
		if _, err := s.Admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, end := w.runOne(t, "n")
		end(nil)
		now, k := w.task(t, first), task.Task{}
		for _, r := range w.All() {
			if r.Fact.Task != first {
				continue
			}
			was := events.GlanceAt(&k)
			if k = task.Evolve(k, r.Task()); r.Seq <= s.admitter.observed.Load() {
				continue
			}
			s.Observe([]events.Step{{Record: &r, Was: was, Is: events.GlanceAt(&k), Task: &now}})
			if parts, _, err := s.admitter.decide(t.Context()); err != nil || len(parts) > 0 {
				t.Fatalf("%d are admitted after %s, %v", len(parts), r.Fact.Type, err)
			}
		}
		if k.State != task.Finished {
			t.Errorf("it was told of up to %s", k.State)
		}
	})
}
