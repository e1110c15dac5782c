package jet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/schedule"
)

// Headers of a message schedule.
const (
	scheduleHeader       = "Nats-Schedule"
	scheduleTargetHeader = "Nats-Schedule-Target"
)

// dueSubject is the subject on which a timer fires whose message must end up on a subject of the
// log.
func dueSubject(subject string) string {
	if rest, offer := strings.CutPrefix(subject, names.QueuePrefix); offer {
		return names.DuePrefix + rest
	}
	return names.DuePrefix + strings.TrimPrefix(subject, names.FirePrefix)
}

// timer is the message that makes the server place a fact on a subject of the log. The server fires
// it within 0.3 s after it is due and never before.
func timer(at string, f *events.Fact, due time.Time, target string) (*nats.Msg, error) {
	body, err := events.Encode(nil, f)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: at, Data: body, Header: nats.Header{
		events.TypeHeader: {string(f.Type)},
		// The client's own option writes whole seconds, so the timer would fire early.
		scheduleHeader:       {atTime(due)},
		scheduleTargetHeader: {dueSubject(target)},
	}}, nil
}

// latest is the latest moment at which a timer is set. The NATS server counts nanoseconds since 1970,
// which do not reach beyond 2262: what is due later fired at once.
var latest = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)

func atTime(due time.Time) string {
	if due.After(latest) {
		due = latest
	}
	return "@at " + due.UTC().Format(time.RFC3339Nano)
}

// setTimer stores a timer. If its subject has one, replaces decides whether to replace it. After an
// unknown outcome it tries again: however often it is set, one timer remains.
func (s *Store) setTimer(ctx context.Context, m *nats.Msg, replaces func(there *request.Message) bool) error {
	_, err := s.Value(names.TimerStream, m.Subject).DecideFrom(ctx, nil, 0, func(there *request.Message) (*nats.Msg, bool, error) {
		return m, there == nil || replaces(there), nil
	})
	return err
}

// readTimer decodes a timer's message; false unless it fires when and where it says.
func readTimer(subject string, h nats.Header, body []byte) (d task.Due, ok bool) {
	f, err := events.Decode(body)
	if err != nil || subject != names.TimerPrefix+string(f.Task) {
		return d, false
	}
	d, ok = f.Event.(task.Due)
	if !ok || h.Get(scheduleHeader) != atTime(d.Due) {
		return d, false
	}
	rest, ok := strings.CutPrefix(h.Get(scheduleTargetHeader), names.DuePrefix)
	route, id, known := names.RouteAt(names.QueuePrefix + rest)
	return d, ok && known && route == d.Route && id == f.Task
}

// timerOf is [readTimer] for a message as the stream's leader returns it.
func timerOf(m *request.Message) (task.Due, bool) {
	h, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return task.Due{}, false
	}
	return readTimer(m.Subject, h, m.Data)
}

// Arm implements [events.Timekeeper].
func (s *Store) Arm(ctx context.Context, f *events.Fact) error {
	ref, err := events.TimerOf(f)
	if err != nil {
		return err
	}
	e := f.Event.(task.Queued)
	if err := s.openRoute(ctx, f, e.Due); err != nil {
		return fmt.Errorf("arm the timer of task %s: %w", f.Task, err)
	}
	m, err := timer(names.TimerPrefix+string(f.Task), ref, e.Due, names.OfferSubject(&e.Work, f.Task))
	if err == nil {
		err = s.setTimer(ctx, m, func(there *request.Message) bool {
			due, ok := timerOf(there)
			return !ok || e.Timer().Replaces(due)
		})
	}
	if err != nil {
		return fmt.Errorf("arm the timer of task %s: %w", f.Task, err)
	}
	return nil
}

// Disarm implements [events.Timekeeper].
func (s *Store) Disarm(ctx context.Context, id task.ID, before uint64) error {
	subject := names.TimerPrefix + string(id)
	there, found, err := s.LeaderGetFrom(ctx, names.TimerStream, map[string]any{"last_by_subj": subject})
	if found {
		if due, ok := timerOf(&there); !ok || due.Before(before) {
			err = s.purgeTimer(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(there.Seq+1))
		}
	}
	if err != nil {
		return fmt.Errorf("remove the timer of task %s: %w", id, err)
	}
	return nil
}

func (s *Store) purgeTimer(ctx context.Context, which ...jetstream.StreamPurgeOpt) error {
	ctx, done := s.Denials.Guard(ctx, names.APIPurge+names.TimerStream)
	return done(s.timers.Purge(ctx, which...))
}

