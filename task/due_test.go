package task_test

import (
	"errors"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/placement"
	"millrace/task/tasktest"
)

// Which of two timers of a task stays.
func TestTimerReplaces(t *testing.T) {
	here, there := placement.Route("q.5"), placement.Route("other.5")
	for name, c := range map[string]struct {
		mine, there task.Due
		want        bool
	}{
		"the same":                 {turned(7, here, tasktest.Noon), turned(7, here, tasktest.Noon.In(time.FixedZone("", 3600))), false},
		"a later turn":             {turned(8, here, tasktest.Noon), turned(7, here, tasktest.Noon), true},
		"an earlier turn":          {turned(7, here, tasktest.Noon.Add(time.Hour)), turned(8, here, tasktest.Noon), false},
		"a birth's, behind a move": {turned(0, here, tasktest.Noon), turned(8, there, tasktest.Noon), false},
		"another time, of nobody":  {turned(7, here, tasktest.Noon), turned(7, here, tasktest.Noon.Add(time.Hour)), true},
		"another route, of nobody": {turned(7, here, tasktest.Noon), turned(7, there, tasktest.Noon), true},
		"a second birth's":         {turned(0, here, tasktest.Noon), turned(0, here, tasktest.Noon.Add(time.Second)), false},
	} {
		if got := c.mine.Replaces(c.there); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// Which timers are removed by a removal that knows the task up to a fact.
func TestTimerBefore(t *testing.T) {
	for _, c := range []struct {
		turn, head uint64
		want       bool
	}{{0, 0, false}, {0, 1, true}, {7, 8, true}, {8, 8, false}, {9, 8, false}} {
		if got := (task.Due{After: c.turn}).Before(c.head); got != c.want {
			t.Errorf("turn %d, removed at %d: %t, want %t", c.turn, c.head, got, c.want)
		}
	}
}

// A timer's message counts only for the turn and the route of a task that still waits in it.
func TestDue(t *testing.T) {
	limited := tasktest.After(tasktest.Scheduled)
	first := limited[0].(task.Submitted)
	first.Holds = []string{task.HoldLimit}
	limited[0] = first
	signalled := tasktest.After(tasktest.Scheduled)
	first.Holds = []string{task.HoldSignal}
	signalled[0] = first
	moved := tasktest.After(tasktest.Scheduled, task.Reassigned{From: tasktest.Work.Route, To: "other.5"})
	due := func(events []task.Event, e task.Due, stored time.Time) task.Task {
		return task.Evolve(tasktest.Given(events...), task.Recorded{Seq: 100, At: stored, Event: e})
	}
	route := tasktest.Given(tasktest.Scheduled...).Route
	for name, c := range map[string]struct {
		task task.Task
		want bool
	}{
		"in time":                    {due(tasktest.Scheduled, turned(0, route, tasktest.Delayed.Due), tasktest.Delayed.Due), true},
		"late":                       {due(tasktest.Scheduled, turned(0, route, tasktest.Delayed.Due), tasktest.Delayed.Due.Add(time.Hour)), true},
		"by another server's clock":  {due(tasktest.Scheduled, turned(0, route, tasktest.Delayed.Due), tasktest.Delayed.Due.Add(-task.TimerError)), true},
		"early":                      {due(tasktest.Scheduled, turned(0, route, tasktest.Delayed.Due), tasktest.Delayed.Due.Add(-2*task.TimerError)), false},
		"early, and says otherwise":  {due(tasktest.Scheduled, turned(0, route, tasktest.Delayed.Due.Add(-time.Hour)), tasktest.Delayed.Due.Add(-time.Minute)), false},
		"of another turn":            {due(tasktest.Scheduled, turned(1, route, tasktest.Delayed.Due), tasktest.Delayed.Due), false},
		"on another route":           {due(tasktest.Scheduled, turned(0, "other.5", tasktest.Delayed.Due), tasktest.Delayed.Due), false},
		"of the turn before a move":  {due(moved, turned(0, route, tasktest.Delayed.Due), tasktest.Delayed.Due), false},
		"after a move":               {due(moved, turned(2, "other.5", tasktest.Delayed.Due), tasktest.Delayed.Due), true},
		"held by a limit":            {due(limited, turned(0, route, tasktest.Delayed.Due), tasktest.Delayed.Due), false},
		"held by a signal":           {due(signalled, turned(0, route, tasktest.Delayed.Due), tasktest.Delayed.Due), false},
		"of a task that has started": {due(tasktest.Running, turned(0, route, tasktest.Noon), tasktest.At(90)), false},
		"of a task that nobody has":  {due(nil, turned(0, route, tasktest.Noon), tasktest.Noon), false},
	} {
		is := c.task
		if got := is.State == task.Pending && is.Offered; got != c.want {
			t.Errorf("%s: it is %s, offered %t; want %t", name, is.State, is.Offered, c.want)
		}
	}
	got := due(tasktest.Scheduled, turned(0, route, tasktest.Delayed.Due), tasktest.Delayed.Due.Add(time.Second))
	if !got.Since.Equal(tasktest.Delayed.Due) || !got.Due.Equal(tasktest.Delayed.Due) {
		t.Errorf("it waits since %v, due at %v; want both to be %v", got.Since, got.Due, tasktest.Delayed.Due)
	}
}

// A reference can be claimed if the task waits for it on that route.
func TestClaimOfReference(t *testing.T) {
	pend := tasktest.Given(tasktest.Pending...)
	for name, c := range map[string]struct {
		task task.Task
		ref  task.Due
		want error
	}{
		"as it waits":        {pend, task.Due{After: 0, Route: pend.Route}, nil},
		"on another route":   {pend, task.Due{After: 0, Route: "other.5"}, task.ErrStale},
		"of another turn":    {pend, task.Due{After: 9, Route: pend.Route}, task.ErrStale},
		"before it was due":  {tasktest.Given(tasktest.Scheduled...), task.Due{After: 0, Route: pend.Route}, task.ErrStale},
		"of nobody's task":   {task.Task{ID: "T"}, task.Due{After: 0, Route: "q.5"}, task.ErrStale},
		"of one that is run": {tasktest.Given(tasktest.Running...), task.Due{After: 0, Route: pend.Route}, task.ErrStale},
	} {
		_, err := task.Decide(c.task, task.Claim{Node: "n", Session: "s", Offer: 99, After: c.ref.After, Reference: &c.ref}, tasktest.At(3))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// turned is the timer of a turn.
func turned(after uint64, route placement.Route, due time.Time) task.Due {
	return task.Due{After: after, Route: route, Due: due}
}
