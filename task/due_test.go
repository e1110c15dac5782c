package task_test

import (
	"errors"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/placement"
)

// Which of two timers of a task stays.
func TestTimerReplaces(t *testing.T) {
	here, there := placement.Route("q.5"), placement.Route("other.5")
	for name, c := range map[string]struct {
		mine, there task.Due
		want        bool
	}{
		"the same":                 {turned(7, here, logtest.Noon), turned(7, here, logtest.Noon.In(time.FixedZone("", 3600))), false},
		"a later turn":             {turned(8, here, logtest.Noon), turned(7, here, logtest.Noon), true},
		"an earlier turn":          {turned(7, here, logtest.Noon.Add(time.Hour)), turned(8, here, logtest.Noon), false},
		"a birth's, behind a move": {turned(0, here, logtest.Noon), turned(8, there, logtest.Noon), false},
		"another time, of nobody":  {turned(7, here, logtest.Noon), turned(7, here, logtest.Noon.Add(time.Hour)), true},
		"another route, of nobody": {turned(7, here, logtest.Noon), turned(7, there, logtest.Noon), true},
		"a second birth's":         {turned(0, here, logtest.Noon), turned(0, here, logtest.Noon.Add(time.Second)), false},
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
	limited := logtest.After(logtest.Scheduled)
	first := limited[0].(task.Submitted)
	first.Holds = []string{task.HoldLimit}
	limited[0] = first
	signalled := logtest.After(logtest.Scheduled)
	first.Holds = []string{task.HoldSignal}
	signalled[0] = first
	moved := logtest.After(logtest.Scheduled, task.Reassigned{From: logtest.Work.Route, To: "other.5"})
	due := func(events []task.Event, e task.Due, stored time.Time) task.Task {
		return task.Evolve(logtest.Given(events...), task.Recorded{Seq: 100, At: stored, Event: e})
	}
	route := logtest.Given(logtest.Scheduled...).Route
	for name, c := range map[string]struct {
		task task.Task
		want bool
	}{
		"in time":                    {due(logtest.Scheduled, turned(0, route, logtest.Delayed.Due), logtest.Delayed.Due), true},
		"late":                       {due(logtest.Scheduled, turned(0, route, logtest.Delayed.Due), logtest.Delayed.Due.Add(time.Hour)), true},
		"by another server's clock":  {due(logtest.Scheduled, turned(0, route, logtest.Delayed.Due), logtest.Delayed.Due.Add(-task.TimerError)), true},
		"early":                      {due(logtest.Scheduled, turned(0, route, logtest.Delayed.Due), logtest.Delayed.Due.Add(-2*task.TimerError)), false},
		"early, and says otherwise":  {due(logtest.Scheduled, turned(0, route, logtest.Delayed.Due.Add(-time.Hour)), logtest.Delayed.Due.Add(-time.Minute)), false},
		"of another turn":            {due(logtest.Scheduled, turned(1, route, logtest.Delayed.Due), logtest.Delayed.Due), false},
		"on another route":           {due(logtest.Scheduled, turned(0, "other.5", logtest.Delayed.Due), logtest.Delayed.Due), false},
		"of the turn before a move":  {due(moved, turned(0, route, logtest.Delayed.Due), logtest.Delayed.Due), false},
		"after a move":               {due(moved, turned(2, "other.5", logtest.Delayed.Due), logtest.Delayed.Due), true},
		"held by a limit":            {due(limited, turned(0, route, logtest.Delayed.Due), logtest.Delayed.Due), false},
		"held by a signal":           {due(signalled, turned(0, route, logtest.Delayed.Due), logtest.Delayed.Due), false},
		"of a task that has started": {due(logtest.Running, turned(0, route, logtest.Noon), logtest.At(90)), false},
		"of a task that nobody has":  {due(nil, turned(0, route, logtest.Noon), logtest.Noon), false},
	} {
		is := c.task
		if got := is.State == task.Pending && is.Offered; got != c.want {
			t.Errorf("%s: it is %s, offered %t; want %t", name, is.State, is.Offered, c.want)
		}
	}
	got := due(logtest.Scheduled, turned(0, route, logtest.Delayed.Due), logtest.Delayed.Due.Add(time.Second))
	if !got.Since.Equal(logtest.Delayed.Due) || !got.Due.Equal(logtest.Delayed.Due) {
		t.Errorf("it waits since %v, due at %v; want both to be %v", got.Since, got.Due, logtest.Delayed.Due)
	}
}

// A reference can be claimed if the task waits for it on that route.
func TestClaimOfReference(t *testing.T) {
	pend := logtest.Given(logtest.Pending...)
	for name, c := range map[string]struct {
		task task.Task
		ref  task.Due
		want error
	}{
		"as it waits":        {pend, task.Due{After: 0, Route: pend.Route}, nil},
		"on another route":   {pend, task.Due{After: 0, Route: "other.5"}, task.ErrStale},
		"of another turn":    {pend, task.Due{After: 9, Route: pend.Route}, task.ErrStale},
		"before it was due":  {logtest.Given(logtest.Scheduled...), task.Due{After: 0, Route: pend.Route}, task.ErrStale},
		"of nobody's task":   {task.Task{ID: "T"}, task.Due{After: 0, Route: "q.5"}, task.ErrStale},
		"of one that is run": {logtest.Given(logtest.Running...), task.Due{After: 0, Route: pend.Route}, task.ErrStale},
	} {
		_, err := task.Decide(c.task, task.Claim{Node: "n", Session: "s", Offer: 99, After: c.ref.After, Reference: &c.ref}, logtest.At(3))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// turned is the timer of a turn.
func turned(after uint64, route placement.Route, due time.Time) task.Due {
	return task.Due{After: after, Route: route, Due: due}
}
