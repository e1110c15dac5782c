package scheduler

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// handled is a step that needs others.
func handled(name string, needs ...job.StepNeed) job.Step {
	return job.Step{Name: name, Needs: needs, Spec: job.Spec{Handler: "x"}}
}

// A graph proceeds by the facts of the log alone. If a process reopens a failed step, schedulers do
// the rest: they reopen its parent, the skipped steps and the handler that has run.
func TestStepsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.run(t, 2)
		id := w.asked(t, job.Spec{
			Steps: []job.Step{handled("c", job.StepNeed{Step: "b"}), handled("b", job.StepNeed{Step: "a"}), handled("a")},
			On:    &job.Handlers{Exit: &job.Step{Spec: job.Spec{Handler: "x"}}},
		})
		step := func(name string) task.ID { return birth.ChildID(id, name) }
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
		is("at first", map[task.ID]task.State{id: task.Running, step("a"): task.Pending, step("b"): task.Held, step("c"): task.Held, step(job.OnExit): task.Held})

		now := w.claim(t, step("a"), "n1")
		if _, _, err := w.rec.Do(t.Context(), now, task.Fail{Epoch: now.Epoch, Class: value.Task, Final: true}); err != nil {
			t.Fatal(err)
		}
		settle()
		is("a has failed", map[task.ID]task.State{id: task.Running, step("b"): task.Cancelled, step("c"): task.Cancelled, step(job.OnExit): task.Pending})
		w.finish(t, step(job.OnExit), "n1")
		settle()
		is("the handler has run", map[task.ID]task.State{id: task.Error})

		if _, _, err := w.rec.Do(t.Context(), w.task(t, step("a")), task.Reopen{}); err != nil {
			t.Fatal(err)
		}
		settle()
		is("a has another life", map[task.ID]task.State{id: task.Running, step("b"): task.Held, step("c"): task.Held, step(job.OnExit): task.Held})
		again := w.task(t, step("a"))
		if err := w.rec.Settle(t.Context(), &again); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c", job.OnExit} {
			w.finish(t, step(name), "n1")
			settle()
		}
		is("all is well", map[task.ID]task.State{id: task.Finished, step("c"): task.Finished})
	})
}

// The inputs of steps and the text of their parent's end are decided again from the log: results
// that are left out because they are too large, lists, and messages that are cut in the middle of a
// character.
func TestResultsAndMessagesOfStepsAreDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.run(t, 1)
		list := handled("list", job.StepNeed{Step: "a"})
		list.Each = &job.Each{Result: "a"}
		id := w.asked(t, job.Spec{
			Steps: []job.Step{handled("a"), handled("large"), handled("bad"), handled("worse"), list},
			On:    &job.Handlers{Exit: &job.Step{Spec: job.Spec{Handler: "x"}}},
		})
		step := func(name string) task.ID { return birth.ChildID(id, name) }
		at := w.observed(t, 0, all...)
		w.adopt(t, id)
		settle := func() {
			t.Helper()
			for range 6 {
				at = w.observed(t, at, all...)
			}
		}
		settle()
		done := func(id task.ID, result string) {
			t.Helper()
			now := w.claim(t, id, "n1")
			w.do(t, now, task.Finish{Epoch: now.Epoch, Result: json.RawMessage(result)})
		}
		fails := func(id task.ID, message string) {
			t.Helper()
			now := w.claim(t, id, "n1")
			w.do(t, now, task.Fail{Epoch: now.Epoch, Class: value.Exit, Message: message, Final: true})
		}
		done(step("a"), ` [ "one < two",	"two" ] `)
		done(step("large"), `"`+strings.Repeat("<", job.MaxInputs-20)+`"`)
		fails(step("bad"), strings.Repeat("x", 239)+strings.Repeat("é", 100))
		fails(step("worse"), "it said: bad failed (error/exit: 7); nothing")
		settle()
		w.adopt(t, step("list"))
		settle()
		done(birth.ChildID(step("list"), "0"), `{"n":1}`)
		done(birth.ChildID(step("list"), "1"), "")
		settle()
		done(step(job.OnExit), `"over"`)
		settle()
		now, end := w.task(t, id), w.task(t, step(job.OnExit))
		if want := `{"a":["one < two","two"],"list":[{"n":1},null],"on-exit":"over"}`; now.State != task.Error || string(now.Result) != want {
			t.Errorf("it is %s with %s, want %s", now.State, now.Result, want)
		}
		if len(end.Inputs) == 0 || len(end.Inputs) > 2000 || w.task(t, step("list")).State != task.Finished {
			t.Errorf("the handler was told %d bytes: %.300s", len(end.Inputs), end.Inputs)
		}
		var told map[string]task.Input
		if err := json.Unmarshal(end.Inputs, &told); err != nil || told["a"].Detail != nil || told["bad"].Detail == nil || told["worse"].Detail == nil {
			t.Fatalf("the handler was told %s: %v", end.Inputs, err)
		}
		if d := told["bad"]; d.Attempts != 1 || len(d.Cause) < 400 || told["worse"].Cause != "it said: bad failed (error/exit: 7); nothing" {
			t.Errorf("of what failed it was told %+v and %+v", d.Detail, told["worse"].Detail)
		}
	})
}

// The end of a parent with a stranger under a child's id is decided again as well.
func TestStrangeChildIsDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.run(t, 1)
		id := w.asked(t, job.Spec{Steps: []job.Step{handled("a")}})
		forged := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "y"}, Route: "default.5", Parent: id}}
		if _, err := w.rec.Submit(t.Context(), birth.ChildID(id, "a"), forged); err != nil {
			t.Fatal(err)
		}
		at := w.observed(t, 0, all...)
		w.adopt(t, id)
		w.finish(t, birth.ChildID(id, "a"), "n1")
		for range 3 {
			at = w.observed(t, at, all...)
		}
		if now := w.task(t, id); now.State != task.Error || now.Reason != value.System {
			t.Errorf("it is %s (%s)", now.State, now.Message)
		}
	})
}
