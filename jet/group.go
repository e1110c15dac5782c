package jet

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
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

// group writes the messages of all callers in atomic batches, one batch at a
// time: what comes while one is being flushed to disk shares the next flush.
// That is worth its price only where the server flushes every write; elsewhere
// single messages are faster.
type group struct {
	pub    *publisher
	queue  chan grouped
	quit   chan struct{}
	done   chan struct{}
	behind atomic.Int64 // messages that were refused in a batch and are sent singly
}

type grouped struct {
	m          *nats.Msg
	slot       *slot
	generation uint64
}

func newGroup(pub *publisher) *group {
	g := &group{pub: pub, queue: make(chan grouped, 8*maxGroup), quit: make(chan struct{}), done: make(chan struct{})}
	go g.run()
	return g
}

func (g *group) close() {
	close(g.quit)
	<-g.done
}

// send hands a message to the next batch; publisher.wait must follow. The
// message is the group's from then on.
func (g *group) send(m *nats.Msg) (*slot, error) {
	s, generation := g.pub.reserve()
	select {
	case g.queue <- grouped{m, s, generation}:
		return s, nil
	case <-g.quit:
		g.pub.release(s)
		return nil, nats.ErrConnectionClosed
	}
}

func (g *group) run() {
	defer close(g.done)
	var left []grouped // could not be in the same batch as one before
	for {
		if len(left) == 0 {
			select {
			case one := <-g.queue:
				left = append(left, one)
			case <-g.quit:
				return
			}
		}
		var batch []grouped
		batch, left = g.collect(left)
		g.write(batch)
	}
}

// collect takes what is there, but no subject twice: the server would refuse
// the second check of a chain within a batch.
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

// write commits a batch. If the server refuses it, because of one member or as
// a whole, each member goes by itself and gets its own answer.
func (g *group) write(batch []grouped) {
	if len(batch) > 1 {
		if last, ok := g.commit(batch); ok {
			first := last - uint64(len(batch)) + 1
			g.pub.mu.Lock()
			for i, one := range batch {
				g.pub.answer(one.slot, one.generation, ack{seq: first + uint64(i)})
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
		if err := g.pub.sendTo(one.slot, one.generation, one.m); err != nil {
			g.pub.mu.Lock()
			g.pub.answer(one.slot, one.generation, ack{err: err})
			g.pub.mu.Unlock()
		}
	}
}

func (g *group) commit(batch []grouped) (last uint64, ok bool) {
	id := nuid.Next()
	for i, one := range batch {
		if one.m.Header == nil {
			one.m.Header = nats.Header{}
		}
		one.m.Header[batchIDHeader] = []string{id}
		one.m.Header[batchSeqHeader] = []string{strconv.Itoa(i + 1)}
		one.m.Reply = ""
	}
	end := batch[len(batch)-1].m
	for _, one := range batch[:len(batch)-1] {
		if err := g.pub.nc.PublishMsg(one.m); err != nil {
			return 0, false // the server drops a batch that is not committed
		}
	}
	end.Header[batchCommitHeader] = []string{"1"}
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	last, err := g.pub.publish(ctx, end)
	return last, err == nil
}
