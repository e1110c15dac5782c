package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/jet/link"
	"millrace/jet/wire"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/schedule"
)

// Timers lie in a stream of their own, for a stream that keeps them takes messages that remove others:
// one header of one message empties it. The log takes no such message. It sources what fires:
//
//	mr.timer.<task>     fires as  mr.due.<queue>.<priority>.<task>  and lies in the log as  mr.queue.<queue>.<priority>.due.<task>
//	mr.cron.<schedule>  fires as  mr.due.<schedule>                 and lies in the log as  mr.fire.<schedule>
//
// A message stays in the stream until the log has it, however long that takes. Whoever may set a timer
// may set any, with any target in this stream, and may remove all. So what fires is a reference
// ([task.Due], [definition.ScheduleFired]), the log takes nothing else that comes this way, and a scheduler
// sets again what is missing.

// Headers of a message schedule.
const (
	scheduleHeader       = "Nats-Schedule"
	scheduleTargetHeader = "Nats-Schedule-Target"
)

// firedHeader is in each message that the log has sourced, and in no other: the server refuses
// it in what is published.
const firedHeader = "Nats-Stream-Source"

// Of the consumer by which the log sources the timers that have fired. It is made before the log asks for it:
// one that the server makes by itself it finds in its own way for 10 s after a restart. Nobody but a server may
// publish on firedSubject.
const (
	firedConsumer = "log"
	firedSubject  = "mr.fired"
	firedAtOnce   = 8192 // handed out and not yet stored in the log
)

// maxTimer is the largest timer in bytes, its headers included. The log takes larger messages, so none of
// them can be in the way of those behind it.
const maxTimer = 8 << 10

// timerStream is the stream of timers.
func (l Layout) timerStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        wire.TimerStream,
		Description: "Millrace: timers of tasks and schedules, and what has fired until the log has it; made again from the log when lost",
		Subjects:    []string{wire.TimerPrefix + "*", wire.CronPrefix + "*", wire.DuePrefix + "*", wire.DuePrefix + "*.*.*", wire.DueProbe},
		// A timer is a message schedule, and that needs rollups.
		AllowMsgSchedules: true, AllowRollup: true,
		AllowDirect: true,
		// Not interest, with which a timer is acknowledged and gone; and no bound on age, by which one that is due later is lost.
		Retention: jetstream.WorkQueuePolicy,
		Storage:   jetstream.FileStorage, Discard: jetstream.DiscardOld,
		Duplicates: 100 * time.Millisecond,
		MaxMsgSize: maxTimer,
		Replicas:   l.Replicas, Metadata: l.metadata(),
	}
}

// timerSource is how the log takes over what has fired.
func timerSource() *jetstream.StreamSource {
	return &jetstream.StreamSource{
		Name: wire.TimerStream,
		SubjectTransforms: []jetstream.SubjectTransformConfig{
			{Source: wire.DuePrefix + "*.*.*", Destination: wire.QueuePrefix + "{{wildcard(1)}}.{{wildcard(2)}}." + wire.FiredToken + ".{{wildcard(3)}}"},
			{Source: wire.DuePrefix + "*", Destination: wire.FirePrefix + "{{wildcard(1)}}"},
			{Source: wire.DueProbe, Destination: wire.LogProbe},
		},
		Consumer: &jetstream.StreamConsumerSource{Name: firedConsumer, DeliverSubject: firedSubject},
	}
}

// ensureFired makes the consumer by which the log sources what has fired, if there is none, and tells whether it did.
func ensureFired(ctx context.Context, js jetstream.JetStream) (made bool, err error) {
	stream, err := js.Stream(ctx, wire.TimerStream)
	if err != nil {
		return false, err
	}
	_, err = stream.PushConsumer(ctx, firedConsumer)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, err
	}
	_, err = stream.CreatePushConsumer(ctx, jetstream.ConsumerConfig{
		Durable: firedConsumer, Description: "Millrace: the log sources what has fired",
		DeliverSubject: firedSubject, FilterSubject: wire.DuePrefix + ">", DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckFlowControlPolicy, FlowControl: true, IdleHeartbeat: time.Second, MaxAckPending: firedAtOnce,
		Metadata: map[string]string{"millrace": "1"},
	})
	return err == nil, err
}

