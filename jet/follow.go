package jet

import (
	"context"
	"errors"
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

// errGap means that a message of a feed did not arrive.
var errGap = errors.New("a message was lost on the way")

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
	lost   error       // guarded by mu; the consumer must be made again
	seen   uint64      // consumer sequence of the last message read

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
	f.buffer, f.lost, f.seen = nil, nil, 0
	f.mu.Unlock()
	pull, err := newPuller(f.store.nc, LogStream, f.consumer, feedAtOnce, f.take, f.fail)
	if err != nil {
		return err
	}
	f.pull = pull
	pull.want(feedWindow)
	return nil
}

func (f *feed) take(m *nats.Msg) {
	f.mu.Lock()
	f.buffer = append(f.buffer, m)
	f.mu.Unlock()
	f.notify()
}

func (f *feed) fail() {
	f.mu.Lock()
	f.lost = errors.New("the consumer is gone")
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
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.arrived:
		}
		f.mu.Lock()
		batch, lost := f.buffer, f.lost
		f.buffer, f.spare = f.spare[:0], batch
		f.mu.Unlock()
		if err := f.read(batch); err != nil || lost != nil {
			if err := f.reopen(ctx); err != nil {
				return nil, err
			}
		} else {
			f.pull.want(len(batch))
		}
		if len(f.records) > 0 {
			return f.records, nil
		}
	}
}

// read turns messages into records, until one is missing.
func (f *feed) read(batch []*nats.Msg) error {
	clear(f.records)
	f.records = f.records[:0]
	for i, m := range batch {
		r, d, ok := recordFrom(m)
		batch[i] = nil
		if !ok {
			continue
		}
		if d.consumerSeq != f.seen+1 {
			return errGap
		}
		f.seen = d.consumerSeq
		if r.Seq < f.next {
			continue
		}
		f.next = r.Seq + 1
		f.records = append(f.records, r)
	}
	return nil
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
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	_ = f.store.log.DeleteConsumer(ctx, f.consumer) // else the server removes it after a minute
}
