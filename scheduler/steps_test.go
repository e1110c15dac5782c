package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
)

// A graph goes its way by the facts of the log alone. Of a retry whose asker died after the first fact, the
// reopening of the failed step, schedulers do the rest.
func TestStepsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld()
		w.join(t, "n1")
		all := w.run(t, 2)
		does := func(name string, needs ...task.StepNeed) task.Step {
			return task.Step{Name: name, Needs: needs, Spec: task.Spec{Handler: "x"}}
		}
		e, err := task.Birth(task.Submission{Spec: &task.Spec{
			Steps: []task.Step{does("c", task.StepNeed{Step: "b"}), does("b", task.StepNeed{Step: "a"}), does("a")},
			On:    &task.Handlers{Exit: &task.Step{Spec: task.Spec{Handler: "x"}}},
		}}, nil, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		id := task.ID(events.NewID(time.Now()))
		if _, err := w.rec.Submit(t.Context(), id, e); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.tasks = append(w.tasks, id)
		w.mu.Unlock()
		step := func(name string) task.ID { return task.ChildID(id, name) }
		at := w.observed(t, 0, all...)
		w.adopt(t, id)
		settle := func() {
			for range 6 {
				at = w.observed(t, at, all...)
			}
		}
		settle()
		is := func(when string, want map[task.ID]task.State) {
			t.Helper()
			for id, state := range want {
				if now := w.task(t, id); now.State != state {
					t.Errorf("%s: %s is %s (%s), want %s", when, id, now.State, now.Message, state)
				}
			}
		}
		is("at first", map[task.ID]task.State{id: task.Running, step("a"): task.Pending, step("b"): task.Held, step("c"): task.Held, step(task.OnExit): task.Held})

		now := w.claim(t, step("a"), "n1")
		if _, _, err := w.rec.Do(t.Context(), now, task.Fail{Epoch: now.Epoch, Class: task.ReasonTask, Final: true}); err != nil {
			t.Fatal(err)
		}
		settle()
		is("a has failed", map[task.ID]task.State{id: task.Running, step("b"): task.Cancelled, step("c"): task.Cancelled, step(task.OnExit): task.Pending})
		w.finish(t, step(task.OnExit), "n1")
		settle()
		is("the handler has run", map[task.ID]task.State{id: task.Error})

		if _, _, err := w.rec.Do(t.Context(), w.task(t, step("a")), task.Reopen{}); err != nil {
			t.Fatal(err)
		}
		settle()
		is("a has another life", map[task.ID]task.State{id: task.Running, step("b"): task.Held, step("c"): task.Held})
		again := w.task(t, step("a"))
		if err := w.rec.Settle(t.Context(), &again); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			w.finish(t, step(name), "n1")
			settle()
		}
		is("all is well", map[task.ID]task.State{id: task.Finished, step("c"): task.Finished})
	})
}
