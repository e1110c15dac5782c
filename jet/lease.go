package jet

import (
	"context"
	"fmt"
	"time"
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

func (l *lease) Ack() error { return l.store.nc.Publish(l.reply, ackBody) }

// Return gives the offer back for somebody else. At first that is at once; an
// offer that is given back again and again rests longer each time, for else it
// would go round thousands of times a second until the server gives it up.
func (l *lease) Return() error {
	if l.deliveries <= freeReturns {
		return l.store.nc.Publish(l.reply, returnBody)
	}
	return l.Rest(min(time.Millisecond<<min(l.deliveries-freeReturns, 10), time.Second))
}

func (l *lease) Rest(d time.Duration) error {
	return l.store.nc.Publish(l.reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, d))
}

// freeReturns is how often an offer is given back without a rest.
const freeReturns = 3

// Extend waits for the server to say that it has the word, which the client's
// own InProgress does not.
func (l *lease) Extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, extendTimeout)
	defer cancel()
	err := l.store.patiently(ctx, func(ctx context.Context) error {
		_, err := l.store.nc.RequestWithContext(ctx, l.reply, progressBody)
		return err
	})
	if err != nil {
		return fmt.Errorf("extend the lease: %w", err)
	}
	return nil
}

const extendTimeout = 5 * time.Second
