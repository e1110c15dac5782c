package schedule

import (
	"cmp"
	"time"

	"millrace/task/value"
)

// Upcoming is a planned run of one of several schedules.
type Upcoming struct {
	// Name is the schedule's.
	Name string `json:"schedule"`
	Tick
}

// Timeline returns the ticks of several schedules after a time, in the order in which they are
// due: at most most of them, and none that is due after until, unless that is zero.
func Timeline(plans map[string]*Plan, after, until time.Time, most int) []Upcoming {
	all := []Upcoming{}
	next := value.Heap[Upcoming]{Before: func(a, b Upcoming) bool {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Name, b.Name)) < 0
	}}
	push := func(name string, after time.Time) {
		if tick, ok := plans[name].Next(after); ok && (until.IsZero() || !tick.Due.After(until)) {
			next.Push(Upcoming{name, tick})
		}
	}
	for name := range plans {
		push(name, after)
	}
	for next.Len() > 0 && len(all) < most {
		first := next.Pop()
		all = append(all, first)
		push(first.Name, first.At)
	}
	return all
}
