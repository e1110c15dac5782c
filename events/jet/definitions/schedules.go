package definitions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/placement"
	"millrace/task/schedule"
	"millrace/task/value"
)

// ErrNoSchedule: no schedule has this name.
var ErrNoSchedule = errors.New("no such schedule")

// ErrBadSchedule: the log's latest fact about a schedule's name is not valid; it was published by
// other means.
var ErrBadSchedule = errors.New("the stored schedule is not valid: store it anew")

// PutSchedule stores a schedule under its name, on behalf of actor, and returns its revision. An
// equal one is left as it is, and a paused one stays paused. Then it sets the timer; if that fails,
// the scheduler's sweep does it. The error is a [*schedule.Refusal] if no tick will ever come or the
// name is another's; it wraps [task.ErrLongDefinition] if the schedule is too long, and
// [ErrChanged] if another caller has changed it at the same moment. seen is as in [Registry.PutJob].
func (s *Registry) PutSchedule(ctx context.Context, d schedule.Definition, actor string, seen ...uint64) (revision uint64, changed bool, err error) {
	if err := value.JoinFaults(value.Under("task: ", placement.ValidLabels(d.Make.Labels)), d.Validate()); err != nil {
		return 0, false, fmt.Errorf("schedule %s: %w", d.Name, err)
	}
	return s.amendSchedule(ctx, d.Name, actor, false, seen, func(was *schedule.Definition, now time.Time) (*schedule.Definition, eventOf, error) {
		next, changes, err := d.Over(was, now)
		if err != nil || !changes {
			return was, nil, err
		}
		return &next, func(e task.Edition) task.DefinitionEvent { return task.DefinitionApplied{Edition: e} }, nil
	})
}

// PauseSchedule keeps a schedule from making tasks. The error wraps [ErrNoSchedule] if there is none.
func (s *Registry) PauseSchedule(ctx context.Context, name, actor, reason string) (changed bool, err error) {
	_, changed, err = s.amendSchedule(ctx, name, actor, true, nil, func(was *schedule.Definition, now time.Time) (*schedule.Definition, eventOf, error) {
		if was == nil || was.Paused != nil {
			return was, nil, noSchedule(was, name)
		}
		d := *was
		d.Paused = &schedule.Pause{At: now, Actor: actor, Reason: reason}
		return &d, func(e task.Edition) task.DefinitionEvent {
			return task.SchedulePaused{Edition: e, Reason: reason}
		}, nil
	})
	return changed, err
}

// ResumeSchedule lets a schedule make tasks again, from now on. The error wraps [ErrNoSchedule] if
// there is none.
func (s *Registry) ResumeSchedule(ctx context.Context, name, actor, reason string) (changed bool, err error) {
	_, changed, err = s.amendSchedule(ctx, name, actor, true, nil, func(was *schedule.Definition, now time.Time) (*schedule.Definition, eventOf, error) {
		if was == nil || was.Paused == nil {
			return was, nil, noSchedule(was, name)
		}
		d := was.Resumed(now)
		return &d, func(e task.Edition) task.DefinitionEvent {
			return task.ScheduleResumed{Edition: e, Reason: reason}
		}, nil
	})
	return changed, err
}

// RemoveSchedule removes a schedule; its tasks stay. The error wraps [ErrNoSchedule] if there is
// none.
func (s *Registry) RemoveSchedule(ctx context.Context, name, actor string) error {
	if err := s.remove(ctx, task.Named(task.DefSchedule, name), actor); err != nil {
		return err
	}
	return s.writer.DisarmSchedule(ctx, name)
}

func noSchedule(was *schedule.Definition, name string) error {
	if was == nil {
		return absent(task.Named(task.DefSchedule, name))
	}
	return nil
}

// eventOf makes the event of an edition.
type eventOf func(task.Edition) task.DefinitionEvent

