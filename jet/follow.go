package jet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
)

// Sizes of a feed.
const (
	feedWindow = 8192 // messages that may be on their way or waiting to be read
	feedAtOnce = feedWindow / 4
)

// Follow implements [events.Follower]. It reads through a consumer of its own,
// in memory and on one server; if that is lost, the feed makes another one where
// it stopped.
func (s *Store) Follow(ctx context.Context, from uint64) (events.Feed, error) {
	f := &feed{store: s, next: max(from, 1), arrived: make(chan struct{}, 1)}
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// feed is the log from a sequence on.
type feed struct {
	store    *Store
	consumer string
	pull     *puller
	next     uint64 // the sequence that Next returns at the earliest

	arrived chan struct{} // something is in buffer, or err is set

	mu     sync.Mutex
	buffer []*nats.Msg // guarded by mu
	spare  []*nats.Msg // guarded by mu; the buffer that was read before
	taken  uint64      // guarded by mu; how many messages the consumer has brought
	lost   bool        // guarded by mu; the consumer must be made again

	seen    uint64 // consumer sequence of the last message read
	broken  bool   // the consumer must be made again before anything else
	records []events.Record
}

func (f *feed) open(ctx context.Context) error {
	c, err := f.store.log.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description:   "Millrace: reads the log in order",
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.next,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: time.Minute, MaxWaiting: 64,
	})
	if err != nil {
		return fmt.Errorf("follow the log from %d: %w", f.next, err)
	}
	f.consumer = c.CachedInfo().Name
	f.mu.Lock()
	f.buffer, f.taken, f.lost = nil, 0, false
	f.mu.Unlock()
	f.seen, f.broken = 0, false
	pull, err := newPuller(f.store.nc, LogStream, f.consumer, feedAtOnce, f.take, func(context.Context) { f.fail() })
	if err != nil {
		return err
	}
	pull.idle = f.idle
	f.pull = pull
	pull.want(feedWindow)
	return nil
}

func (f *feed) take(m *nats.Msg) bool {
	f.mu.Lock()
	f.buffer = append(f.buffer, m)
	f.taken++
	f.mu.Unlock()
	f.notify()
	return true
}

// idle finds the loss of a message that no other one follows.
func (f *feed) idle(sent uint64) {
	f.mu.Lock()
	missing := sent > f.taken
	f.mu.Unlock()
	if missing {
		f.fail()
	}
}

func (f *feed) fail() {
	f.mu.Lock()
	f.lost = true
	f.mu.Unlock()
	f.notify()
}

func (f *feed) notify() {
	select {
	case f.arrived <- struct{}{}:
	default:
	}
}

// Next implements [events.Feed].
func (f *feed) Next(ctx context.Context) ([]events.Record, error) {
	for {
		if f.broken {
			if err := f.reopen(ctx); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.arrived:
		}
		f.mu.Lock()
		batch, lost := f.buffer, f.lost
		f.buffer, f.spare = f.spare[:0], batch
		f.mu.Unlock()
		if f.broken = !f.read(batch) || lost; !f.broken {
			f.pull.want(len(batch))
		}
		if len(f.records) > 0 {
			return f.records, nil
		}
	}
}

// read turns messages into records, and tells whether none is missing.
func (f *feed) read(batch []*nats.Msg) bool {
	clear(f.records)
	f.records = f.records[:0]
	for i, m := range batch {
		r, d, ok := recordFrom(m)
		batch[i] = nil
		if !ok {
			continue
		}
		if d.consumerSeq != f.seen+1 {
			return false
		}
		f.seen = d.consumerSeq
		if r.Seq < f.next {
			continue
		}
		f.next = r.Seq + 1
		f.records = append(f.records, r)
	}
	return true
}

func (f *feed) reopen(ctx context.Context) error {
	f.pull.close()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if err := f.open(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Close implements [events.Feed].
func (f *feed) Close() {
	f.pull.close()
	ctx, cancel := context.WithTimeout(context.Background(), readTry)
	defer cancel()
	_ = f.store.log.DeleteConsumer(ctx, f.consumer) // else the server removes it after a minute
}
