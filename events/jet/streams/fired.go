package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
)

// Timers lie in a stream of their own. A stream with timers must accept messages that remove
// others: one header of one message can empty it. The log accepts no such message. It sources the
// timers that fire:
//
//	mr.timer.<task>  fires as mr.due.<queue>.<priority>.<task> and lies in the log as mr.queue.<queue>.<priority>.due.<task>
//	mr.cron.<schedule> fires as mr.due.<schedule>     and lies in the log as mr.fire.<schedule>
//
// A message stays in the stream until the log has it, however long that takes. A user that may set
// a timer may set any, with any target in this stream, and may remove all. So what fires is only a
// reference ([task.Due], [definition.ScheduleFired]), the log takes nothing else from there, and a
// scheduler sets missing timers again.

// firedAtOnce is how many fired timers may be on their way to the log.
const firedAtOnce = 8192

// maxTimer is the largest timer in bytes, headers included. The log takes larger messages, so a
// timer can never block those behind it.
const maxTimer = 8 << 10

// timerStream is the stream of timers.
func (l Layout) timerStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        names.TimerStream,
		Description: "Millrace: timers of tasks and schedules, and what has fired until the log has it; made again from the log when lost",
		Subjects:    []string{names.TimerPrefix + "*", names.CronPrefix + "*", names.DuePrefix + "*", names.DuePrefix + "*.*.*", names.DueProbe},
		// A timer is a message schedule, and schedules need rollups.
		AllowMsgSchedules: true, AllowRollup: true,
		AllowDirect: true,
		// Not interest retention, with which a timer is acknowledged and gone; and no bound on age,
		// which would lose a timer that is due later.
		Retention: jetstream.WorkQueuePolicy,
		Storage:   jetstream.FileStorage, Discard: jetstream.DiscardOld,
		Duplicates: 100 * time.Millisecond,
		MaxMsgSize: maxTimer,
		Replicas:   l.Replicas, Metadata: l.metadata(),
	}
}

// timerSource is how the log sources fired timers.
func timerSource() *jetstream.StreamSource {
	return &jetstream.StreamSource{
		Name: names.TimerStream,
		SubjectTransforms: []jetstream.SubjectTransformConfig{
			{Source: names.DuePrefix + "*.*.*", Destination: names.QueuePrefix + "{{wildcard(1)}}.{{wildcard(2)}}." + names.FiredToken + ".{{wildcard(3)}}"},
			{Source: names.DuePrefix + "*", Destination: names.FirePrefix + "{{wildcard(1)}}"},
			{Source: names.DueProbe, Destination: names.LogProbe},
		},
		Consumer: &jetstream.StreamConsumerSource{Name: names.FiredConsumer, DeliverSubject: names.FiredSubject},
	}
}

// LaidMark returns where a log that is written into a data directory needs a mark ([jet.Marks]) as its
// last message, and the mark's header, by which the log has sourced nothing yet. Otherwise the NATS
// server would look through the whole log for what it has sourced, for an hour with millions of
// messages, and answer nobody meanwhile.
func LaidMark() (subject string, header nats.Header) {
	return names.LogProbe, nats.Header{sourceHeader: {names.TimerStream + " 0"}}
}

// sourceHeader is in messages that a stream has sourced: the other stream, and the sequence there.
const sourceHeader = "Nats-Stream-Source"

// ensureFired makes the consumer by which the log sources fired timers, if there is none, and tells
// whether it did. It is made before the log asks for it: after a restart, a consumer that the
// server makes by itself gets in its own way for 10 s.
func ensureFired(ctx context.Context, js jetstream.JetStream) (made bool, err error) {
	stream, err := js.Stream(ctx, names.TimerStream)
	if err != nil {
		return false, err
	}
	_, err = stream.PushConsumer(ctx, names.FiredConsumer)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, err
	}
	_, err = stream.CreatePushConsumer(ctx, jetstream.ConsumerConfig{
		Durable: names.FiredConsumer, Description: "Millrace: the log sources what has fired",
		DeliverSubject: names.FiredSubject, FilterSubject: names.DuePrefix + ">", DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckFlowControlPolicy, FlowControl: true, IdleHeartbeat: time.Second, MaxAckPending: firedAtOnce,
		Metadata: map[string]string{"millrace": "1"},
	})
	return err == nil, err
}

// sourceAgain makes the log source fired timers from the beginning, after their stream or its
// consumer was made again. Otherwise the server would continue after the lost one's last sequence,
// and drop what the new one delivers under earlier numbers.
func sourceAgain(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, names.LogStream)
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
