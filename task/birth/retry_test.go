package birth_test

import (
	"fmt"
	"reflect"
	"testing"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// What a reopened parent reopens follows from the retry and from the ends of its children: an end
// since the retry counts.
func TestReopens(t *testing.T) {
	ok, runs := task.End{State: task.Finished, Seq: 40}, task.End{State: task.Running}
	bad := task.End{State: task.Error, Reason: value.Exit, Seq: 41}
	user := task.End{State: task.Cancelled, Reason: value.User, Seq: 42}
	skip := task.End{State: task.Cancelled, Reason: value.Skipped, Seq: 43}
	since := func(e task.End) task.End { e.Seq += 100; return e }
	reopened := func(e task.End, life uint64) task.End { e.Life = life; return e }
	h := job.Step{Spec: job.Spec{Handler: "h"}}
	graph := expandedTask(t, job.Spec{Steps: []job.Step{does("a"), does("b", need("a", "")), does("c", need("b", "")), does("d")}, On: &job.Handlers{Exit: &h}}, nil)
	type ends = map[string]task.End
	for _, row := range []struct {
		name, again string
		ends        ends
		want        [][]string
	}{
		{"all that did not finish", task.AllAgain, ends{"a": ok, "b": bad, "c": skip, "d": user, job.OnExit: ok}, [][]string{{"d"}, {"b"}, {"c"}, {job.OnExit}}},
		{"they ended since", task.AllAgain, ends{"a": ok, "b": since(bad), "c": since(skip), "d": since(user), job.OnExit: since(ok)}, nil},
		{"one of them has come alive", task.AllAgain, ends{"a": ok, "b": runs, "c": skip, "d": user, job.OnExit: skip}, [][]string{{"d"}, {"c"}, {job.OnExit}}},
		{"only a handler failed", task.AllAgain, ends{"a": ok, "b": ok, "c": ok, "d": ok, job.OnExit: bad}, [][]string{{job.OnExit}}},
		{"all finished", task.AllAgain, ends{"a": ok, "b": ok, "c": ok, "d": ok, job.OnExit: ok}, nil},
		{"one, which takes others along", "b", ends{"a": ok, "b": bad, "c": skip, "d": bad, job.OnExit: ok}, [][]string{{"b"}, {"c"}, {job.OnExit}}},
		{"one that finished", "a", ends{"a": ok, "b": ok, "c": ok, "d": bad, job.OnExit: ok}, [][]string{{"a"}, {job.OnExit}}},
		{"one that was skipped", "c", ends{"a": ok, "b": bad, "c": skip, "d": ok, job.OnExit: ok}, [][]string{{"c"}, {job.OnExit}}},
		{"one below a child", "b/0/1", ends{"a": ok, "b": bad, "c": ok, "d": ok, job.OnExit: ok}, [][]string{{"b"}, {job.OnExit}}},
		{"one that is not there", "z", ends{"a": ok, "b": bad, "c": ok, "d": ok, job.OnExit: ok}, nil},
		{"none", "", ends{"a": bad, "b": ok, "c": ok, "d": user, job.OnExit: ok}, nil},
		{"a step was reopened on its own", "", ends{"a": ok, "b": ok, "c": ok, "d": reopened(runs, 99), job.OnExit: ok}, [][]string{{job.OnExit}}},
		{"and has ended since", "", ends{"a": ok, "b": ok, "c": ok, "d": reopened(since(ok), 99), job.OnExit: ok}, [][]string{{job.OnExit}}},
		{"and the handler has run since", "", ends{"a": ok, "b": ok, "c": ok, "d": reopened(ok, 30), job.OnExit: ok}, nil},
	} {
		p := graph
		p.Life, p.Again = 100, row.again
		if row.again == "" {
			p.Life = 0
		}
		known := endsBy(&p, row.ends)
		if got := birth.Reopens(&p, known); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: it reopens %v, want %v", row.name, got, row.want)
		}
		if _, ends := birth.Follow(&p, known); ends && len(birth.Owed(&p, known)) > 0 {
			t.Errorf("%s: it ends before", row.name)
		}
		for _, state := range []task.State{task.Cancelling, task.Error, task.Held} {
			p.State = state
			if got := birth.Reopens(&p, known); got != nil {
				t.Errorf("%s: when it is %s it reopens %v", row.name, state, got)
			}
		}
	}
}

// A retry is one fact on the highest parent that has ended, and what follows from it below gets to
// the task that was meant, and no further.
func TestRetryOfALine(t *testing.T) {
	h := job.Spec{Handler: "x"}
	item := job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll}} // the value of a list, once for each node
	type line = []birth.Member
	m := func(name string, s *job.Spec, state task.State) birth.Member {
		return birth.Member{Name: name, Task: task.Task{ID: task.ID(name), State: state, EndSeq: 9, Work: task.Work{Spec: s}, Children: &task.Children{}}}
	}
	for _, row := range []struct {
		line  line
		top   int
		again string
	}{
		{line{m("", &h, task.Error)}, 0, ""},
		{line{m("", &item, task.Error)}, 0, task.AllAgain},
		{line{m("a", &h, task.Error), m("", &item, task.Running)}, 0, ""},
		{line{m("a", &h, task.Finished), m("", &item, task.Finished)}, 1, "a"},
		{line{m("a", &item, task.Error), m("", &item, task.Cancelled)}, 1, "a"},
		{line{m("n1", &h, task.Error), m("0", &item, task.Error), m("a", &item, task.Error), m("", &item, task.Error)}, 3, "a/0/n1"},
		{line{m("n1", &h, task.Error), m("0", &item, task.Error), m("a", &item, task.Running), m("", &item, task.Error)}, 1, "n1"},
	} {
		name := fmt.Sprintf("%d tasks, %s", len(row.line), row.again)
		top, again := birth.Retry(row.line)
		if top != row.top || again != row.again {
			t.Errorf("%s: %q of number %d, want number %d", name, again, top, row.top)
		}
		now := row.line[top].Task
		now.State, now.Life, now.Again = task.Running, 10, again
		after := append(append(line{}, row.line[:top]...), birth.Member{Task: now, Name: row.line[top].Name})
		if top > 0 && !birth.LivesAgain(after) {
			t.Errorf("%s: nobody knows that it lives again", name)
		}
		for i := top - 1; i >= 0; i-- {
			again = birth.Below(again, &row.line[i].Task)
		}
		if want := map[bool]string{true: task.AllAgain}[row.line[0].Spec.Parental()]; again != want {
			t.Errorf("%s: it gets to the task as %q, want %q", name, again, want)
		}
		if top > 0 {
			after[0].EndSeq = 11
			if birth.LivesAgain(after) {
				t.Errorf("%s: it has ended since, and lives again once more", name)
			}
		}
	}
}
