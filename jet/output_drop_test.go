package jet

import (
	"slices"
	"testing"

	"millrace/task"
)

func TestDropOutput(t *testing.T) {
	t.Parallel()
	s := newStore(t, Layout{})
	id, other := newTask(), newTask()
	marker := task.Lines{Task: id, Attempt: 1, Epoch: 7, Lines: []task.Line{{N: 1, Stream: task.System, Text: "dropped"}}}
	drop := func(want bool) {
		t.Helper()
		if did, err := s.DropOutput(within(t), marker); did != want || err != nil {
			t.Fatalf("DropOutput: %v, %v; want %v", did, err, want)
		}
	}
	drop(false)
	for i := range 3 {
		if err := s.Print(within(t), lines(id, 5*i+1, 5)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Print(within(t), lines(other, 1, 5)); err != nil {
		t.Fatal(err)
	}
	drop(true)
	drop(false)
	if n := printed(t, s, id); n != 1 {
		t.Errorf("%d lines are left, want the marker", n)
	}
	if n := printed(t, s, other); n != 5 {
		t.Errorf("of another task %d lines are left, want 5", n)
	}
	if err := s.Print(within(t), lines(id, 2, 5)); err != nil { // it was retried
		t.Fatal(err)
	}
	drop(true)
	ids, err := s.OutputTasks(within(t))
	if slices.Sort(ids); err != nil || len(ids) != 2 || !slices.Contains(ids, id) {
		t.Errorf("OutputTasks: %v, %v", ids, err)
	}
}
