package task_test

import (
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

func TestExtend(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		run, more   time.Duration
		state       task.State
		extended    time.Duration // since the start; 0 for none
		asked, want time.Duration // since the start; want 0 for no fact
	}{
		{"more time", time.Minute, 0, task.Running, 0, 90 * time.Second, 90 * time.Second},
		{"at most as long again", time.Minute, 0, task.Running, 0, time.Hour, 2 * time.Minute},
		{"at most what the task allows", time.Minute, 10 * time.Second, task.Running, 0, time.Hour, 70 * time.Second},
		{"more than as long again, if allowed", time.Minute, time.Hour, task.Running, 0, 30 * time.Minute, 30 * time.Minute},
		{"holds already", time.Minute, 0, task.Running, 0, 50 * time.Second, 0},
		{"was granted already", time.Minute, 0, task.Running, 100 * time.Second, 90 * time.Second, 0},
		{"all is granted", time.Minute, 0, task.Running, 2 * time.Minute, time.Hour, 0},
		{"no timeout", 0, 0, task.Running, 0, time.Hour, 0},
		{"being cancelled", time.Minute, 0, task.Cancelling, 0, 90 * time.Second, 0},
	} {
		one := task.Task{State: c.state, Epoch: 7, Attempt: 2, StartedAt: start}
		one.Spec = &job.Spec{Timeout: job.Timeout{Run: value.Duration(c.run), Extend: value.Duration(c.more)}}
		if c.extended > 0 {
			one.Extended = start.Add(c.extended)
		}
		e, err := task.Decide(one, task.Extend{Epoch: 7, Until: start.Add(c.asked)}, start)
		got := time.Duration(0)
		if e, ok := e.(task.AttemptExtended); ok {
			got = e.Until.Sub(start)
			if after := task.Evolve(one, task.Recorded{Seq: 9, Chain: true, At: start, Event: e}); !after.RunUntil().Equal(e.Until) {
				t.Errorf("%s: afterwards it runs until %v, want %v", c.name, after.RunUntil(), e.Until)
			}
		}
		if err != nil || got != c.want {
			t.Errorf("%s: until %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	if _, err := task.Decide(task.Task{State: task.Running, Epoch: 8}, task.Extend{Epoch: 7}, start); err == nil {
		t.Error("a fenced attempt is extended")
	}
}

func TestChildID(t *testing.T) {
	const parent = task.ID("01JNA0TASK0000000000000000")
	a, b := birth.ChildID(parent, "a"), birth.ChildID(parent, "b")
	if a != birth.ChildID(parent, "a") || a == b || a[:10] != parent[:10] {
		t.Errorf("children %s and %s", a, b)
	}
	for _, id := range []task.ID{a, b, birth.ChildID(parent, "")} {
		if got, err := task.ParseID(string(id)); err != nil || got != id {
			t.Errorf("%s is no id: %v", id, err)
		}
	}
}
