package jet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// JetStream delivers the messages of a consumer in the order of the log, whatever they contain. So
// each lane of a queue has a consumer of its own, and workers choose which to ask. Every version
// knows the consumer of the plain lane: it takes what lies on the queue's own subjects, also of
// other priorities. The consumer of a special lane is made with the first task that needs it, by
// the process that places the task. A node's own route has no lanes; see stock.

// openLane makes sure that the workers of a queue take offers from one of its lanes. due is when a
// timer places the offer there; zero means now.
func (s *Store) openLane(ctx context.Context, l placement.Lane, due time.Time) error {
	if s.openedLately(l, due) {
		return nil
	}
	if err := l.Validate(); err != nil {
		return err
	}
	if err := placement.ValidQueue(l.Queue); err != nil {
		return err
	}
	until := due
	if !until.IsZero() {
		until = until.Truncate(timerStep).Add(timerStep) // so that not every timer stores a word
	}
	err := s.useLane(ctx, l, until)
	// No worker of this version has served the queue, and older ones read no words.
	served := errors.Is(err, events.ErrNoStream)
	if err != nil && !served {
		return err
	}
	if !served {
		if served, err = s.served(ctx, l.Queue); err != nil {
			return fmt.Errorf("consumer of queue %s: %w", l.Queue, err)
		}
	}
	if served { // else the first worker that serves it finds the word
		if _, err = s.ensureLane(ctx, l, true); err != nil {
			return err
		}
	}
	s.lanes.Store(l, opened{time.Now(), until, s.NC.Stats().Reconnects})
	_ = s.NC.Publish(names.LanesPrefix+l.Queue, nil) // workers also look by themselves
	return nil
}

// timerStep is the resolution of laneWord.Until.
const timerStep = 24 * time.Hour

// opened is what this process knows of a lane, as of a connection: a server that comes back may have
// lost it.
type opened struct {
	at, until time.Time
	conn      uint64
}

// openedLately tells whether a word that this process stored also covers this offer.
func (s *Store) openedLately(l placement.Lane, due time.Time) bool {
	known, ok := s.lanes.Load(l)
	if !ok {
		return false
	}
	o := known.(opened)
	return time.Since(o.at) < declareAgain && !due.After(o.until) && o.conn == s.NC.Stats().Reconnects
}

// forEver stands for a pause without an end, as the server needs one.
const forEver = 100 * 365 * 24 * time.Hour

// ensureLane makes the consumer of a lane if there is none, or if there is another one under its
// name. It returns what it did in words, "" for nothing. It makes a removed one again only if open is
// set; else the error is errRemoved.
func (s *Store) ensureLane(ctx context.Context, l placement.Lane, open bool) (made string, err error) {
	if err := placement.ValidQueue(l.Queue); err != nil {
		return "", err
	}
	made = madeAgain
	c, err := s.JS.Consumer(ctx, names.LogStream, names.LaneConsumer(l))
	there := err == nil
	home, from, what, err := s.laneOrigin(ctx, l, open)
	if there && errors.Is(err, errRemoved) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	cfg := s.laneConfig(l, from, what)
	if there {
		if made, there, err = s.mend(ctx, c.CachedInfo().Config, cfg); err != nil {
			return "", err
		}
	}
	if there {
		if made == "" && c.CachedInfo().Config.MaxAckPending != -1 {
			err = s.keepBound(ctx, c.CachedInfo(), home)
		}
		return made, err
	}
	q, err := s.queue(ctx, home)
	if err != nil {
		return "", err
	}
	bound(&cfg, &q, s.Now())
	guarded, done := s.Denials.Guard(ctx, names.APIMake+names.LogStream+"."+cfg.Durable+"."+cfg.FilterSubject)
	_, err = s.log.CreateConsumer(guarded, cfg)
	if err = done(err); err != nil {
		if errors.Is(err, jetstream.ErrConsumerExists) {
			return "", nil // another process was faster
		}
		return "", fmt.Errorf("consumer of queue %s: %w", l.Queue, err)
	}
	if home != l.Queue && home != "" { // its queue's workers have one more lane to count
		_ = s.NC.Publish(names.LanesPrefix+home, nil)
	}
	if now, err := s.queue(ctx, home); err != nil || now.Head != q.Head {
		// The queue may have changed while it was made.
		return made, errors.Join(err, s.KeepQueue(ctx, home))
	}
	return made, nil
}

// keepBound sets the bound of a consumer right if it is not that of its queue.
func (s *Store) keepBound(ctx context.Context, is *jetstream.ConsumerInfo, home string) error {
	q, err := s.queue(ctx, home)
	if err != nil {
		return err
	}
	cfg := is.Config
	if bound(&cfg, &q, s.Now()); cfg.MaxAckPending == is.Config.MaxAckPending {
		return nil
	}
	_, err = s.keepLane(ctx, is, &q)
	return err
}

