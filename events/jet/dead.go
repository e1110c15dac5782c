package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
)

// maxDeliver is how often the server delivers an offer before it drops it: a last backstop, far
// above what happens. An offer is delivered again when its lease expires, and [task.MaxLosses] of
// those end the task; and when a worker returned it because it had asked for more than it could
// take. Extending a lease does not count.
const maxDeliver = 50

// OnDead calls dead with the sequence of each offer that the server drops, until stop is called.
// The server publishes each drop once, at the next request for offers, and keeps no record; so some
// may be missed.
func (s *Store) OnDead(dead func(seq uint64)) (stop func(), err error) {
	return s.Listen(names.DeadAdvisory, "listen for dead offers", func(m *nats.Msg) {
		var advisory struct {
			Seq uint64 `json:"stream_seq"`
		}
		if json.Unmarshal(m.Data, &advisory) == nil && advisory.Seq > 0 {
			dead(advisory.Seq)
		}
	})
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