// sourceAgain has the log begin anew to source the timers that have fired, after their stream or its consumer was made again. The server
// would go on where the lost one was: what the new one delivers under numbers that have been it drops.
func sourceAgain(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, wire.LogStream)
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	for _, sources := range [][]*jetstream.StreamSource{nil, {timerSource()}} {
		cfg.Sources = sources
		if _, err = js.UpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("have the log source timers again: %w", err)
		}
	}
	return nil
}

// dueSubject is where a timer fires whose message is to lie at a subject of the log.
func dueSubject(subject string) string {
	if rest, offer := strings.CutPrefix(subject, wire.QueuePrefix); offer {
		return wire.DuePrefix + rest
	}
	return wire.DuePrefix + strings.TrimPrefix(subject, wire.FirePrefix)
}

// timer is the message that has the server place a fact at a subject of the log. The server fires it within
// 0.3 s after it is due and never before.
func timer(at string, f *events.Fact, due time.Time, target string) (*nats.Msg, error) {
	body, err := events.Encode(nil, f)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: at, Data: body, Header: nats.Header{
		events.TypeHeader: {string(f.Type)},
		// The client's own option writes whole seconds, so it would fire early.
		scheduleHeader:       {atTime(due)},
		scheduleTargetHeader: {dueSubject(target)},
	}}, nil
}

func atTime(due time.Time) string { return "@at " + due.UTC().Format(time.RFC3339Nano) }

// setTimer stores a timer. If its subject has one, replaces decides whether it gives way. An unknown outcome is
// tried again: one timer is left however often it is set.
func (s *Store) setTimer(ctx context.Context, m *nats.Msg, replaces func(there *link.Message) bool) error {
	_, err := s.Said(wire.TimerStream, m.Subject).DecideFrom(ctx, nil, 0, func(there *link.Message) (*nats.Msg, bool, error) {
		return m, there == nil || replaces(there), nil
	})
	return err
}

// readTimer is the timer that a message is, if it is one that fires as it says and where it says.
func readTimer(subject string, h nats.Header, body []byte) (d task.Due, ok bool) {
	f, err := events.Decode(body)
	if err != nil || subject != wire.TimerPrefix+string(f.Task) {
		return d, false
	}
	d, ok = f.Event.(task.Due)
	if !ok || h.Get(scheduleHeader) != atTime(d.Due) {
		return d, false
	}
	rest, ok := strings.CutPrefix(h.Get(scheduleTargetHeader), wire.DuePrefix)
	route, id, known := wire.RouteAt(wire.QueuePrefix + rest)
	return d, ok && known && route == d.Route && id == f.Task
}

