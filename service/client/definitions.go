package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Definitions that are stored unchanged: calendars, and tokens.

// ApplyCalendar stores a calendar under its name. It returns the revision, and whether the calendar
// was new or has changed. The error names the wrong field. seen is as in [Client.Apply].
func (c *Client) ApplyCalendar(ctx context.Context, is schedule.Calendar, seen ...uint64) (revision uint64, changed bool, err error) {
	revision, changed, err = c.store.PutCalendar(ctx, is, c.rec.Actor, seen...)
	return revision, changed, c.overtaken(ctx, task.Named(task.DefCalendar, is.Name), err)
}

// CalendarAt returns a revision of a calendar, the current one for 0. The error wraps
// [definitions.ErrNoCalendar] if there was none.
func (c *Client) CalendarAt(ctx context.Context, name string, revision uint64) (schedule.StoredCalendar, error) {
	if c.role != "" {
		return definedAt(ctx, c, task.DefCalendar, name, revision, definitions.CalendarIn)
	}
	return c.store.CalendarAt(ctx, name, revision)
}

// Calendars returns all calendars by name, and the errors of those that are not valid.
func (c *Client) Calendars(ctx context.Context) ([]schedule.StoredCalendar, error) {
	if c.role != "" {
		return CalendarsOf(ctx, c.View())
	}
	return c.store.Calendars(ctx)
}

// RemoveCalendar removes a calendar. The error wraps [definitions.ErrNoCalendar] if there is none.
func (c *Client) RemoveCalendar(ctx context.Context, name string) error {
	return c.store.RemoveCalendar(ctx, name, c.rec.Actor)
}

// AddToken makes a token for the HTTP service with a name and a role, valid until it expires; the
// zero time means never. It returns the secret that the token's holder sends, which is stored
// nowhere. The error wraps [definitions.ErrTokenExists] if a token has the name and replace is
// false, and [definitions.ErrBadToken] if the token is not valid.
func (c *Client) AddToken(ctx context.Context, name string, role rights.Role, expires time.Time, replace bool) (secret string, err error) {
	t, secret, err := definitions.NewToken(name, role, expires)
	if err != nil {
		return "", err
	}
	return secret, c.store.PutToken(ctx, t, c.rec.Actor, replace)
}

// Tokens returns all tokens by name, and the errors of those that are not valid.
func (c *Client) Tokens(ctx context.Context) ([]definitions.StoredToken, error) {
	return c.store.Tokens(ctx)
}

// TokenUses returns when the tokens of these names were last used at a server, by their hashes, as
// of a minute ago. It lacks those that were never used, or not for a year.
func (c *Client) TokenUses(ctx context.Context, names []string) (map[string]time.Time, error) {
	return c.store.TokenUses(ctx, names)
}

// RemoveToken removes a token: the service refuses it from then on, and ends the streams that were
// opened with it. The error wraps [definitions.ErrNoToken] if there is none.
func (c *Client) RemoveToken(ctx context.Context, name string) error {
	return c.store.RemoveToken(ctx, name, c.rec.Actor)
}

// Overtaken is the error of a change that was based on another revision than the current one. It
// wraps [value.ErrOvertaken].
type Overtaken struct {
	// Revision is the current one, and Changes are the changes since the revision that was seen;
	// none if unknown.
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

// shownChanges is how many changes one line names.
const shownChanges = 5

// overtaken adds to the error of a change of a definition what others have changed, if that is the
// cause.
func (c *Client) overtaken(ctx context.Context, def task.Def, err error) error {
	return overtaken(err, func(seen uint64) (was, is any, wrong error) {
		old, wrong := c.on.Definitions.DefinitionAt(ctx, def, seen)
		if wrong != nil || !old.Exists() {
			return nil, nil, wrong
		}
		now, wrong := c.on.Log.Definition(ctx, def)
		return old.Text, now.Text, wrong
	})
}

// overtaken makes an [*Overtaken] of an error that wraps [value.ErrOvertaken]. between returns the
// definition that was seen, and the current one; nil if unknown.
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
