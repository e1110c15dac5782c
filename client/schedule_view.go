package client

import (
	"context"
	"time"

	"millrace/jet"
	"millrace/task/definition"
	"millrace/task/schedule"
	"millrace/view"
)

// ScheduleView is a schedule with what became of its ticks, and those that come.
type ScheduleView struct {
	schedule.Stored
	Next  []schedule.Tick `json:"next"`
	Ticks []TickReport    `json:"ticks"`
	// Holes counts the ticks that passed without a task, and of which nothing tells why.
	Holes int `json:"holes"`
}

// nextShown is how many ticks to come a view has.
const nextShown = 3

// ViewSchedule returns a schedule with its ticks since a time, at most so many, the latest. The error
// wraps [jet.ErrNoSchedule] if there is none.
func (c *Client) ViewSchedule(ctx context.Context, name string, since time.Time, most int) (ScheduleView, error) {
	return c.ScheduleOf(ctx, c.View(), view.Point{At: c.Now()}, name, since, most)
}

// ScheduleOf is [Client.ViewSchedule] in a view of a place in the log: what was decided after its sequence, if that is set, does not count.
func (c *Client) ScheduleOf(ctx context.Context, in view.View, at view.Point, name string, since time.Time, most int) (ScheduleView, error) {
	v := ScheduleView{Next: []schedule.Tick{}, Ticks: []TickReport{}}
	is, err := in.Get(ctx, view.Definition(definition.DefOf(definition.DefSchedule, name)))
	if err != nil {
		return v, err
	}
	if v.Stored, err = jet.ScheduleIn(name, *is.Definition); err != nil {
		return v, err
	}
	ticks, err := c.TicksOf(ctx, in, at, &v.Stored, since, time.Time{}, most)
	if err != nil {
		return v, err
	}
	v.Ticks = append(v.Ticks, ticks...)
	for _, t := range v.Ticks {
		if t.Outcome == TickHole {
			v.Holes++
		}
	}
	plan, err := v.Plan()
	if err != nil {
		return v, err
	}
	for after := at.At; len(v.Next) < nextShown; {
		tick, ok := plan.Next(after)
		if !ok {
			break
		}
		v.Next, after = append(v.Next, tick), tick.At
	}
	return v, nil
}
