package jet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/task"
	"millrace/task/schedule"
)

// ErrNoSchedule means that no schedule has this name.
var ErrNoSchedule = errors.New("no such schedule")

// ErrBadSchedule means that what lies under a schedule's name is no schedule;
// somebody has put it there by other means.
var ErrBadSchedule = errors.New("the stored schedule is not valid: store it anew")

// PutSchedule stores a definition under its name, on behalf of actor, and returns its
// revision. An equal one is left as it is, and a paused one stays paused. The timer is set
// and the change told in the log; if that fails, storing the same again does it, or
// the scheduler's sweep.
func (s *Store) PutSchedule(ctx context.Context, d schedule.Definition, actor string) (revision uint64, changed bool, err error) {
	if err := d.Validate(); err != nil {
		return 0, false, fmt.Errorf("schedule %s: %w", d.Name, err)
	}
	return s.changeSchedule(ctx, d.Name, actor, func(was *schedule.Definition, now time.Time) (*schedule.Definition, error) {
		d.Anchor, d.Since, d.Paused = now, now, nil
		if was != nil {
			d.Anchor, d.Paused = was.Anchor, was.Paused
			same := d
			if same.Since = was.Since; equal(&same, was) {
				return was, nil
			}
		}
		return &d, nil
	})
}

// PauseSchedule keeps a schedule from firing. The error wraps [ErrNoSchedule] if there is none.
func (s *Store) PauseSchedule(ctx context.Context, name, actor, reason string) (changed bool, err error) {
	_, changed, err = s.changeSchedule(ctx, name, actor, func(was *schedule.Definition, now time.Time) (*schedule.Definition, error) {
		if was == nil || was.Paused != nil {
			return was, noSchedule(was, name)
		}
		d := *was
		d.Paused = &schedule.Pause{At: now, Actor: actor, Reason: reason}
		return &d, nil
	})
	return changed, err
}

// ResumeSchedule lets a schedule fire again, from now on. The error wraps [ErrNoSchedule] if there is none.
func (s *Store) ResumeSchedule(ctx context.Context, name, actor, reason string) (changed bool, err error) {
	_, changed, err = s.changeSchedule(ctx, name, actor, func(was *schedule.Definition, now time.Time) (*schedule.Definition, error) {
		if was == nil || was.Paused == nil {
			return was, noSchedule(was, name)
		}
		d := *was
		d.Paused, d.Since = nil, now
		return &d, nil
	})
	return changed, err
}

// RemoveSchedule removes a definition; its tasks stay. The error wraps [ErrNoSchedule] if there is none.
func (s *Store) RemoveSchedule(ctx context.Context, name, actor string) error {
	_, _, err := s.changeSchedule(ctx, name, actor, func(was *schedule.Definition, _ time.Time) (*schedule.Definition, error) {
		return nil, noSchedule(was, name)
	})
	return err
}

func noSchedule(was *schedule.Definition, name string) error {
	if was == nil {
		return &Absent{ErrNoSchedule, name}
	}
	return nil
}

func equal(a, b *schedule.Definition) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// changeSchedule replaces a definition by what change makes of it, nil to remove it. A
// definition that cannot be read counts as none.
func (s *Store) changeSchedule(ctx context.Context, name, actor string, change func(was *schedule.Definition, now time.Time) (*schedule.Definition, error)) (revision uint64, changed bool, err error) {
	if err := task.ValidName("schedule", name); err != nil {
		return 0, false, err
	}
	for {
		d, err := s.defined(ctx, SchedulesBucket, name)
		if err == nil {
			_, err = s.settleSchedule(ctx, d) // so that no change is left out in the log
		}
		if err != nil {
			return 0, false, fmt.Errorf("read schedule %s: %w", name, err)
		}
		var was *schedule.Definition
		if stored, err := storedSchedule(d); err == nil {
			was = &stored.Definition
		}
		now := s.Now().UTC()
		becomes, err := change(was, now)
		if err != nil {
			return 0, false, err
		}
		if becomes != nil && becomes == was {
			return d.revision, false, nil
		}
		next := definition{bucket: SchedulesBucket, name: name, actor: actor, removed: becomes == nil}
		if becomes != nil {
			if next.body, err = json.Marshal(becomes); err != nil {
				return 0, false, fmt.Errorf("schedule %s: %w", name, err)
			}
		}
		next, err = s.define(ctx, next, d.revision)
		if errors.Is(err, events.ErrConflict) {
			continue // somebody else was faster
		}
		if err == nil {
			_, err = s.settleSchedule(ctx, next)
		}
		if err != nil {
			return 0, false, fmt.Errorf("store schedule %s: %w", name, err)
		}
		return next.revision, true, nil
	}
}

// storedSchedule reads a definition. The error wraps [ErrNoSchedule] or [ErrBadSchedule].
func storedSchedule(d definition) (schedule.Stored, error) {
	s := schedule.Stored{Revision: d.revision, Changed: d.stored}
	if d.revision == 0 || d.removed {
		return s, &Absent{ErrNoSchedule, d.name}
	}
	err := json.Unmarshal(d.body, &s.Definition)
	if err == nil && s.Name != d.name {
		err = fmt.Errorf("it calls itself %q", s.Name)
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return s, fmt.Errorf("schedule %s, revision %d, cannot be read: %w: %w", d.name, d.revision, ErrBadSchedule, err)
	}
	return s, nil
}

