package jet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/names"
)

// lease is the ack wait of one delivery.
type lease struct {
	store      *Store
	reply      string
	deliveries int
	conn       uint64 // the connection on which it came
}

var (
	ackBody      = []byte("+ACK")
	returnBody   = []byte("-NAK")
	progressBody = []byte("+WPI")
)

func (l *lease) Ack() error { return l.store.pub.Post(l.reply, ackBody) }

// Return gives the offer back for another worker. The first times it is delivered again at once. An
// offer that is returned again and again rests longer each time: else it would go round thousands
// of times a second until the server drops it.
func (l *lease) Return() error {
	if l.deliveries <= freeReturns {
		return l.store.NC.Publish(l.reply, returnBody)
	}
	return l.Rest(min(time.Millisecond<<min(l.deliveries-freeReturns, 10), time.Second))
}

func (l *lease) Rest(d time.Duration) error {
	return l.store.NC.Publish(l.reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, d))
}

// Severed implements [events.Doubtful].
func (l *lease) Severed() bool {
	return !l.store.NC.IsConnected() || l.store.NC.Stats().Reconnects != l.conn
}

// meteredLease is the lease of an offer from a queue with a limit and several lanes. The server
// counts a returned offer as delivered until the next request for it; a worker that counts would
// find the queue full, and ask no more. So Return has a new offer placed instead.
type meteredLease struct {
	*lease
	offer *events.Record
}

func (l *meteredLease) Return() error {
	ctx, cancel := context.WithTimeout(context.Background(), extendTimeout)
	defer cancel()
	rec := &events.Recorder{Log: l.store, Actor: events.PartWorker, Now: l.store.Now, NewID: events.NewID}
	if err := rec.Renew(ctx, l.offer); err != nil {
		return l.lease.Return()
	}
	return l.Ack()
}

// freeReturns is how often an offer is returned without a rest.
const freeReturns = 3

// Extend waits for the server's confirmation, which the client's own InProgress does not.
func (l *lease) Extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, extendTimeout)
	defer cancel()
	err := l.store.Patiently(ctx, func(ctx context.Context) error {
		_, err := l.store.NC.RequestWithContext(ctx, l.reply, progressBody)
		return err
	})
	if err != nil {
		return fmt.Errorf("extend the lease: %w", err)
	}
	return nil
}

func (l *lease) Prolong() error { return l.store.NC.Publish(l.reply, progressBody) }

const extendTimeout = 10 * time.Second

// Resume returns the lease of an offer that an earlier process pulled, by its token.
func (s *Store) Resume(token string) events.Lease { return &lease{store: s, reply: token} }

// Token implements [events.Lasting].
func (l *lease) Token() string { return l.reply }

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