// laneOrigin returns the queue whose settings hold for a lane, the sequence from which on its offers
// may lie in the log (0 for the beginning), and for whom they are, in words; "" for all who serve
// the queue.
func (s *Store) laneOrigin(ctx context.Context, l placement.Lane, open bool) (home string, from uint64, what string, err error) {
	home = l.Queue
	if placement.IsSelectorQueue(l.Queue) {
		d, known, err := s.selectorOf(ctx, l.Queue)
		if err != nil {
			return home, 0, "", fmt.Errorf("consumer of %s: %w", l.Queue, err)
		}
		if !known && !open {
			return home, 0, "", errRemoved
		}
		// Everything there came after the route's declaration. Without one the consumer begins with
		// the log.
		from, home, what = max(d.From, 1), d.Queue, "its purpose was not declared"
		if known {
			what = selectorWords(&d)
		}
	}
	if names.Special(l) {
		w, err := s.laneWord(ctx, l)
		if err != nil {
			return home, 0, "", fmt.Errorf("consumer of queue %s: %w", l.Queue, err)
		}
		if w.Closed && !open {
			return home, 0, "", errRemoved
		}
		from = max(from, w.From)
	}
	return home, from, what, nil
}

// laneConfig is the consumer of a lane whose queue has no settings.
func (s *Store) laneConfig(l placement.Lane, from uint64, what string) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable:       names.LaneConsumer(l),
		Description:   "Millrace: offers of queue " + l.Queue + "; an ack wait is a lease",
		FilterSubject: names.LaneFilter(l),
		AckPolicy:     jetstream.AckExplicitPolicy, AckWait: s.ackWait,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		MaxDeliver:    maxDeliver, MaxAckPending: -1, MaxWaiting: maxWaiting, MaxRequestBatch: 0,
		Metadata: map[string]string{"millrace": "1", "millrace.queue": l.Queue},
	}
	if names.Special(l) {
		cfg.Metadata["millrace.priority"], cfg.Metadata["millrace.lane"] = fmt.Sprint(l.Priority), fmt.Sprint(l.Number)
	}
	if what != "" {
		cfg.Description = "Millrace: offers for " + what + "; an ack wait is a lease"
	}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	return cfg
}

// maxWaiting is how many requests may wait at a consumer: one for each node that serves the queue,
// and the request of each cut-off node until it expires.
const maxWaiting = 1 << 20

// resumes is how soon a resumed consumer delivers again. A server that learns of the resume later
// leaves the waiting requests waiting.
const resumes = 250 * time.Millisecond

