package millracetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/worker"
)

// errCut is what a lost node hears of its log.
var errCut = fmt.Errorf("the test has lost this node: %w", events.ErrGone)

// port is the log as one worker reaches it, until its node is lost: then nothing that the worker writes arrives, and
// the contexts of its tasks end, as when its machine had failed.
type port struct {
	*house
	id   node.ID
	gone chan struct{} // closed when it is lost
	once sync.Once
}

var (
	_ worker.Offers  = (*port)(nil)
	_ worker.Nodes   = (*port)(nil)
	_ worker.Outputs = (*port)(nil)
)

// Ports are those of the worker with a name, from its start to its end, and the pace of its heartbeats.
func (h *house) Ports(id node.ID) (on worker.Ports, every, ttl time.Duration) {
	p := &port{house: h, id: id, gone: make(chan struct{})}
	h.aside.Lock()
	h.workers[id] = p
	h.aside.Unlock()
	return worker.Ports{Log: p, Offers: p, Nodes: p, Outputs: p}, beat, ackWait
}

func (p *port) lose() { p.once.Do(func() { close(p.gone) }) }

// cut is an error if the node is lost.
func (p *port) cut() error {
	select {
	case <-p.gone:
		return errCut
	default:
		return nil
	}
}

func (p *port) Gone() <-chan struct{} { return p.gone }

// crash says at which write of a worker about a task its node is lost. Writes are counted from 1.
type crash struct {
	at    int    // 0 for never
	after bool   // the write has its effect
	what  string // the write
	seen  int
}

// write does what a worker writes about a task, unless the node is lost, or is now.
func (p *port) write(what string, do func() error) error {
	if err := p.cut(); err != nil {
		return err
	}
	p.aside.Lock()
	p.crash.seen++
	c := p.crash
	now := c.at == c.seen
	if now {
		p.crash.what = what
	}
	p.aside.Unlock()
	if now && !c.after {
		p.lose()
		return errCut
	}
	err := do()
	if now {
		p.lose()
		err = errCut
	}
	return err
}

func (p *port) Append(ctx context.Context, f *events.Fact, last uint64) (seq uint64, err error) {
	if f.Task == "" {
		if err := p.cut(); err != nil {
			return 0, err
		}
		return p.Memory.Append(ctx, f, last)
	}
	err = p.write(string(f.Type), func() (err error) { seq, err = p.Memory.Append(ctx, f, last); return err })
	return seq, err
}

func (p *port) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (seq uint64, err error) {
	err = p.write(string(facts[0].Type), func() (err error) { seq, err = p.Memory.AppendAll(ctx, facts, last); return err })
	return seq, err
}

func (p *port) Place(ctx context.Context, f *events.Fact) (seq uint64, err error) {
	err = p.write(string(f.Type), func() (err error) { seq, err = p.Memory.Place(ctx, f); return err })
	return seq, err
}

func (p *port) Arm(ctx context.Context, f *events.Fact) error {
	return p.write("timer", func() error { return p.Memory.Arm(ctx, f) })
}

func (p *port) SaveCheckpoint(ctx context.Context, c output.Checkpoint) error {
	return p.write("checkpoint", func() error { return p.house.SaveCheckpoint(ctx, c) })
}

func (p *port) SaveStep(ctx context.Context, id task.ID, digest string, result []byte) error {
	return p.write("step result", func() error { return p.house.SaveStep(ctx, id, digest, result) })
}

func (p *port) Print(ctx context.Context, l output.Lines) error {
	return errors.Join(p.cut(), p.house.Print(ctx, l))
}

func (p *port) Beat(ctx context.Context, id node.ID, b node.Heartbeat, ttl time.Duration) error {
	if err := p.cut(); err != nil {
		return err
	}
	return p.Memory.Beat(ctx, id, b, ttl)
}

func (p *port) Forget(ctx context.Context, id node.ID) error {
	if err := p.cut(); err != nil {
		return err
	}
	return p.Memory.Forget(ctx, id)
}

func (p *port) AckWait() time.Duration { return ackWait }

// Resume is for attempts that outlive their process, of which tests have none.
func (p *port) Resume(string) events.Lease { return nil }

func (p *port) OnHint(id node.ID, heard func(task.ID)) (stop func(), err error) {
	p.aside.Lock()
	defer p.aside.Unlock()
	p.hints[id] = heard
	return func() {
		p.aside.Lock()
		defer p.aside.Unlock()
		delete(p.hints, id)
	}, nil
}

func (p *port) OnPing(node.ID, func() node.Pong) (stop func(), err error) { return func() {}, nil }

func (p *port) Offers(ctx context.Context, queues []string) (events.Offers, error) {
	o, err := p.Memory.Offers(ctx, queues)
	return &offers{o, p}, err
}

// offers are those that a worker gets until its node is lost.
type offers struct {
	events.Offers
	p *port
}

func (o *offers) Next(ctx context.Context) (*events.Offer, error) {
	offer, err := o.Offers.Next(ctx)
	if err == nil && o.p.cut() != nil {
		_ = offer.Return()
		return nil, errCut
	}
	if err == nil {
		offer.Lease = lease{offer.Lease, o.p}
	}
	return offer, err
}

// lease is one that a lost node cannot renew or end.
type lease struct {
	events.Lease
	p *port
}

func (l lease) Ack() error {
	if err := l.p.cut(); err != nil {
		return err
	}
	return l.Lease.Ack()
}

func (l lease) Extend(ctx context.Context) error {
	if err := l.p.cut(); err != nil {
		return err
	}
	return l.Lease.Extend(ctx)
}

// lose loses a node.
func (h *house) lose(name string) {
	h.aside.Lock()
	defer h.aside.Unlock()
	h.workers[node.ID(name)].lose()
}

// lost tells whether the node of a worker was lost.
func (h *house) lost(name string) bool {
	h.aside.Lock()
	defer h.aside.Unlock()
	p := h.workers[node.ID(name)]
	return p != nil && p.cut() != nil
}
