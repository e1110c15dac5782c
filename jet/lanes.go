package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/jet/wire"
	"millrace/task"
	"millrace/task/queue"
	"millrace/task/value"
	"millrace/task/where"
)

// JetStream hands out the messages of a consumer in the order of the log, whatever
// is in them. So each lane of a queue has a consumer of its own, and workers choose
// which to ask. The consumer of the plain lane is the one that every version has known, it
// takes what lies on the queue's own subjects, also of other priorities; those of
// special lanes are made with the first task that needs them, by whoever places it. A node's own route has
// none, see stock.

// openLaneOf sees to it that whoever serves the queue of an offer takes it from its lane. Due is
// when a timer brings it there; zero for now.
func (s *Store) openLaneOf(ctx context.Context, f *events.Fact, due time.Time) error {
	var w *task.Work
	switch e := f.Event.(type) {
	case task.Submitted:
		w = &e.Work
	case task.Queued:
		w = &e.Work
	default:
		return nil
	}
	l := w.Lane()
	if !wire.Special(l) || s.openedLately(l, due) {
		return nil
	}
	if err := l.Validate(); err != nil {
		return err
	}
	if err := where.ValidQueue(l.Queue); err != nil {
		return err
	}
	until := due
	if !until.IsZero() {
		until = until.Truncate(timerStep).Add(timerStep) // so that not each timer says a word
	}
	err := s.useLane(ctx, l, until)
	served := errors.Is(err, events.ErrNoStream) // no server of this version has been there, so who serves the queue reads no words
	if err != nil && !served {
		return err
	}
	if !served {
		if served, err = s.served(ctx, l.Queue); err != nil {
			return fmt.Errorf("consumer of queue %s: %w", l.Queue, err)
		}
	}
	if served { // else whoever is the first to serve it finds the word
		if _, err = s.ensureLane(ctx, l, true); err != nil {
			return err
		}
	}
	s.lanes.Store(l, opened{time.Now(), until})
	_ = s.NC.Publish(wire.LanesPrefix+l.Queue, nil) // workers also look by themselves
	return nil
}

// timerStep is how exactly it is said until when timers are set for a lane.
const timerStep = 24 * time.Hour

// opened is what a writer knows of a lane.
type opened struct{ at, until time.Time }

// openedLately tells whether a word that this process has said stands for an offer as well.
func (s *Store) openedLately(l where.Lane, due time.Time) bool {
	known, ok := s.lanes.Load(l)
	if !ok {
		return false
	}
	o := known.(opened)
	return time.Since(o.at) < declareAgain && !due.After(o.until)
}

// forEver is until when the server is told to pause what is paused without an end.
const forEver = 100 * 365 * 24 * time.Hour

// ensureLane makes the consumer of a lane if there is none, and tells whether it did. One that was removed on purpose is
// made again only to open it; else the error is errRemoved.
func (s *Store) ensureLane(ctx context.Context, l where.Lane, open bool) (made bool, err error) {
	if err := where.ValidQueue(l.Queue); err != nil {
		return false, err
	}
	name := wire.LaneConsumer(l)
	c, err := s.JS.Consumer(ctx, wire.LogStream, name)
	if err == nil && c.CachedInfo().Config.MaxDeliver > 0 {
		return false, nil
	}
	if err == nil { // of a version that had no such bound
		cfg := c.CachedInfo().Config
		cfg.MaxDeliver = maxDeliver
		_, err = s.log.UpdateConsumer(ctx, cfg)
		return false, err
	}
	home := l.Queue
	var from uint64
	var what string
	if where.IsSelectorQueue(l.Queue) {
		d, known, err := s.selectorOf(ctx, l.Queue)
		if err != nil {
			return false, fmt.Errorf("consumer of %s: %w", l.Queue, err)
		}
		if !known && !open {
			return false, errRemoved
		}
		// All that lies there came later than its declaration. Without one it begins with the log.
		from, home, what = max(d.From, 1), d.Queue, "nobody has declared what for"
		if known {
			what = selectorWords(&d)
		}
	}
	if wire.Special(l) {
		w, err := s.laneWord(ctx, l)
		if err != nil {
			return false, fmt.Errorf("consumer of queue %s: %w", l.Queue, err)
		}
		if w.Closed && !open {
			return false, errRemoved
		}
		from = max(from, w.From)
	}
	q, err := s.queue(ctx, home)
	if err != nil {
		return false, err
	}
	cfg := jetstream.ConsumerConfig{
		Durable:       name,
		Description:   "Millrace: offers of queue " + l.Queue + "; an ack wait is a lease",
		FilterSubject: wire.LaneFilter(l),
		AckPolicy:     jetstream.AckExplicitPolicy, AckWait: s.ackWait,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		MaxDeliver:    maxDeliver, MaxAckPending: -1, MaxWaiting: maxWaiting, MaxRequestBatch: 0,
		Metadata: map[string]string{"millrace": "1", "millrace.queue": l.Queue},
	}
	if wire.Special(l) {
		cfg.Metadata["millrace.priority"], cfg.Metadata["millrace.lane"] = fmt.Sprint(l.Priority), fmt.Sprint(l.Number)
	}
	if what != "" {
		cfg.Description = "Millrace: offers for " + what + "; an ack wait is a lease"
	}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	bound(&cfg, &q, s.Now())
	if _, err := s.log.CreateConsumer(ctx, cfg); err != nil {
		if errors.Is(err, jetstream.ErrConsumerExists) {
			return false, nil // somebody else was faster
		}
		return false, fmt.Errorf("consumer of queue %s: %w", l.Queue, err)
	}
	if home != l.Queue && home != "" { // whoever counts what runs of that queue has one lane more to count
		_ = s.NC.Publish(wire.LanesPrefix+home, nil)
	}
	if now, err := s.queue(ctx, home); err != nil || now.Head != q.Head {
		return true, errors.Join(err, s.KeepQueue(ctx, home)) // said while it was made
	}
	return true, nil
}

