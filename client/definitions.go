package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/jet/definitions"
	"millrace/jet/roles"
	"millrace/task/definition"
	"millrace/task/schedule"
	"millrace/task/value"
	"millrace/view"
)

// Definitions that are stored as they are: calendars, and tokens.

// ApplyCalendar stores a calendar under its name. It returns the revision, and whether the calendar was new or
// different from what was there. The error names the field that is wrong. Seen is as in [Client.Apply].
func (c *Client) ApplyCalendar(ctx context.Context, is schedule.Calendar, seen ...uint64) (revision uint64, changed bool, err error) {
	revision, changed, err = c.store.PutCalendar(ctx, is, c.rec.Actor, seen...)
	return revision, changed, c.overtaken(ctx, definition.Named(definition.DefCalendar, is.Name), err)
}

// CalendarAt returns a calendar as it was at a revision, the present one for 0. The error wraps [definitions.ErrNoCalendar] if there was none.
func (c *Client) CalendarAt(ctx context.Context, name string, revision uint64) (schedule.StoredCalendar, error) {
	return c.store.CalendarAt(ctx, name, revision)
}

// Calendars returns all calendars by name, and the errors of those that cannot be read.
func (c *Client) Calendars(ctx context.Context) ([]schedule.StoredCalendar, error) {
	return c.store.Calendars(ctx)
}

// RemoveCalendar removes a calendar. The error wraps [definitions.ErrNoCalendar] if there is none.
func (c *Client) RemoveCalendar(ctx context.Context, name string) error {
	return c.store.RemoveCalendar(ctx, name, c.rec.Actor)
}

// AddToken makes a token by which the service over HTTP is asked as name, in a role, until it expires; the zero time is never.
// What it returns is sent by whoever has it, and kept nowhere. The error wraps [definitions.ErrTokenExists] if one has the name already,
// unless that is to be replaced, and [definitions.ErrBadToken] if there can be none like that.
func (c *Client) AddToken(ctx context.Context, name string, role roles.Role, expires time.Time, replace bool) (secret string, err error) {
	t, secret, err := definitions.NewToken(name, role, expires)
	if err != nil {
		return "", err
	}
	return secret, c.store.PutToken(ctx, t, c.rec.Actor, replace)
}

// Tokens returns all tokens by name, and the errors of those that cannot be read.
func (c *Client) Tokens(ctx context.Context) ([]definitions.StoredToken, error) {
	return c.store.Tokens(ctx)
}

// RemoveToken removes a token: it is refused from then on, and who follows by it is sent nothing more. The error wraps
// [definitions.ErrNoToken] if there is none.
func (c *Client) RemoveToken(ctx context.Context, name string) error {
	return c.store.RemoveToken(ctx, name, c.rec.Actor)
}

// Overtaken is a change that was refused because it follows another revision than the one that is there. It wraps [value.ErrOvertaken].
type Overtaken struct {
	// Revision is the present one, and Changes are what has become of the one that was seen; none if that is not known.
	Revision uint64
	Changes  []view.Change

	err error
}

// Error implements error.
func (o *Overtaken) Error() string {
	if len(o.Changes) == 0 {
		return o.err.Error()
	}
	var fields []string
	for _, c := range o.Changes[:min(len(o.Changes), shownChanges)] {
		fields = append(fields, c.Field)
	}
	text := fmt.Sprintf("%v; different are %s", o.err, strings.Join(fields, ", "))
	if more := len(o.Changes) - shownChanges; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Unwrap returns the cause.
func (o *Overtaken) Unwrap() error { return o.err }

// shownChanges is how many changes a line names.
const shownChanges = 5

// overtaken adds to the error of a change of a definition what others have changed, if that is what is wrong.
func (c *Client) overtaken(ctx context.Context, def definition.Def, err error) error {
	return overtaken(err, func(seen uint64) (was, is any, wrong error) {
		old, wrong := c.store.DefinitionAt(ctx, def, seen)
		if wrong != nil || !old.Exists() {
			return nil, nil, wrong
		}
		now, wrong := c.store.Definition(ctx, def)
		return old.Text, now.Text, wrong
	})
}

// overtaken makes an [*Overtaken] of an error that wraps [value.ErrOvertaken]. Between gives what was seen, and what is there now; nothing if
// that is not known.
func overtaken(err error, between func(seen uint64) (was, is any, wrong error)) error {
	var of *value.Overtaken
	if !errors.As(err, &of) {
		return err
	}
	o := &Overtaken{Revision: of.Is, err: err}
	if of.Seen > 0 && of.Is > 0 {
		if was, is, wrong := between(of.Seen); wrong == nil && was != nil {
			o.Changes, _ = view.DiffValues(was, is) // without them the refusal says enough
		}
	}
	return o
}