// Armed implements [events.Timers].
func (s *Store) Armed(ctx context.Context, ids []task.ID) (map[task.ID]task.Due, error) {
	armed := make(map[task.ID]task.Due, len(ids))
	err := request.LastOn(ctx, s.Link, names.TimerStream, names.TimerPrefix, ids, func(id task.ID, m *nats.Msg) error {
		if due, ok := readTimer(names.TimerPrefix+string(id), m.Header, m.Data); ok {
			armed[id] = due
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %d timers: %w", len(ids), err)
	}
	return armed, s.armedByLeader(ctx, ids, armed)
}

// armedByLeader asks the stream's leader for timers that a replica, which may lag, does not have.
func (s *Store) armedByLeader(ctx context.Context, ids []task.ID, armed map[task.ID]task.Due) error {
	for _, id := range ids {
		if _, there := armed[id]; there {
			continue
		}
		m, found, err := s.LeaderGetFrom(ctx, names.TimerStream, map[string]any{"last_by_subj": names.TimerPrefix + string(id)})
		if err != nil {
			return fmt.Errorf("read the timer of task %s: %w", id, err)
		}
		if due, ok := timerOf(&m); found && ok {
			armed[id] = due
		}
	}
	return nil
}

// Timers implements [events.Timers]. It also counts timers that have fired and are on their way to
// the log.
func (s *Store) Timers(ctx context.Context) (int, error) {
	info, err := s.timers.Info(ctx, jetstream.WithSubjectFilter(names.CronPrefix+">"))
	if err != nil {
		return 0, fmt.Errorf("count timers: %w", err)
	}
	return int(info.State.NumSubjects) - len(info.State.Subjects), nil
}

// ArmSchedule sets the timer of a tick. The server fires it [schedule.Ahead] before the tick is due,
// at most 0.3 s late and never early, so that schedulers have read what they need in time. A
// schedule has one timer: with replace it is set anew, without replace an existing one stays.
func (s *Store) ArmSchedule(ctx context.Context, name string, revision uint64, t schedule.Tick, replace bool) error {
	at := t.Due.Add(-schedule.Ahead).UTC()
	f := &events.Fact{
		// Two fires for one tick are the same fact.
		ID: string(schedule.TaskID(fmt.Sprintf("%s fires by %d", name, revision), t.At)), At: at, Schedule: name, Type: events.ScheduleFired,
		Event: task.ScheduleFired{Revision: revision, Tick: t.At, Due: t.Due, Detail: t.Note},
	}
	m, err := timer(names.CronPrefix+name, f, at, names.FirePrefix+name)
	if err == nil {
		err = s.setTimer(ctx, m, func(there *request.Message) bool { return replace && !slices.Equal(there.Data, m.Data) })
	}
	if err != nil {
		return fmt.Errorf("set the timer of schedule %s: %w", name, err)
	}
	return nil
}

// DisarmSchedule removes the timer of a schedule.
func (s *Store) DisarmSchedule(ctx context.Context, name string) error {
	if err := s.purgeTimer(ctx, jetstream.WithPurgeSubject(names.CronPrefix+name)); err != nil {
		return fmt.Errorf("remove the timer of schedule %s: %w", name, err)
	}
	return nil
}

// ArmedSchedules returns the names of the schedules that have a timer.
func (s *Store) ArmedSchedules(ctx context.Context) (map[string]bool, error) {
	info, err := s.timers.Info(ctx, jetstream.WithSubjectFilter(names.CronPrefix+">"))
	if err != nil {
		return nil, fmt.Errorf("list the timers of schedules: %w", err)
	}
	armed := make(map[string]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		armed[subject[len(names.CronPrefix):]] = true
	}
	return armed, nil
}

// TimedBy returns the revisions by which the timers of schedules were set, by name; schedules
// without a timer are missing. Any replica may answer, so it may be out of date.
func (s *Store) TimedBy(ctx context.Context, schedules []string) (map[string]uint64, error) {
	revisions := make(map[string]uint64, len(schedules))
	err := request.LastOn(ctx, s.Link, names.TimerStream, names.CronPrefix, schedules, func(name string, m *nats.Msg) error {
		var f events.Fact
		if err := events.DecodeInto(&f, m.Data); err != nil {
			return nil // not one of our timers: it counts as set long ago
		}
		e, _ := f.Event.(task.ScheduleFired)
		revisions[name] = e.Revision
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the timers of %d schedules: %w", len(schedules), err)
	}
	return revisions, nil
}