// maxWaiting is how many requests may wait at a consumer: one for each node that serves the queue, and
// that of each node that is cut off until it expires.
const maxWaiting = 1 << 20

// resumes is in what time a consumer that is resumed hands out again; a server that hears of it later lets the
// requests that wait there wait on.
const resumes = 250 * time.Millisecond

// keepLane makes a consumer be as is said about its queue, and tells how long it takes until it hands out again.
func (s *Store) keepLane(ctx context.Context, is *jetstream.ConsumerInfo, q *queue.Queue) (opens time.Duration, err error) {
	now := s.Now()
	cfg := is.Config
	want := cfg
	bound(&want, q, now)
	if want.MaxAckPending != cfg.MaxAckPending {
		cfg.MaxAckPending = want.MaxAckPending // a pause stays as it is, whatever else an update says
		if _, err := s.log.UpdateConsumer(ctx, cfg); err != nil {
			return 0, err
		}
	}
	switch was := cfg.PauseUntil; {
	case want.PauseUntil == nil && is.Paused && is.PauseRemaining <= resumes:
		return is.PauseRemaining, nil // who else resumes it has begun, and is not to be put off
	case want.PauseUntil == nil && was != nil && was.After(now):
		// The server looks at the requests that wait when a pause is over, not when somebody ends it. Then they would
		// get nothing until another one comes, which may be for as long as requests last.
		answer, err := s.log.PauseConsumer(ctx, cfg.Durable, now.Add(resumes))
		if err != nil {
			return 0, err
		}
		return answer.PauseRemaining, nil
	case want.PauseUntil != nil && (was == nil || !was.Equal(*want.PauseUntil)):
		_, err = s.log.PauseConsumer(ctx, cfg.Durable, *want.PauseUntil)
	}
	return 0, err
}

// LanePaused returns until when the NATS server hands nothing out of a lane, whoever has asked it for that, and
// how the nats command line names the lane's consumer; the zero time if it does, or nobody has ever served the lane.
func (s *Store) LanePaused(ctx context.Context, l where.Lane) (until time.Time, consumer string, err error) {
	name := wire.LaneConsumer(l)
	c, err := s.JS.Consumer(ctx, wire.LogStream, name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return until, "", nil
	case err != nil:
		return until, "", fmt.Errorf("look at consumer %s: %w", name, err)
	}
	if info := c.CachedInfo(); info.Paused && info.Config.PauseUntil != nil {
		until = *info.Config.PauseUntil
	}
	return until, wire.LogStream + " " + name, nil
}

// bound writes what operators have said about a queue into the configuration of a consumer.
func bound(cfg *jetstream.ConsumerConfig, q *queue.Queue, now time.Time) {
	if cfg.MaxAckPending = q.Limit; q.Limit == 0 {
		cfg.MaxAckPending = -1
	}
	cfg.PauseUntil = nil
	if p := q.PausedAt(now); p != nil {
		until := p.Until.UTC()
		if p.Until.IsZero() {
			until = p.Since.Add(forEver).UTC()
		}
		cfg.PauseUntil = &until
	}
}

