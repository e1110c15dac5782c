package millracetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// ticks are the schedules of a house and their timers, as its scheduler sees them. The house calls them with its mu.
type ticks struct{ *house }

var (
	_ scheduler.Schedules = ticks{}
	_ scheduler.Ticks     = ticks{}
)

// armed is the timer of a schedule.
type armed struct {
	revision uint64
	tick     schedule.Tick
}

// define sets or removes the timer of a schedule that has changed.
func (t ticks) define(ctx context.Context, name string) {
	delete(t.armed, name)
	is, err := t.Schedule(ctx, name)
	if err != nil || is.Paused != nil {
		return // it is gone
	}
	plan, err := is.Plan()
	if err != nil {
		return // it was checked before it was stored
	}
	if tick, more := plan.Next(is.Since); more {
		t.armed[name] = armed{is.Revision, tick}
	}
}

// fire has the scheduler decide on the ticks that are due.
func (t ticks) fire(ctx context.Context) {
	for name, is := range t.armed {
		if is.tick.Due.After(time.Now()) {
			continue
		}
		delete(t.armed, name)
		e := task.ScheduleFired{Revision: is.revision, Tick: is.tick.At, Due: is.tick.Due, Detail: is.tick.Note}
		f := &events.Fact{
			ID: string(schedule.TaskID(fmt.Sprintf("%s fires by %d", name, is.revision), is.tick.At)), At: time.Now().UTC(), Schedule: name,
			Type: events.ScheduleFired, Event: e,
		}
		_, last, _ := t.Latest(ctx, *f)
		if _, err := t.Append(ctx, f, last); err == nil {
			r, _ := t.LastFire(ctx, name)
			_ = t.sched.Fire(ctx, &r) // a log in memory always answers
		}
	}
}

func (t ticks) ScheduleAt(ctx context.Context, name string, revision uint64) (*schedule.Stored, error) {
	is, err := t.Schedule(ctx, name)
	if errors.Is(err, definitions.ErrNoSchedule) || err == nil && is.Revision != revision {
		return nil, nil
	}
	return &is, err
}

func (t ticks) ScheduleChanges(ctx context.Context, _, _ uint64) (changed []schedule.Change, all bool, reached uint64, err error) {
	reached, err = t.Last(ctx)
	return nil, true, reached, err
}

func (t ticks) JobChanges(ctx context.Context, _, _ uint64) (names []string, all bool, reached uint64, err error) {
	reached, err = t.Last(ctx)
	return nil, true, reached, err
}

func (t ticks) JobToRun(ctx context.Context, name string) (job.Job, uint64, error) {
	j, err := t.Job(ctx, name)
	return j.Job, j.Revision, err
}

func (t ticks) PauseSchedule(ctx context.Context, name, actor, reason string) (changed bool, err error) {
	is, err := t.Schedule(ctx, name)
	if err != nil || is.Paused != nil {
		return false, err
	}
	is.Paused = &schedule.Pause{At: time.Now().UTC(), Actor: actor, Reason: reason}
	text, err := value.JSON(is.Definition)
	if err != nil {
		return false, err
	}
	_, changed, err = t.house.define(ctx, task.Named(task.DefSchedule, name), text, actor, func(e task.Edition) task.DefinitionEvent {
		return task.SchedulePaused{Edition: e, Reason: reason}
	})
	return changed, err
}

func (t ticks) LastDecision(ctx context.Context, name string) (events.Record, error) {
	r, end, err := t.Latest(ctx, events.Fact{Schedule: name})
	r.Seq = end
	return r, err
}

func (t ticks) LastDecisions(ctx context.Context, names []string) (map[string]events.Record, error) {
	last := map[string]events.Record{}
	for _, name := range names {
		if r, err := t.LastDecision(ctx, name); err == nil && r.Seq > 0 {
			last[name] = r
		}
	}
	return last, nil
}

func (t ticks) Decisions(_ context.Context, name string, since time.Time) (all []events.Record, err error) {
	for _, r := range t.All() {
		if r.Fact.Schedule == name && r.Kind == events.KindTick && !r.Stored.Before(since) {
			all = append(all, r)
		}
	}
	return all, nil
}

func (t ticks) Fires(context.Context) (events.Offers, error) { return nil, errors.ErrUnsupported } // the house fires

func (t ticks) LastFire(ctx context.Context, name string) (events.Record, error) {
	r, _, err := t.Latest(ctx, events.Fact{Schedule: name, Event: task.ScheduleFired{}})
	return r, err
}

func (t ticks) ArmSchedule(_ context.Context, name string, revision uint64, tick schedule.Tick, replace bool) error {
	if _, is := t.armed[name]; !is || replace {
		t.armed[name] = armed{revision, tick}
	}
	return nil
}

func (t ticks) ArmedSchedules(context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for name := range t.armed {
		all[name] = true
	}
	return all, nil
}

func (t ticks) TimedBy(_ context.Context, names []string) (map[string]uint64, error) {
	by := map[string]uint64{}
	for _, name := range names {
		by[name] = t.armed[name].revision
	}
	return by, nil
}

func (t ticks) Time(context.Context) (time.Time, error) { return time.Now(), nil }
