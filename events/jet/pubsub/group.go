package pubsub

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"millrace/events"
)

// Bounds of a group.
const (
	maxGroup      = 500     // messages; the server takes 1000
	maxGroupBytes = 4 << 20 // of bodies
)

// Headers of an atomic batch (ADR-50).
const (
	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"
)

// group writes the messages of all callers in atomic batches, one batch at a time: messages that
// arrive while one batch is flushed to disk share the next flush. That pays only if the server
// flushes every write; otherwise single messages are faster.
type group struct {
	pub    *Publisher
	queue  chan grouped
	quit   <-chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	behind atomic.Int64 // messages that were refused in a batch and are sent singly
}

type grouped struct {
	m *nats.Msg
	ticket
}

func newGroup(pub *Publisher) *group {
	ctx, cancel := context.WithCancel(context.Background())
	g := &group{pub: pub, queue: make(chan grouped, 8*maxGroup), quit: ctx.Done(), cancel: cancel, done: make(chan struct{})}
	go g.run(ctx)
	return g
}

// close ends the group without waiting for the server. The caller then closes the publisher, which
// answers the callers whose messages were not written.
func (g *group) close() {
	g.cancel()
	<-g.done
}

// send adds a message to the next batch; the caller then calls Publisher.wait. The message belongs
// to the group from then on.
func (g *group) send(m *nats.Msg) (*Slot, error) {
	t, err := g.pub.reserve(m.Subject)
	if err != nil {
		return nil, err
	}
	select {
	case g.queue <- grouped{m, t}:
		return t.slot, nil
	case <-g.quit:
		g.pub.release(t.slot)
		return nil, errClosed
	}
}

func (g *group) run(ctx context.Context) {
	defer close(g.done)
	var left []grouped // those that could not be in one batch with an earlier one
	for {
		if len(left) == 0 {
			select {
			case one := <-g.queue:
				left = append(left, one)
			case <-ctx.Done():
				return
			}
			// The first message wakes the group, which on one processor would run before the next
			// writer, and write each message alone. Writers that are ready come first.
			runtime.Gosched()
		}
		if ctx.Err() != nil {
			return
		}
		var batch []grouped
		batch, left = g.collect(left)
		g.write(ctx, batch)
	}
}

// collect takes the waiting messages, but no subject twice: the server would refuse the second
// check of a chain within a batch.
func (g *group) collect(first []grouped) (batch, left []grouped) {
	subjects := make(map[string]struct{}, maxGroup)
	size := 0
	add := func(one grouped) {
		if _, twice := subjects[one.m.Subject]; twice {
			left = append(left, one)
			return
		}
		subjects[one.m.Subject] = struct{}{}
		size += len(one.m.Data)
		batch = append(batch, one)
	}
	for _, one := range first {
		add(one)
	}
	for len(batch)+len(left) < maxGroup && size < maxGroupBytes {
		select {
		case one := <-g.queue:
			add(one)
		default:
			return batch, left
		}
	}
	return batch, left
}

// write commits a batch. If the server refuses it, because of one member or as a whole, each member
// is sent singly and gets its own answer. If the outcome is unknown, none is sent again: its own
// first copy would make the server refuse it.
func (g *group) write(ctx context.Context, batch []grouped) {
	if len(batch) > 1 {
		messages := make([]*nats.Msg, len(batch))
		for i, one := range batch {
			messages[i] = one.m
		}
		last, err := g.pub.commit(ctx, messages)
		if err == nil || errors.Is(err, events.ErrUnknown) {
			first := last - uint64(len(batch)) + 1
			g.pub.mu.Lock()
			for i, one := range batch {
				a := ack{err: err}
				if err == nil {
					a.seq = first + uint64(i)
				}
				g.pub.answer(one.ticket, a)
			}
			g.pub.mu.Unlock()
			return
		}
		g.behind.Add(int64(len(batch)))
	}
	for _, one := range batch {
		one.m.Header.Del(batchIDHeader)
		one.m.Header.Del(batchSeqHeader)
		one.m.Header.Del(batchCommitHeader)
		if err := g.pub.sendTo(one.ticket, one.m); err != nil {
			g.pub.mu.Lock()
			g.pub.answer(one.ticket, ack{err: err})
			g.pub.mu.Unlock()
		}
	}
}

// commit publishes messages in one atomic batch, and returns the sequence of the last one. The
// others lie directly before it.
func (p *Publisher) commit(ctx context.Context, batch []*nats.Msg) (uint64, error) {
	id := nuid.Next()
	for i, m := range batch {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header[batchIDHeader] = []string{id}
		m.Header[batchSeqHeader] = []string{strconv.Itoa(i + 1)}
		m.Reply = ""
	}
	end := batch[len(batch)-1]
	for _, m := range batch[:len(batch)-1] {
		if err := p.nc.PublishMsg(m); err != nil {
			return 0, err // the server drops a batch that is not committed
		}
	}
	end.Header[batchCommitHeader] = []string{"1"}
	return p.Publish(ctx, end)
}
