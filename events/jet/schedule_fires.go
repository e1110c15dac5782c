package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/task/placement"
)

// LastDecision returns the latest decision on a tick of a schedule. Its sequence is the one that the
// next decision must follow: that of the last message, which may be no fact; 0 if there is none.
func (s *Store) LastDecision(ctx context.Context, name string) (events.Record, error) {
	r, end, err := s.Latest(ctx, events.Fact{Schedule: name})
	r.Seq = end
	return r, err
}

// LastDecisions is [Store.LastDecision] for many schedules, by name; schedules without one are
// missing. Any replica may answer, so it may be out of date.
func (s *Store) LastDecisions(ctx context.Context, schedules []string) (map[string]events.Record, error) {
	last := make(map[string]events.Record, len(schedules))
	var foreign []string // those whose last message is no fact
	err := request.LastOn(ctx, s.Link, names.LogStream, names.TickPrefix, schedules, func(name string, m *nats.Msg) error {
		seq, err := request.SequenceOf(m)
		if err != nil {
			return err
		}
		stored, err := time.Parse(time.RFC3339Nano, request.Added(m, jetstream.TimeStampHeaer))
		if err != nil {
			return fmt.Errorf("a message without a time: %w", err)
		}
		r := request.Record(names.TickPrefix+name, seq, stored, m.Header, 1, m.Data)
		if last[name] = r; !r.Readable() {
			foreign = append(foreign, name)
		}
		return nil
	})
	for _, name := range foreign {
		if err == nil {
			last[name], err = s.LastDecision(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the latest decisions of %d schedules: %w", len(schedules), err)
	}
	return last, nil
}

// LastFire returns the latest fire of a schedule; its sequence is 0 if there is none.
func (s *Store) LastFire(ctx context.Context, name string) (events.Record, error) {
	r, _, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": names.FirePrefix + name})
	return r, err
}

// Decisions returns the decisions on ticks of a schedule that the log has stored since a time.
func (s *Store) Decisions(ctx context.Context, name string, since time.Time) ([]events.Record, error) {
	subject := names.TickPrefix + name
	end, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": subject})
	if err != nil || !found || end.Stored.Before(since) {
		return nil, err
	}
	first, found, err := s.LeaderGet(ctx, map[string]any{"start_time": since.UTC(), "next_by_subj": subject})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, nil
	}
	return s.ReadSubject(ctx, subject, first.Seq-1)
}

// The consumer of fires is shared by all schedulers: a fire that its scheduler has not dealt with
// in fireWait goes to another one.
const fireWait = 5 * time.Second

// Fires delivers fires of schedules, each to one scheduler at a time, until it is acknowledged.
func (s *Store) Fires(ctx context.Context) (events.Offers, error) {
	o := s.newOffers()
	lane := placement.Lane{Queue: names.FireConsumer, Priority: placement.DefaultPriority}
	if err := o.begin(ctx, &source{maker: shared(s.ensureFires), lane: lane, consumer: names.FireConsumer, pace: pubsub.ReaderPace}); err != nil {
		o.Close()
		return nil, fmt.Errorf("consumer of fires: %w", err)
	}
	return o, nil
}

// ensureFires makes the consumer of fires as ensureLane does that of a lane.
func (s *Store) ensureFires(ctx context.Context) (made string, err error) {
	want := jetstream.ConsumerConfig{
		Durable: names.FireConsumer, Description: "Millrace: fires of schedules, for the schedulers",
		FilterSubject: names.FirePrefix + "*", AckPolicy: jetstream.AckExplicitPolicy, AckWait: fireWait,
		DeliverPolicy: jetstream.DeliverAllPolicy, MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: 1024,
		Metadata: map[string]string{"millrace": "1"},
	}
	made = madeAgain
	c, err := s.JS.Consumer(ctx, names.LogStream, names.FireConsumer)
	switch {
	case err == nil:
		var there bool
		if made, there, err = s.mend(ctx, c.CachedInfo().Config, want); there || err != nil {
			return made, err
		}
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return "", err
	}
	_, err = s.log.CreateConsumer(ctx, want)
	return made, err
}