// timerOf is [readTimer] of a message as the stream's leader returns it.
func timerOf(m *link.Message) (task.Due, bool) {
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
	if err := s.declareFor(ctx, &e.Work); err != nil {
		return fmt.Errorf("arm the timer of task %s: %w", f.Task, err)
	}
	if err := s.openLaneOf(ctx, f, e.Due); err != nil {
		return err
	}
	m, err := timer(wire.TimerPrefix+string(f.Task), ref, e.Due, wire.OfferSubject(&e.Work, f.Task))
	if err == nil {
		err = s.setTimer(ctx, m, func(there *link.Message) bool {
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
	subject := wire.TimerPrefix + string(id)
	there, found, err := s.LeaderGetFrom(ctx, wire.TimerStream, map[string]any{"last_by_subj": subject})
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
	ctx, done := s.Denials.Guard(ctx, wire.APIPurge+wire.TimerStream)
	return done(s.timers.Purge(ctx, which...))
}

// Armed implements [events.Timers].
func (s *Store) Armed(ctx context.Context, ids []task.ID) (map[task.ID]task.Due, error) {
	armed := make(map[task.ID]task.Due, len(ids))
	for some := range slices.Chunk(ids, link.MaxBatch) {
		subjects := make([]string, len(some))
		for i, id := range some {
			subjects[i] = wire.TimerPrefix + string(id)
		}
		found, err := s.BatchGet(ctx, wire.TimerStream, len(some), map[string]any{"multi_last": subjects})
		if err != nil {
			return nil, fmt.Errorf("read %d timers: %w", len(ids), err)
		}
		for _, m := range found {
			subject := link.Added(m, jetstream.SubjectHeader)
			if due, ok := readTimer(subject, m.Header, m.Data); ok {
				armed[task.ID(subject[len(wire.TimerPrefix):])] = due
			}
		}
		if err := s.armedByLeader(ctx, some, armed); err != nil {
			return nil, err
		}
	}
	return armed, nil
}

// armedByLeader asks the stream's leader for the timers that a replica does not have, which may be behind.
func (s *Store) armedByLeader(ctx context.Context, ids []task.ID, armed map[task.ID]task.Due) error {
	for _, id := range ids {
		if _, there := armed[id]; there {
			continue
		}
		m, found, err := s.LeaderGetFrom(ctx, wire.TimerStream, map[string]any{"last_by_subj": wire.TimerPrefix + string(id)})
		if err != nil {
			return fmt.Errorf("read the timer of task %s: %w", id, err)
		}
		if due, ok := timerOf(&m); found && ok {
			armed[id] = due
		}
	}
	return nil
}

// Timers implements [events.Timers]. Beside those of tasks it counts what has fired and is on its way to the log.
func (s *Store) Timers(ctx context.Context) (int, error) {
	info, err := s.timers.Info(ctx, jetstream.WithSubjectFilter(wire.CronPrefix+">"))
	if err != nil {
		return 0, fmt.Errorf("count timers: %w", err)
	}
	return int(info.State.NumSubjects) - len(info.State.Subjects), nil
}

// ArmSchedule has the server fire a tick of a schedule [schedule.Ahead] of when it is due, within
// 0.3 s and never before that, so that schedulers have read what they need when it is. A schedule
// has one timer: with replace it is set anew, without it one that is there stays.
func (s *Store) ArmSchedule(ctx context.Context, name string, revision uint64, t schedule.Tick, replace bool) error {
	at := t.Due.Add(-schedule.Ahead).UTC()
	f := &events.Fact{
		// A tick that fires twice is the same fact.
		ID: string(schedule.TaskID(fmt.Sprintf("%s fires by %d", name, revision), t.At)), At: at, Schedule: name, Type: events.ScheduleFired,
		Event: definition.ScheduleFired{Revision: revision, Tick: t.At, Due: t.Due, Detail: t.Note},
	}
	m, err := timer(wire.CronPrefix+name, f, at, wire.FirePrefix+name)
	if err == nil {
		err = s.setTimer(ctx, m, func(there *link.Message) bool { return replace && !slices.Equal(there.Data, m.Data) })
	}
	if err != nil {
		return fmt.Errorf("set the timer of schedule %s: %w", name, err)
	}
	return nil
}

// DisarmSchedule removes the timer of a schedule.
func (s *Store) DisarmSchedule(ctx context.Context, name string) error {
	if err := s.purgeTimer(ctx, jetstream.WithPurgeSubject(wire.CronPrefix+name)); err != nil {
		return fmt.Errorf("remove the timer of schedule %s: %w", name, err)
	}
	return nil
}

// ArmedSchedules are the names of the schedules that have a timer.
func (s *Store) ArmedSchedules(ctx context.Context) (map[string]bool, error) {
	info, err := s.timers.Info(ctx, jetstream.WithSubjectFilter(wire.CronPrefix+">"))
	if err != nil {
		return nil, fmt.Errorf("list the timers of schedules: %w", err)
	}
	armed := make(map[string]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		armed[subject[len(wire.CronPrefix):]] = true
	}
	return armed, nil
}

// TimedBy are the revisions by which the timers of schedules were set, by name; those that have no timer are
// not there. Any replica answers, so it may be out of date.
func (s *Store) TimedBy(ctx context.Context, names []string) (map[string]uint64, error) {
	revisions := make(map[string]uint64, len(names))
	err := s.lastOn(ctx, wire.TimerStream, wire.CronPrefix, names, func(name string, m *nats.Msg) error {
		var f events.Fact
		if err := events.DecodeInto(&f, m.Data); err != nil {
			return nil // no timer of ours: it counts as one of long ago
		}
		e, _ := f.Event.(definition.ScheduleFired)
		revisions[name] = e.Revision
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the timers of %d schedules: %w", len(names), err)
	}
	return revisions, nil
}
