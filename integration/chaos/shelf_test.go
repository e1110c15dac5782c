package chaos

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
)

// TestShelf checks that a version is recognized by all of its bytes, and by nothing else.
func TestShelf(t *testing.T) {
	s, err := newShelf(filepath.Join(t.TempDir(), "a"), 7, 2)
	if err != nil {
		t.Fatal(err)
	}
	again, err := newShelf(filepath.Join(t.TempDir(), "b"), 7, 2)
	if err != nil || !slices.Equal(again.sums, s.sums) || s.sums[0] == s.sums[1] {
		t.Fatalf("sums %v, then %v, %v", s.sums, again.sums, err)
	}
	ends := func(want int) {
		t.Helper()
		cmd := exec.Command("sh", "-c", s.check(1, "0"))
		cmd.Dir = s.version(1)
		err, code := cmd.Run(), 0
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		if code != want {
			t.Errorf("it ends with %d (%v), want %d", code, err, want)
		}
	}
	ends(0)
	stranger := filepath.Join(s.version(1), "data", "stranger")
	if err := os.WriteFile(stranger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ends(exitBytes)
	if err := errors.Join(os.Remove(stranger), scribble(filepath.Join(s.version(1), "large"), 5<<20)); err != nil {
		t.Fatal(err)
	}
	ends(exitBytes)
}

// TestShelfJudges checks how the shelf judges tasks with files.
func TestShelfJudges(t *testing.T) {
	s := &shelf{dir: t.TempDir(), sums: []string{"x"}}
	if err := os.WriteFile(PushedFile(s.version(1)), []byte("digest"), 0o600); err != nil {
		t.Fatal(err)
	}
	orders := workload(1, 20*time.Second, 10, 0, time.Second)
	s.fill(orders, 1, 20*time.Second)
	with := slices.IndexFunc(orders, func(o order) bool { return o.version > 0 })
	other := slices.IndexFunc(orders, func(o order) bool { return o.version == 0 })
	code, fails := exitBytes, 7
	var log []events.Record
	fact := func(id task.ID, e task.Event) {
		log = append(log, events.Record{Seq: uint64(len(log) + 1), Fact: events.Fact{Task: id, Event: e}})
	}
	born := func(id task.ID, o order) { fact(id, task.Submitted{Work: task.Work{Labels: o.submission.Labels}}) }
	born("good", orders[with])
	born("wrong", orders[with])
	born("none", orders[other])
	fact("good", task.AttemptFailed{Class: value.System, Retry: &task.RetryPlan{}})
	fact("good", task.AttemptFinished{})
	fact("wrong", task.AttemptFailed{Exit: &code})
	fact("none", task.AttemptFailed{Exit: &fails})
	r, broken, odd := s.judge(log)
	if r.Versions != 1 || r.Tasks != 1 || len(broken) != 1 || len(odd) != 0 {
		t.Errorf("%+v, broken %q, odd %q", r, broken, odd)
	}
}
