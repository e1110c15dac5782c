package definitions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
)

// ErrNoCalendar: no calendar has this name.
var ErrNoCalendar = errors.New("no such calendar")

// ErrBadCalendar: the log's latest fact about a calendar's name is not valid; it was published by
// other means.
var ErrBadCalendar = errors.New("the stored calendar is not valid: apply it anew")

// PutCalendar stores a calendar under its name, on behalf of actor, and returns its revision. An
// equal one is left as it is. A calendar that does not open within a year is refused. The error
// wraps [ErrChanged] if another caller has changed it at the same moment. seen is as in
// [Registry.PutJob].
func (s *Registry) PutCalendar(ctx context.Context, c schedule.Calendar, actor string, seen ...uint64) (revision uint64, changed bool, err error) {
	hours, err := c.Hours()
	if err != nil {
		return 0, false, fmt.Errorf("calendar %s: %w", c.Name, err)
	}
	text, err := value.JSON(c)
	if err != nil {
		return 0, false, fmt.Errorf("calendar %s: %w", c.Name, err)
	}
	return s.put(ctx, task.Named(task.DefCalendar, c.Name), text, actor, task.From{}, seen, func(now time.Time) error {
		if _, ever := hours.Opens(now); !ever {
			return schedule.ErrNeverOpen
		}
		return nil
	})
}

// Calendar returns a calendar. Any replica may answer, so it may be out of date. The error wraps
// [ErrNoCalendar] if there is none.
func (s *Registry) Calendar(ctx context.Context, name string) (schedule.StoredCalendar, error) {
	d, err := s.nearest(ctx, task.Named(task.DefCalendar, name))
	return storedCalendar(&d, err)
}

// CalendarAt returns a revision of a calendar, the current one for 0. The error wraps
// [ErrNoCalendar] if there was none.
func (s *Registry) CalendarAt(ctx context.Context, name string, revision uint64) (schedule.StoredCalendar, error) {
	d, err := s.definitionAt(ctx, task.Named(task.DefCalendar, name), revision)
	return storedCalendar(&d, err)
}

func storedCalendar(d *defined, err error) (schedule.StoredCalendar, error) {
	c := schedule.StoredCalendar{Revision: d.Revision, Changed: d.Changed}
	if err := d.readable(err); err != nil {
		return c, err
	}
	c.Calendar, err = schedule.ReadCalendar(d.Name(), d.Text)
	return c, err
}

// Calendars returns all calendars by name, and the errors of those that are not valid.
func (s *Registry) Calendars(ctx context.Context) ([]schedule.StoredCalendar, error) {
	return present(ctx, s, task.DefCalendar, storedCalendar)
}

// RemoveCalendar removes a calendar on behalf of actor. The error wraps [ErrNoCalendar] if there is
// none.
func (s *Registry) RemoveCalendar(ctx context.Context, name, actor string) error {
	return s.remove(ctx, task.Named(task.DefCalendar, name), actor)
}
