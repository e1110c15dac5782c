package client

import (
	"context"
	"time"

	"millrace/jet/roles"
	"millrace/task"
	"millrace/task/quota"
	"millrace/view"
)

// LimitListRequest asks for the limits that apply to tasks.
type LimitListRequest struct {
	// Name names one counter; "" means all.
	Name string `json:"name,omitempty"`
	// Task asks where a task waits before its limits, and for nothing else.
	Task task.ID `json:"task,omitempty"`
	// Limit is how many counters are returned, those with the most waiting tasks first: 1 to 1000,
	// default 50.
	Limit int `json:"limit,omitempty"`
	// Cursor is the Next of the previous page. A limit for which another number of tasks waits since
	// then may be missing, or come twice.
	Cursor string `json:"cursor,omitempty"`
	// Holders is how many of the tasks that hold each limit are returned: 0 to 1000, default 0.
	Holders int `json:"holders,omitempty"`
	// At is a moment of the past: a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
}

// LimitPage is what a scheduler knows of limits.
type LimitPage struct {
	// Counters are the limits and their state.
	Counters []quota.CounterState `json:"counters"`
	// All is how many counters there are.
	All int `json:"all"`
	// Standing is where the requested task waits; nil if it waits for no limit.
	Standing *quota.Standing `json:"standing,omitempty"`
	// Seq is a sequence of the log that the page reflects.
	Seq uint64 `json:"seq"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

// LimitsOf answers a request from the limits of a view at a time.
func LimitsOf(ctx context.Context, v view.View, sums view.Summed, r LimitListRequest, now time.Time) (LimitPage, error) {
	page := LimitPage{Counters: []quota.CounterState{}}
	known, seq, err := view.LimiterOf(ctx, v, sums)
	if err != nil {
		return page, err
	}
	counters := known.Told(r.Name, now, r.Holders)
	err = page.Take(counters, &r)
	page.Seq = seq
	return page, err
}

// Take makes the page that a request chooses from all counters, which are in the order of
// [quota.Limiter.Told].
func (p *LimitPage) Take(all []quota.CounterState, r *LimitListRequest) error {
	some, next, err := view.Section(all, (*quota.CounterState).Key, r.Limit, r.Cursor)
	p.Counters, p.All, p.Next = append([]quota.CounterState{}, some...), len(all), next
	return err
}

// Limits asks a scheduler for limits. The error wraps [jet.ErrNoService] if no server answers.
func (c *Client) Limits(ctx context.Context, r LimitListRequest) (LimitPage, error) {
	var page LimitPage
	err := c.store.Ask(ctx, roles.LimitList, r, &page)
	return page, err
}
