package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/task/node"
	"millrace/task/value"
)

// beatWindow is how many heartbeats may be in flight to a watcher.
const beatWindow = 4096

// WatchBeats calls gone with each node whose heartbeat expires or is removed, as it happens, until
// ctx ends; it then returns nil. Last is when the server stored the heartbeat that has expired, zero
// if it was removed. WatchBeats calls lost at first, and each time some may have been missed: the
// caller must then look at all nodes.
//
// The server says nothing of heartbeats that expire. So a deadline is kept for each node, by the
// log's time, from the last heartbeat that the server has stored, be it from before the watch. Each
// watcher also marks what has expired; one of them succeeds.
//
// It reads through a pull consumer of its own. The client's Watch would stall for a quarter of a
// minute after a restart of the server, and skip what happened meanwhile.
func (s *Beats) WatchBeats(ctx context.Context, gone func(id node.ID, last time.Time), lost func()) error {
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
func (s *Beats) watchBeats(ctx context.Context, gone func(id node.ID, last time.Time), lost func()) (again bool, err error) {
	// Subscribe before the consumer exists, or a cut between the two would be missed.
	status := s.NC.StatusChanged(nats.CONNECTED)
	defer s.NC.RemoveStatusListener(status)
	opening, cancel := s.Within(ctx, request.ReadTimeout)
	defer cancel()
	c, err := s.JS.CreateConsumer(opening, beatStream, jetstream.ConsumerConfig{
		Description:   "Millrace: a scheduler watches heartbeats run out",
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: beatPrefix + ">", AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute, MaxWaiting: 64,
	})
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(opening.Err(), context.Canceled):
		return true, nil // the answer went with the connection, which is back
	case err != nil:
		return false, fmt.Errorf("watch heartbeats: %w", err)
	}
	name := c.CachedInfo().Name
	before := c.CachedInfo().NumPending // how many messages are from before the watch
	over := make(chan struct{}, 1)
	ends := deadlines{of: map[node.ID]stored{}, sooner: make(chan struct{}, 1)}
	take := func(m *nats.Msg) bool { // it never accepts, so that the number wanted stays the same
		id, ok := strings.CutPrefix(m.Subject, beatPrefix)
		came, err := m.Metadata()
		if !ok || err != nil {
			return false
		}
		is := readBeat(m.Header, m.Data, came.Timestamp)
		is.seq = came.Sequence.Stream
		old := came.Sequence.Consumer <= before // the caller looks at all nodes, so it needs no word of those that were gone
		switch {
		case is.beat.Session == "": // a mark is news if this watcher has not noticed the end itself
			if known := ends.drop(node.ID(id)); !old && (known || is.gone) {
				gone(node.ID(id), time.Time{})
			}
		case !old || !is.ended(s.Now(), s.leap()):
			ends.set(node.ID(id), is)
		}
		return false
	}
	revive := func(context.Context) {
		select {
		case over <- struct{}{}:
		default:
		}
	}
	p, err := pubsub.NewPuller(s.NC, beatStream, name, pubsub.ReaderPace, beatWindow/4, take, revive)
	if err != nil {
		return false, err
	}
	defer func() {
		p.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), request.ReadTry)
		defer cancel()
		_ = s.JS.DeleteConsumer(ctx, beatStream, name) // else the server removes it after a minute
	}()
	p.Want(beatWindow)
	lost()
	due := time.NewTimer(0)
	defer due.Stop()
	var marking sync.WaitGroup
	marks, stop := context.WithCancel(ctx)
	defer func() { stop(); marking.Wait() }()
	pass := func() {
		ended, wait := ends.pass(s.Now(), s.leap())
		due.Reset(wait)
		for id, is := range ended {
			gone(id, is.at)
		}
		if len(ended) > 0 {
			marking.Go(func() {
				for id, is := range ended {
					if s.mark(marks, id, is) != nil && marks.Err() != nil {
						return
					}
				}
			})
		}
	}
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-ends.sooner:
			pass()
		case <-due.C:
			pass()
		case <-over:
			return true, nil
		case <-status:
			return true, nil // messages sent meanwhile are not repeated
		}
	}
}

// ErrNoPong: no process answers for the node.
var ErrNoPong = errors.New("no process answers for this node")

// OnPing answers requests to a node about itself, until stop is called.
func (s *Beats) OnPing(id node.ID, answer func() node.Pong) (stop func(), err error) {
	return s.Listen(names.PingPrefix+string(id), "listen for pings", func(m *nats.Msg) {
		body, err := json.Marshal(answer())
		if err == nil && rights.Answerable(m.Reply) {
			_ = m.Respond(body) // else the asker asks again
		}
	})
}

// Ping asks the process of a node about itself. The error wraps [ErrNoPong] if none listens, or
// none answers before ctx ends.
func (s *Beats) Ping(ctx context.Context, id node.ID) (node.Pong, error) {
	var p node.Pong
	m, err := s.Request(ctx, names.PingPrefix+string(id), nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return p, ErrNoPong
	case errors.Is(err, context.DeadlineExceeded):
		return p, fmt.Errorf("%w in time", ErrNoPong)
	case err != nil:
		return p, fmt.Errorf("ping node %s: %w", id, err)
	}
	if err := json.Unmarshal(m.Data, &p); err != nil {
		return p, fmt.Errorf("ping node %s: the answer cannot be read: %w", id, value.Plainly(err))
	}
	return p, nil
}