// settleSchedule makes durable what follows from a change of a definition: first its
// timer, then the fact, so that who finds the fact knows of the timer. It
// returns whether anything was missing.
func (s *Store) settleSchedule(ctx context.Context, d definition) (bool, error) {
	if d.revision == 0 {
		return false, nil
	}
	last, _, err := s.leaderGet(ctx, map[string]any{"last_by_subj": schedPrefix + d.name})
	if err != nil {
		return false, err
	}
	if revisionOf(&last) >= d.revision {
		return false, nil
	}
	f := &events.Fact{ID: events.NewID(d.stored), At: d.stored, Schedule: d.name, Actor: d.actor}
	stored, err := storedSchedule(d)
	_, wasPaused := last.Fact.Event.(task.SchedulePaused)
	switch {
	case errors.Is(err, ErrNoSchedule):
		f.Event = task.ScheduleRemoved{Revision: d.revision}
		err = s.DisarmSchedule(ctx, d.name)
	case err != nil: // somebody else's; there is nothing to set a timer by
		f.Event = task.ScheduleApplied{Revision: d.revision, Digest: d.digest()}
		err = s.DisarmSchedule(ctx, d.name)
	case stored.Paused != nil:
		f.Event = task.SchedulePaused{Revision: d.revision, Reason: stored.Paused.Reason}
		err = s.DisarmSchedule(ctx, d.name)
	default:
		f.Event = task.ScheduleApplied{Revision: d.revision, Digest: d.digest()}
		if wasPaused {
			f.Event = task.ScheduleResumed{Revision: d.revision}
		}
		var plan *schedule.Plan
		if plan, err = stored.Plan(); err != nil {
			break
		}
		if tick, ok := plan.Next(stored.Since); ok {
			err = s.ArmSchedule(ctx, d.name, d.revision, tick, true)
		} else {
			err = s.DisarmSchedule(ctx, d.name)
		}
	}
	if err != nil {
		return false, err
	}
	return s.tell(ctx, f, d.revision)
}

// Schedule returns a definition. The error wraps [ErrNoSchedule] if there is none.
func (s *Store) Schedule(ctx context.Context, name string) (schedule.Stored, error) {
	if err := task.ValidName("schedule", name); err != nil {
		return schedule.Stored{}, err
	}
	d, err := s.defined(ctx, SchedulesBucket, name)
	if err != nil {
		return schedule.Stored{}, fmt.Errorf("read schedule %s: %w", name, err)
	}
	return storedSchedule(d)
}

// Schedules returns all definitions by name, and the errors of those that cannot be read.
func (s *Store) Schedules(ctx context.Context) ([]schedule.Stored, error) {
	definitions, err := s.allDefined(ctx, SchedulesBucket)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	var all []schedule.Stored
	var errs []error
	for _, d := range definitions {
		stored, err := storedSchedule(d)
		switch {
		case errors.Is(err, ErrNoSchedule):
		case err != nil:
			errs = append(errs, err)
		default:
			all = append(all, stored)
		}
	}
	return all, errors.Join(errs...)
}

// allDefined reads the latest revision of every key of a bucket of definitions, by name;
// also of those that were removed.
func (s *Store) allDefined(ctx context.Context, bucket string) ([]definition, error) {
	stream, err := s.js.Stream(ctx, "KV_"+bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil // a log of an earlier version
	}
	if err != nil {
		return nil, err
	}
	c, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description: "Millrace: lists definitions", DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		FilterSubject: keySubject(bucket, ">"), AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = stream.DeleteConsumer(context.WithoutCancel(ctx), c.CachedInfo().Name) // else the server removes it after a minute
	}()
	var all []definition
	for left := int(c.CachedInfo().NumPending); left > 0; {
		batch, err := c.Fetch(min(left, 512), jetstream.FetchMaxWait(readTry))
		if err != nil {
			return nil, err
		}
		n := 0
		for m := range batch.Messages() {
			n++
			meta, err := m.Metadata()
			if err != nil {
				return nil, err
			}
			all = append(all, definition{
				bucket: bucket, name: strings.TrimPrefix(m.Subject(), keySubject(bucket, "")), body: m.Data(), revision: meta.Sequence.Stream,
				stored: meta.Timestamp, actor: m.Headers().Get(actorHeader), removed: m.Headers().Get(kvOperationHeader) != "",
			})
		}
		if err := batch.Error(); err != nil {
			return nil, err
		}
		if n == 0 { // changed meanwhile
			break
		}
		left -= n
	}
	slices.SortFunc(all, func(a, b definition) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// ScheduleFacts returns what the log tells of changes of a schedule's definition, in order.
func (s *Store) ScheduleFacts(ctx context.Context, name string) ([]events.Record, error) {
	if err := task.ValidName("schedule", name); err != nil {
		return nil, err
	}
	return s.readSubject(ctx, schedPrefix+name, 0)
}

// TellSchedules sets the timers and records the facts of changes of definitions that were made
// before a time and of which nobody has told. It returns how many there were.
func (s *Store) TellSchedules(ctx context.Context, before time.Time) (int, error) {
	definitions, err := s.allDefined(ctx, SchedulesBucket)
	if err != nil {
		return 0, fmt.Errorf("compare schedules with the log: %w", err)
	}
	told := 0
	var errs []error
	for _, d := range definitions {
		if !d.stored.Before(before) || task.ValidName("schedule", d.name) != nil {
			continue
		}
		missing, err := s.settleSchedule(ctx, d)
		if missing {
			told++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("compare schedule %s with the log: %w", d.name, err))
		}
	}
	return told, errors.Join(errs...)
}