// queue reads what operators have said about a queue.
func (s *Store) queue(ctx context.Context, name string) (queue.Queue, error) {
	if value.ValidName("queue", name) != nil { // the own route of a node, or one that stands for no queue
		return queue.Queue{Name: name}, nil
	}
	records, err := s.Queue(ctx, name)
	return events.FoldQueue(name, records), err
}

// lanesOf lists the lanes of queues: the plain ones, and those that are said to be used.
func (s *Store) lanesOf(ctx context.Context, queues ...string) ([]where.Lane, error) {
	lanes, err := s.spoken(ctx, queues...)
	for _, q := range queues {
		lanes = append(lanes, where.Lane{Queue: q, Priority: where.DefaultPriority})
	}
	return lanes, err
}

// under lists the lanes of a queue as lanesOf does, and those of the selectors that choose among
// the nodes which serve it: what operators say about the queue holds for all of them.
func (s *Store) under(ctx context.Context, name string) ([]where.Lane, error) {
	queues := []string{name}
	if value.ValidName("queue", name) == nil {
		declared, err := s.Declared(ctx)
		if err != nil {
			return nil, err
		}
		for _, d := range declared {
			if d.Queue == name {
				queues = append(queues, d.Route())
			}
		}
	}
	return s.lanesOf(ctx, queues...)
}

// KeepQueue makes the consumers of a queue be as the facts about it say: paused or
// not, and with its limit. Those that it resumes hand out again when it returns. Doing it again is harmless.
func (s *Store) KeepQueue(ctx context.Context, name string) error {
	for {
		q, err := s.queue(ctx, name)
		if err != nil {
			return err
		}
		lanes, err := s.under(ctx, name)
		if err != nil {
			return err
		}
		var opens time.Duration
		for _, l := range lanes {
			c, err := s.JS.Consumer(ctx, wire.LogStream, wire.LaneConsumer(l))
			if errors.Is(err, jetstream.ErrConsumerNotFound) {
				continue // whoever makes it does so himself
			}
			if err != nil {
				return fmt.Errorf("consumer of queue %s: %w", name, err)
			}
			in, err := s.keepLane(ctx, c.CachedInfo(), &q)
			if err != nil {
				return fmt.Errorf("consumer of queue %s: %w", name, err)
			}
			opens = max(opens, in)
		}
		if opens > 0 {
			// So that workers know the rate, should one have been set meanwhile, when they get offers again.
			_ = s.NC.Publish(wire.LanesPrefix+name, nil)
			select {
			case <-time.After(opens):
			case <-ctx.Done():
				return fmt.Errorf("consumers of queue %s: %w", name, ctx.Err())
			}
		}
		_ = s.NC.Publish(wire.LanesPrefix+name, nil) // workers also look by themselves
		now, err := s.queue(ctx, name)
		if err != nil || now.Head == q.Head {
			return err
		}
		// Something was said meanwhile, and may have been overwritten.
	}
}

// LaneState is what the server holds of a lane.
type LaneState struct {
	where.Lane
	// Waiting are offers that were not handed out yet, also of tasks that were cancelled since;
	// Leased are those that were and are not done with.
	Waiting, Leased int
	// Handed counts how many were ever handed out, returned ones again.
	Handed uint64
}

// OpenQueue makes the consumer of a queue's plain lane if there is none, so that what waits there is
// counted before anybody has served the queue.
func (s *Store) OpenQueue(ctx context.Context, name string) error {
	_, err := s.ensureLane(ctx, where.Lane{Queue: name, Priority: where.DefaultPriority}, true)
	return err
}

// QueueState returns what the server holds of a queue, lane by lane, those of selectors that choose among
// its nodes included. Lanes without a consumer are left out.
func (s *Store) QueueState(ctx context.Context, name string) ([]LaneState, error) {
	lanes, err := s.under(ctx, name)
	if err != nil {
		return nil, err
	}
	var states []LaneState
	for _, l := range lanes {
		c, err := s.JS.Consumer(ctx, wire.LogStream, wire.LaneConsumer(l))
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("consumer of queue %s: %w", name, err)
		}
		info := c.CachedInfo()
		states = append(states, LaneState{Lane: l, Waiting: int(info.NumPending), Leased: info.NumAckPending, Handed: info.Delivered.Consumer})
	}
	return states, nil
}