// amendSchedule replaces a schedule by the result of change, and sets its timer. A schedule that is
// not valid counts as none. The timer comes last: a process that dies before it leaves a schedule
// without a timer, or with that of an earlier revision, and the scheduler's sweep finds both.
func (s *Registry) amendSchedule(ctx context.Context, name, actor string, again bool, seen []uint64,
	change func(was *schedule.Definition, now time.Time) (*schedule.Definition, eventOf, error)) (revision uint64, changed bool, err error) {
	is, changed, err := s.amend(ctx, task.Named(task.DefSchedule, name), actor, again, func(d *defined, now time.Time) (task.DefinitionEvent, error) {
		var was *schedule.Definition
		if stored, err := storedSchedule(d, nil); err == nil {
			was = &stored.Definition
		}
		becomes, event, err := change(was, now)
		if err != nil || event == nil {
			return nil, err
		}
		if err := d.Unseen(seen); err != nil {
			return nil, err
		}
		text, err := value.JSON(becomes)
		if err != nil {
			return nil, err
		}
		next, err := d.Next(text)
		return event(next), err
	})
	if err != nil {
		return 0, false, fmt.Errorf("store schedule %s: %w", name, err)
	}
	if changed {
		if err := s.timeSchedule(ctx, &is); err != nil {
			return is.Revision, true, fmt.Errorf("schedule %s is stored, and a server will set its timer: %w", name, err)
		}
	}
	return is.Revision, changed, nil
}

// timeSchedule sets the timer of a schedule that was just stored, or removes it if the schedule has
// no next tick.
func (s *Registry) timeSchedule(ctx context.Context, is *defined) error {
	stored, err := storedSchedule(is, nil)
	if err != nil || stored.Paused != nil {
		return errors.Join(err, s.writer.DisarmSchedule(ctx, is.Name()))
	}
	plan, err := stored.Plan()
	if err != nil {
		return err
	}
	if tick, ok := plan.Next(stored.Since); ok {
		return s.writer.ArmSchedule(ctx, is.Name(), is.Revision, tick, true)
	}
	return s.writer.DisarmSchedule(ctx, is.Name())
}

func storedSchedule(d *defined, err error) (schedule.Stored, error) {
	stored := schedule.Stored{Revision: d.Revision, Changed: d.Changed}
	if err := d.readable(err); err != nil {
		return stored, err
	}
	stored.Definition, err = schedule.Read(d.Name(), d.Text)
	return stored, err
}

// Schedule returns a schedule. The error wraps [ErrNoSchedule] if there is none.
func (s *Registry) Schedule(ctx context.Context, name string) (schedule.Stored, error) {
	d, _, err := s.latest(ctx, task.Named(task.DefSchedule, name))
	return storedSchedule(&d, err)
}

// ScheduleAt returns a revision of a schedule, perhaps of a removed one; nil if there was none that can
// be read.
func (s *Registry) ScheduleAt(ctx context.Context, name string, revision uint64) (*schedule.Stored, error) {
	d, err := s.definitionAt(ctx, task.Named(task.DefSchedule, name), revision)
	is, err := storedSchedule(&d, err)
	if errors.Is(err, ErrNoSchedule) || errors.Is(err, ErrBadSchedule) {
		return nil, nil
	}
	return &is, err
}

// Schedules returns all schedules by name, and the errors of those that are not valid.
func (s *Registry) Schedules(ctx context.Context) ([]schedule.Stored, error) {
	return present(ctx, s, task.DefSchedule, storedSchedule)
}

// ScheduleChanges returns the changes of schedules after a sequence, in order, and the sequence up
// to which it knows: everything that was acknowledged before the call is included. If it cannot
// tell which have changed, all is true, and any may have. Known is a sequence that the log has
// reached, 0 if the caller knows none; with it the call costs less while nothing changes, but does
// not notice that the log was made anew.
func (s *Registry) ScheduleChanges(ctx context.Context, after, known uint64) (changed []schedule.Change, all bool, reached uint64, err error) {
	found, all, reached, err := s.changes(ctx, task.DefSchedule, after, known)
	for i := range found {
		c := schedule.Change{Name: found[i].Name()}
		if stored, err := storedSchedule(&found[i], nil); err == nil {
			c.Now = &stored
		}
		changed = append(changed, c)
	}
	return changed, all, reached, err
}
