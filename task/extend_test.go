package task

import (
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

func TestExtend(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		run, more   time.Duration
		state       State
		extended    time.Duration // since the start; 0 for none
		asked, want time.Duration // since the start; want 0 for no fact
	}{
		{"more time", time.Minute, 0, Running, 0, 90 * time.Second, 90 * time.Second},
		{"at most as long again", time.Minute, 0, Running, 0, time.Hour, 2 * time.Minute},
		{"at most what the task allows", time.Minute, 10 * time.Second, Running, 0, time.Hour, 70 * time.Second},
		{"more than as long again, if allowed", time.Minute, time.Hour, Running, 0, 30 * time.Minute, 30 * time.Minute},
		{"holds already", time.Minute, 0, Running, 0, 50 * time.Second, 0},
		{"was granted already", time.Minute, 0, Running, 100 * time.Second, 90 * time.Second, 0},
		{"all is granted", time.Minute, 0, Running, 2 * time.Minute, time.Hour, 0},
		{"no timeout", 0, 0, Running, 0, time.Hour, 0},
		{"being cancelled", time.Minute, 0, Cancelling, 0, 90 * time.Second, 0},
	} {
		task := Task{State: c.state, Epoch: 7, Attempt: 2, StartedAt: start}
		task.Spec = &job.Spec{Timeout: job.Timeout{Run: value.Duration(c.run), Extend: value.Duration(c.more)}}
		if c.extended > 0 {
			task.Extended = start.Add(c.extended)
		}
		e, err := Decide(task, Extend{Epoch: 7, Until: start.Add(c.asked)}, start)
		got := time.Duration(0)
		if e, ok := e.(AttemptExtended); ok {
			got = e.Until.Sub(start)
			if after := Evolve(task, Recorded{Seq: 9, Chain: true, At: start, Event: e}); !after.RunUntil().Equal(e.Until) {
				t.Errorf("%s: afterwards it runs until %v, want %v", c.name, after.RunUntil(), e.Until)
			}
		}
		if err != nil || got != c.want {
			t.Errorf("%s: until %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	if _, err := Decide(Task{State: Running, Epoch: 8}, Extend{Epoch: 7}, start); err == nil {
		t.Error("a fenced attempt is extended")
	}
}

func TestChildID(t *testing.T) {
	const parent = ID("01JNA0TASK0000000000000000")
	a, b := ChildID(parent, "a"), ChildID(parent, "b")
	if a != ChildID(parent, "a") || a == b || a[:10] != parent[:10] {
		t.Errorf("children %s and %s", a, b)
	}
	for _, id := range []ID{a, b, ChildID(parent, "")} {
		if got, err := ParseID(string(id)); err != nil || got != id {
			t.Errorf("%s is no id: %v", id, err)
		}
	}
}
