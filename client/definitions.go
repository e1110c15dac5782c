package client

import (
	"context"
	"time"

	"millrace/jet"
	"millrace/task/schedule"
)

// Definitions that are stored as they are: calendars, and tokens.

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

// AddToken makes a token by which the service over HTTP is asked as name, in a role, until it expires; the zero time is never.
// What it returns is sent by whoever has it, and kept nowhere. The error wraps [jet.ErrTokenExists] if one has the name already,
// unless that is to be replaced, and [jet.ErrBadToken] if there can be none like that.
func (c *Client) AddToken(ctx context.Context, name string, role jet.Role, expires time.Time, replace bool) (secret string, err error) {
	t, secret, err := jet.NewToken(name, role, expires)
	if err != nil {
		return "", err
	}
	return secret, c.store.PutToken(ctx, t, c.rec.Actor, replace)
}

// Tokens returns all tokens by name, and the errors of those that cannot be read.
func (c *Client) Tokens(ctx context.Context) ([]jet.StoredToken, error) { return c.store.Tokens(ctx) }

// RemoveToken removes a token: it is refused from then on, and who follows by it is sent nothing more. The error wraps
// [jet.ErrNoToken] if there is none.
func (c *Client) RemoveToken(ctx context.Context, name string) error {
	return c.store.RemoveToken(ctx, name, c.rec.Actor)
}