// keepLane makes a consumer match the settings of its queue, and returns how long it takes until it
// delivers again.
func (s *Store) keepLane(ctx context.Context, is *jetstream.ConsumerInfo, q *queue.Queue) (opens time.Duration, err error) {
	now := s.Now()
	cfg := is.Config
	want := cfg
	bound(&want, q, now)
	if want.MaxAckPending != cfg.MaxAckPending {
		cfg.MaxAckPending = want.MaxAckPending // an update never changes a pause
		if _, err := s.log.UpdateConsumer(ctx, cfg); err != nil {
			return 0, err
		}
	}
	switch was := cfg.PauseUntil; {
	case want.PauseUntil == nil && is.Paused && is.PauseRemaining <= resumes:
		return is.PauseRemaining, nil // another process has resumed it already; do not extend that
	case want.PauseUntil == nil && was != nil && was.After(now):
		// The server serves waiting requests when a pause runs out, but not when a caller ends it.
		// Then they would get nothing until another request comes, which may be as long as requests
		// last. So set a short pause instead.
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

// LanePaused returns until when the NATS server delivers nothing from a lane, whichever client
// paused it, and the name of the lane's consumer as the nats command line shows it. The time is
// zero if the lane is not paused or has never been served.
func (s *Store) LanePaused(ctx context.Context, l placement.Lane) (until time.Time, consumer string, err error) {
	name := names.LaneConsumer(l)
	c, err := s.JS.Consumer(ctx, names.LogStream, name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return until, "", nil
	case err != nil:
		return until, "", fmt.Errorf("look at consumer %s: %w", name, err)
	}
	if info := c.CachedInfo(); info.Paused && info.Config.PauseUntil != nil {
		until = *info.Config.PauseUntil
	}
	return until, names.LogStream + " " + name, nil
}

// bound writes an operator's settings of a queue into the configuration of a consumer.
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

// queue reads an operator's settings of a queue.
func (s *Store) queue(ctx context.Context, name string) (queue.Queue, error) {
	// The own route of a node, or a route that is no queue's.
	if value.ValidName("queue", name) != nil {
		return queue.Queue{Name: name}, nil
	}
	records, err := s.Queue(ctx, name)
	return events.FoldQueue(name, records), err
}

// lanesOf lists the lanes of queues: the plain ones, and the special ones in use.
func (s *Store) lanesOf(ctx context.Context, queues ...string) ([]placement.Lane, error) {
	lanes, err := s.spoken(ctx, queues...)
	for _, q := range queues {
		lanes = append(lanes, placement.Lane{Queue: q, Priority: placement.DefaultPriority})
	}
	return lanes, err
}

// under lists the lanes of a queue as lanesOf does, and those of selectors that choose among the
// nodes that serve it: the queue's settings hold for all of them.
func (s *Store) under(ctx context.Context, name string) ([]placement.Lane, error) {
	routes, err := s.routesUnder(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.lanesOf(ctx, slices.Sorted(maps.Keys(routes))...)
}

// routesUnder lists the routes whose lanes the settings of queues hold for, each with its queue: the
// queues themselves, and the selectors that choose among the nodes that serve one. It reads the
// declarations once, however many queues there are.
func (s *Store) routesUnder(ctx context.Context, names ...string) (map[string]string, error) {
	routes := map[string]string{}
	queues := false
	for _, name := range names {
		routes[name] = name
		queues = queues || value.ValidName("queue", name) == nil
	}
	if !queues {
		return routes, nil
	}
	declared, err := s.Declared(ctx)
	for _, d := range declared {
		if _, asked := routes[d.Queue]; asked && d.Queue != "" {
			routes[d.Route()] = d.Queue
		}
	}
	return routes, err
}

// KeepQueue makes the consumers of a queue match its facts: paused or not, and with its limit.
// Consumers that it resumes deliver again when it returns. It is idempotent.
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
			c, err := s.JS.Consumer(ctx, names.LogStream, names.LaneConsumer(l))
			if errors.Is(err, jetstream.ErrConsumerNotFound) {
				continue // the process that makes it does this itself
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
			// So that workers know a changed rate when they get offers again.
			_ = s.NC.Publish(names.LanesPrefix+name, nil)
			select {
			case <-time.After(opens):
			case <-ctx.Done():
				return fmt.Errorf("consumers of queue %s: %w", name, ctx.Err())
			}
		}
		_ = s.NC.Publish(names.LanesPrefix+name, nil) // workers also look by themselves
		now, err := s.queue(ctx, name)
		if err != nil || now.Head == q.Head {
			return err
		}
		// The settings have changed meanwhile, and the change may have been overwritten.
	}
}

// LaneState is the server's state of a lane.
type LaneState struct {
	placement.Lane
	// Waiting are offers not yet delivered, cancelled tasks included; Leased are offers that were
	// delivered and not yet acknowledged.
	Waiting, Leased int
	// Handed counts the deliveries so far; a returned offer counts again.
	Handed uint64
}

// OpenQueue makes the consumer of a queue's plain lane if there is none, so that waiting offers are
// counted before any worker has served the queue.
func (s *Store) OpenQueue(ctx context.Context, name string) error {
	_, err := s.ensureLane(ctx, placement.Lane{Queue: name, Priority: placement.DefaultPriority}, true)
	return err
}

// QueueState returns the server's state of a queue, lane by lane, including the lanes of selectors
// among its nodes. Lanes without a consumer are left out.
func (s *Store) QueueState(ctx context.Context, name string) ([]LaneState, error) {
	states, err := s.QueueStates(ctx, name)
	return states[name], err
}

// QueueStates returns what QueueState does, of several queues.
func (s *Store) QueueStates(ctx context.Context, queues ...string) (map[string][]LaneState, error) {
	routes, err := s.routesUnder(ctx, queues...)
	if err != nil {
		return nil, err
	}
	lanes, err := s.lanesOf(ctx, slices.Sorted(maps.Keys(routes))...)
	if err != nil {
		return nil, err
	}
	states := map[string][]LaneState{}
	for _, l := range lanes {
		name := routes[l.Queue]
		c, err := s.JS.Consumer(ctx, names.LogStream, names.LaneConsumer(l))
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("consumer of queue %s: %w", name, err)
		}
		info := c.CachedInfo()
		states[name] = append(states[name], LaneState{
			Lane:    l,
			Waiting: int(info.NumPending),
			Leased:  info.NumAckPending,
			Handed:  info.Delivered.Consumer,
		})
	}
	return states, nil
}

// Idle tells whether the server has no more offers of a queue to deliver: none waits, and none is
// leased.
func (s *Store) Idle(ctx context.Context, queue string) (bool, error) {
	lanes, err := s.lanesOf(ctx, queue)
	if err != nil {
		return false, err
	}
	for _, l := range lanes {
		c, err := s.JS.Consumer(ctx, names.LogStream, names.LaneConsumer(l))
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			return false, nil // the next worker makes it again, and gets everything there
		}
		if err != nil {
			return false, fmt.Errorf("consumer of queue %s: %w", queue, err)
		}
		if info := c.CachedInfo(); info.NumPending > 0 || info.NumAckPending > 0 {
			return false, nil
		}
		// One that somebody has replaced has nothing to deliver, whatever waits.
		if foreign, err := s.foreign(ctx, l); err != nil || foreign != "" {
			return false, err
		}
	}
	return true, nil
}
