package jet

import (
	"context"
	"fmt"
	"time"

	"millrace/events"
	"millrace/jet/publish"
	"millrace/task"
)

// lease is the ack wait of one delivery.
type lease struct {
	store      *Store
	reply      string
	deliveries int
}

var (
	ackBody      = []byte("+ACK")
	returnBody   = []byte("-NAK")
	progressBody = []byte("+WPI")
)

func (l *lease) Ack() error { return l.store.pub.Post(l.reply, ackBody) }

// Return gives the offer back for somebody else. At first that is at once; an
// offer that is given back again and again rests longer each time, for else it
// would go round thousands of times a second until the server gives it up.
func (l *lease) Return() error {
	if l.deliveries <= freeReturns {
		return l.store.NC.Publish(l.reply, returnBody)
	}
	return l.Rest(min(time.Millisecond<<min(l.deliveries-freeReturns, 10), time.Second))
}

func (l *lease) Rest(d time.Duration) error {
	return l.store.NC.Publish(l.reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, d))
}

// meteredLease is that of an offer of a queue with a limit and several lanes. To the server an
// offer that was returned is handed out until somebody asks for it again; whoever counts would find
// the queue full, and ask no more. So another offer takes its place.
type meteredLease struct {
	*lease
	fact *events.Fact
	// lies is the subject of the offer.
	lies string
}

func (l *meteredLease) Return() error {
	offer, _ := l.fact.Event.(task.Event)
	again, ok := task.Renewed(offer)
	if !ok {
		return l.lease.Return()
	}
	ctx, cancel := context.WithTimeout(context.Background(), extendTimeout)
	defer cancel()
	now := l.store.Now()
	f := &events.Fact{ID: events.NewID(now), At: now, Type: events.TypeOf(again), Task: l.fact.Task, Actor: events.PartWorker, Event: again}
	m, err := publish.NewMessage(l.lies, f)
	if err != nil {
		return l.lease.Return()
	}
	defer m.Free()
	if _, err := l.store.facts.Publish(ctx, &m.Msg); err != nil { // it may be there all the same, and the claim lets one pass
		return l.lease.Return()
	}
	return l.Ack()
}

// freeReturns is how often an offer is given back without a rest.
const freeReturns = 3

// Extend waits for the server to say that it has the word, which the client's
// own InProgress does not.
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

const extendTimeout = 5 * time.Second

// Resume returns the lease of an offer that an earlier process has pulled, by its token.
func (s *Store) Resume(token string) events.Lease { return &lease{store: s, reply: token} }

// Token implements [events.Lasting].
func (l *lease) Token() string { return l.reply }

// Token implements [events.Lasting].
func (l *ownLease) Token() string {
	if now, ok := l.get().(events.Lasting); ok {
		return now.Token()
	}
	return ""
}
