package task

import (
	"errors"
	"testing"
	"time"

	"millrace/task/where"
)

// Which of two timers of a task stays.
func TestTimerReplaces(t *testing.T) {
	here, there := where.Route("q.5"), where.Route("other.5")
	for name, c := range map[string]struct {
		mine, there Due
		want        bool
	}{
		"the same":                 {turned(7, here, noon), turned(7, here, noon.In(time.FixedZone("", 3600))), false},
		"a later turn":             {turned(8, here, noon), turned(7, here, noon), true},
		"an earlier turn":          {turned(7, here, noon.Add(time.Hour)), turned(8, here, noon), false},
		"a birth's, behind a move": {turned(0, here, noon), turned(8, there, noon), false},
		"another time, of nobody":  {turned(7, here, noon), turned(7, here, noon.Add(time.Hour)), true},
		"another route, of nobody": {turned(7, here, noon), turned(7, there, noon), true},
		"a second birth's":         {turned(0, here, noon), turned(0, here, noon.Add(time.Second)), false},
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
		if got := (Due{After: c.turn}).Before(c.head); got != c.want {
			t.Errorf("turn %d, removed at %d: %t, want %t", c.turn, c.head, got, c.want)
		}
	}
}

// A timer's message counts only for the turn and the route of a task that still waits in it.
func TestDue(t *testing.T) {
	limited := after(scheduled)
	first := limited[0].(Submitted)
	first.Holds = []string{HoldLimit}
	limited[0] = first
	signalled := after(scheduled)
	first.Holds = []string{HoldSignal}
	signalled[0] = first
	moved := after(scheduled, Reassigned{From: work.Route, To: "other.5"})
	due := func(events []Event, e Due, stored time.Time) Task {
		return Evolve(given(events...), Recorded{Seq: 100, At: stored, Event: e})
	}
	route := given(scheduled...).Route
	for name, c := range map[string]struct {
		task Task
		want bool
	}{
		"in time":                    {due(scheduled, turned(0, route, hold.Due), hold.Due), true},
		"late":                       {due(scheduled, turned(0, route, hold.Due), hold.Due.Add(time.Hour)), true},
		"by another server's clock":  {due(scheduled, turned(0, route, hold.Due), hold.Due.Add(-TimerError)), true},
		"early":                      {due(scheduled, turned(0, route, hold.Due), hold.Due.Add(-2*TimerError)), false},
		"early, and says otherwise":  {due(scheduled, turned(0, route, hold.Due.Add(-time.Hour)), hold.Due.Add(-time.Minute)), false},
		"of another turn":            {due(scheduled, turned(1, route, hold.Due), hold.Due), false},
		"on another route":           {due(scheduled, turned(0, "other.5", hold.Due), hold.Due), false},
		"of the turn before a move":  {due(moved, turned(0, route, hold.Due), hold.Due), false},
		"after a move":               {due(moved, turned(2, "other.5", hold.Due), hold.Due), true},
		"held by a limit":            {due(limited, turned(0, route, hold.Due), hold.Due), false},
		"held by a signal":           {due(signalled, turned(0, route, hold.Due), hold.Due), false},
		"of a task that has started": {due(running, turned(0, route, noon), at(90)), false},
		"of a task that nobody has":  {due(nil, turned(0, route, noon), noon), false},
	} {
		is := c.task
		if got := is.State == Pending && is.Offered; got != c.want {
			t.Errorf("%s: it is %s, offered %t; want %t", name, is.State, is.Offered, c.want)
		}
	}
	got := due(scheduled, turned(0, route, hold.Due), hold.Due.Add(time.Second))
	if !got.Since.Equal(hold.Due) || !got.Due.Equal(hold.Due) {
		t.Errorf("it waits since %v, due at %v; want both to be %v", got.Since, got.Due, hold.Due)
	}
}

// A reference can be claimed if the task waits for it on that route.
func TestClaimOfReference(t *testing.T) {
	pend := given(pending...)
	for name, c := range map[string]struct {
		task Task
		ref  Due
		want error
	}{
		"as it waits":        {pend, Due{After: 0, Route: pend.Route}, nil},
		"on another route":   {pend, Due{After: 0, Route: "other.5"}, ErrStale},
		"of another turn":    {pend, Due{After: 9, Route: pend.Route}, ErrStale},
		"before it was due":  {given(scheduled...), Due{After: 0, Route: pend.Route}, ErrStale},
		"of nobody's task":   {Task{ID: "T"}, Due{After: 0, Route: "q.5"}, ErrStale},
		"of one that is run": {given(running...), Due{After: 0, Route: pend.Route}, ErrStale},
	} {
		_, err := Decide(c.task, Claim{Node: "n", Session: "s", Offer: 99, After: c.ref.After, Reference: &c.ref}, at(3))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// turned is the timer of a turn.
func turned(after uint64, route where.Route, due time.Time) Due {
	return Due{After: after, Route: route, Due: due}
}
