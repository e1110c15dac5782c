package client

import (
	"context"

	"millrace/task/schedule"
)

// ApplyCalendar stores a calendar under its name. It returns the revision, and whether the calendar was new or
// different from what was there. The error names the field that is wrong.
func (c *Client) ApplyCalendar(ctx context.Context, is schedule.Calendar) (revision uint64, changed bool, err error) {
	return c.store.PutCalendar(ctx, is, c.rec.Actor)
}

// CalendarAt returns a calendar as it was at a revision, the present one for 0. The error wraps [jet.ErrNoCalendar] if there was none.
func (c *Client) CalendarAt(ctx context.Context, name string, revision uint64) (schedule.StoredCalendar, error) {
	return c.store.CalendarAt(ctx, name, revision)
}

// Calendars returns all calendars by name, and the errors of those that cannot be read.
func (c *Client) Calendars(ctx context.Context) ([]schedule.StoredCalendar, error) {
	return c.store.Calendars(ctx)
}

// RemoveCalendar removes a calendar. The error wraps [jet.ErrNoCalendar] if there is none.
func (c *Client) RemoveCalendar(ctx context.Context, name string) error {
	return c.store.RemoveCalendar(ctx, name, c.rec.Actor)
}
