package api

import (
	"millrace/client"
	"millrace/task/quota"
	"millrace/task/schedule"
	"millrace/view"
)

// Lists in the order of names: their pages, which can be cut short.

// validPage checks the page that a request chooses, and sets the default.
func validPage(r *client.PageRequest) error {
	if r.Limit == 0 {
		r.Limit = view.MaxLimit
	}
	if err := validLimit(&r.Limit); err != nil {
		return badRequest{err}
	}
	return nil
}

// firstHalf returns the first half of a page, and the cursor of the rest; false if it is one row.
func firstHalf[T any](all []T, key func(*T) string) (half []T, next string, ok bool) {
	n := len(all) / 2
	if n == 0 {
		return nil, "", false
	}
	return all[:n], view.CursorAfter(key(&all[n-1])), true
}

// jobPage is a page of jobs.
type jobPage struct{ client.JobList }

func (p jobPage) half() (_ page, ok bool) {
	p.Jobs, p.Next, ok = firstHalf(p.Jobs, (*client.JobRow).Key)
	return p, ok
}

// schedulePage is a page of schedules.
type schedulePage struct{ client.ScheduleList }

func (p schedulePage) half() (_ page, ok bool) {
	p.Schedules, p.Next, ok = firstHalf(p.Schedules, (*client.ScheduleRow).Key)
	return p, ok
}

// calendarList is a page of calendars.
type calendarList struct {
	// Calendars are in the order of their names.
	Calendars []schedule.StoredCalendar `json:"calendars"`
	// Broken names those that are not valid.
	Broken string `json:"broken,omitempty"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

func calendarKey(c *schedule.StoredCalendar) string { return c.Name }

func (p calendarList) half() (_ page, ok bool) {
	p.Calendars, p.Next, ok = firstHalf(p.Calendars, calendarKey)
	return p, ok
}

// nodePage is a page of nodes.
type nodePage struct{ client.NodePage }

func (p nodePage) half() (_ page, ok bool) {
	p.Nodes, p.Next, ok = firstHalf(p.Nodes, (*client.NodeView).Key)
	return p, ok
}

// queuePage is a page of queues.
type queuePage struct{ client.QueuePage }

func (p queuePage) half() (_ page, ok bool) {
	p.Queues, p.Next, ok = firstHalf(p.Queues, (*client.QueueView).Key)
	return p, ok
}

// limitPage is a page of limits.
type limitPage struct{ client.LimitPage }

func (p limitPage) half() (_ page, ok bool) {
	p.Counters, p.Next, ok = firstHalf(p.Counters, (*quota.CounterState).Key)
	return p, ok
}
