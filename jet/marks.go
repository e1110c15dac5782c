package jet

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
)

// A NATS server that was killed looks for the last message that the log has sourced, to go on sourcing behind it: from
// the end backwards, block by block, and it serves nobody meanwhile. Of a log with more than a million subjects it
// keeps no other note of that place. So that it does not look at all blocks of a log in which no timer fires, servers of
// Millrace have the log source a message without a meaning now and then, a mark. And so that it does not look at
// single births either, at a millisecond each, what timers bring lies at subjects of its own: see [firedToken].
const (
	// markEvery is after how many messages that were read there is a mark at the end of the log.
	markEvery = 4096
	// markPause lies between two marks, however fast the log grows.
	markPause = 100 * time.Millisecond
)

// Marks says when the log needs a mark. It is told of what is read of the log, as an observer of the projector.
type Marks struct {
	level atomic.Uint64 // how far the log was read
	next  atomic.Uint64 // the sequence from which a mark is needed
	due   chan struct{} // holds one if it is time to look at these
}

// NewMarks returns Marks that know of none in the log yet.
func NewMarks() *Marks {
	m := &Marks{due: make(chan struct{}, 1)}
	m.next.Store(markEvery)
	return m
}

// Observe is told what was read of the log.
func (m *Marks) Observe(steps []events.Step) {
	if len(steps) == 0 {
		return
	}
	if m.level.Store(steps[len(steps)-1].Record.Seq); !m.needed() {
		return
	}
	select {
	case m.due <- struct{}{}:
	default:
	}
}

func (m *Marks) needed() bool { return m.level.Load() >= m.next.Load() }

// KeepMarks marks the log whenever m says so, until ctx ends. Of several that do it for one log, first says of one that
// it is this one's turn. What went wrong failed is told; it is tried again.
func (s *Store) KeepMarks(ctx context.Context, m *Marks, first func() bool, failed func(error)) {
	pause := time.NewTicker(markPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.due:
		}
		if m.needed() && first() {
			if err := s.putMark(ctx, m); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// putMark has the log source a mark.
func (s *Store) putMark(ctx context.Context, m *Marks) error {
	// What is read lags behind the end, and grows as fast as that.
	next := m.level.Load() + markEvery
	if _, err := s.pub.publish(ctx, &nats.Msg{Subject: dueProbe, Header: nats.Header{events.TypeHeader: {"log.probe"}}}); err != nil {
		return fmt.Errorf("mark the end of the log: %w", err)
	}
	m.next.Store(next)
	return nil
}
