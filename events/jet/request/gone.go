package request

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"millrace/events"
)

// The client library closes a connection for good after errors of the server that it does not know.
// It then answers every call with an error, but what waits for a message waits on. So whoever waits
// on a connection also waits for its end.

// Gone is the error that the connection is closed for good, and why. It wraps [events.ErrGone].
func Gone(nc *nats.Conn) error {
	if why := nc.LastError(); why != nil {
		return fmt.Errorf("%w: %w", events.ErrGone, why)
	}
	return fmt.Errorf("%w: %w", events.ErrGone, nats.ErrConnectionClosed)
}

// Gone is closed when the connection is closed for good, by its owner or after an error; WhyGone
// then says why.
func (l *Link) Gone() <-chan struct{} { return l.Pub.Gone() }

// WhyGone is the error of [Gone]; nil if the connection is not closed for good.
func (l *Link) WhyGone() error {
	if !l.NC.IsClosed() {
		return nil
	}
	return Gone(l.NC)
}
