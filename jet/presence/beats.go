package presence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/jet/link"
	"millrace/jet/pull"
	"millrace/node"
)

// beatWindow is how many heartbeats may be in flight to a watcher.
const beatWindow = 4096

// WatchBeats calls gone with each node whose heartbeat expires or is removed, as it happens, until
// ctx ends; it then returns nil. It calls lost at first, and each time some may have been missed:
// the caller must then look at all nodes.
//
// It reads through a pull consumer of its own. The client's Watch would stall for a quarter of a
// minute after a restart of the server, and skip what happened meanwhile.
func (s *Beats) WatchBeats(ctx context.Context, gone func(node.ID), lost func()) error {
	for {
		again, err := s.watchBeats(ctx, gone, lost)
		if err != nil || ctx.Err() != nil || !again {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// watchBeats watches through one consumer until the consumer is lost.
func (s *Beats) watchBeats(ctx context.Context, gone func(node.ID), lost func()) (again bool, err error) {
	// Subscribe before the consumer exists, or a cut between the two would be missed.
	status := s.NC.StatusChanged(nats.CONNECTED)
	defer s.NC.RemoveStatusListener(status)
	opening, cancel := s.Within(ctx, link.ReadTimeout)
	defer cancel()
	c, err := s.JS.CreateConsumer(opening, beatStream, jetstream.ConsumerConfig{
		Description:   "Millrace: a scheduler watches heartbeats run out",
		DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute, MaxWaiting: 64,
	})
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(opening.Err(), context.Canceled):
		return true, nil // the answer went with the connection, which is back
	case err != nil:
		return false, fmt.Errorf("watch heartbeats: %w", err)
	}
	name := c.CachedInfo().Name
	over := make(chan struct{}, 1)
	take := func(m *nats.Msg) bool { // it never accepts, so that the number wanted stays the same
		if id, ok := strings.CutPrefix(m.Subject, beatPrefix); ok {
			if _, beats := heartbeat(m.Header, m.Data); !beats {
				gone(node.ID(id))
			}
		}
		return false
	}
	revive := func(context.Context) {
		select {
		case over <- struct{}{}:
		default:
		}
	}
	p, err := pull.New(s.NC, beatStream, name, pull.ReaderPace, beatWindow/4, take, revive)
	if err != nil {
		return false, err
	}
	defer func() {
		p.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), link.ReadTry)
		defer cancel()
		_ = s.JS.DeleteConsumer(ctx, beatStream, name) // else the server removes it after a minute
	}()
	p.Want(beatWindow)
	lost()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-over:
			return true, nil
		case <-status:
			return true, nil // messages sent meanwhile are not repeated
		}
	}
}
