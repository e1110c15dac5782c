package schedule

import (
	"cmp"
	"container/heap"
	"time"
)

// Upcoming is a tick of one of several schedules.
type Upcoming struct {
	// Name is the schedule's.
	Name string `json:"schedule"`
	Tick
}

// Timeline returns the ticks of several schedules after a time, in the order in which they fire: at
// most most of them, and none that fires after until, unless that is zero.
func Timeline(plans map[string]*Plan, after, until time.Time, most int) []Upcoming {
	all := []Upcoming{}
	var next upcoming
	for name, plan := range plans {
		next.add(name, plan, after, until)
	}
	heap.Init(&next)
	for len(next) > 0 && len(all) < most {
		first := next[0]
		all = append(all, first)
		heap.Pop(&next)
		if rest := next.add(first.Name, plans[first.Name], first.At, until); rest {
			heap.Fix(&next, len(next)-1)
		}
	}
	return all
}

// upcoming is a heap of the next tick of each schedule.
type upcoming []Upcoming

// add appends the next tick of a schedule; false if there is none.
func (u *upcoming) add(name string, plan *Plan, after, until time.Time) bool {
	tick, ok := plan.Next(after)
	if !ok || !until.IsZero() && tick.Due.After(until) {
		return false
	}
	*u = append(*u, Upcoming{name, tick})
	return true
}

func (u upcoming) Len() int      { return len(u) }
func (u upcoming) Swap(i, j int) { u[i], u[j] = u[j], u[i] }
func (u upcoming) Less(i, j int) bool {
	return cmp.Or(u[i].Due.Compare(u[j].Due), cmp.Compare(u[i].Name, u[j].Name)) < 0
}
func (u *upcoming) Push(x any) { *u = append(*u, x.(Upcoming)) }
func (u *upcoming) Pop() any {
	last := (*u)[len(*u)-1]
	*u = (*u)[:len(*u)-1]
	return last
}
