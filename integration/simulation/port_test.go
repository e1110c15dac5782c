package simulation

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

// port is the log as one actor sees it: each call waits for the simulator. What is on its way arrives,
// whether the actor still waits or not.
type port struct {
	*events.Memory
	actor *actor
}

var _ events.Log = (*port)(nil)

func (p *port) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	ctx = context.WithoutCancel(ctx)
	c := &call{kind: write, op: "append", task: f.Task, fact: f, last: last}
	keep := p.actor.keep[f.Node]
	c.do = func() (err error) {
		if c.seq, err = p.Memory.Append(ctx, f, last); err == nil {
			p.actor.h.judgeRetired(f, keep, c.seq)
		}
		return err
	}
	return c.sequence(p.actor.call(c))
}

func (p *port) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	ctx = context.WithoutCancel(ctx)
	c := &call{kind: write, op: "append to several chains", fact: facts[0], last: last[0]}
	c.do = func() (err error) {
		c.seq, err = p.Memory.AppendAll(ctx, facts, last)
		return err
	}
	return c.sequence(p.actor.call(c))
}

func (p *port) Place(ctx context.Context, f *events.Fact) (uint64, error) {
	ctx = context.WithoutCancel(ctx)
	c := &call{kind: write, op: "place", task: f.Task, fact: f}
	c.do = func() (err error) {
		c.seq, err = p.Memory.Place(ctx, f)
		return err
	}
	return c.sequence(p.actor.call(c))
}

func (p *port) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(i int, seq uint64, err error)) {
	ctx = context.WithoutCancel(ctx)
	for i, f := range facts {
		if !first {
			seq, err := p.Place(ctx, f)
			done(i, seq, err)
			continue
		}
		c := &call{kind: write, op: "place first", task: f.Task, fact: f}
		c.do = func() (err error) {
			p.Memory.PlaceAll(ctx, []*events.Fact{f}, true, func(_ int, seq uint64, failed error) { c.seq, err = seq, failed })
			return err
		}
		seq, err := c.sequence(p.actor.call(c))
		done(i, seq, err)
	}
}

// sequence is the result of a write: none if the caller does not know it.
func (c *call) sequence(err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	return c.seq, nil
}

func (p *port) Arm(ctx context.Context, f *events.Fact) error {
	return p.actor.call(&call{kind: write, op: "arm", task: f.Task, fact: f, do: func() error {
		records, err := p.Memory.Task(ctx, f.Task)
		if t := events.FoldTask(f.Task, records); err == nil && !t.Owed().Timer {
			p.actor.h.late[f.Task] = true
		}
		return errors.Join(err, p.Memory.Arm(ctx, f))
	}})
}

func (p *port) Disarm(ctx context.Context, id task.ID, before uint64) error {
	return p.actor.call(&call{kind: write, op: "disarm", task: id, do: func() error { return p.Memory.Disarm(ctx, id, before) }})
}

func (p *port) Armed(ctx context.Context, ids []task.ID) (armed map[task.ID]task.Due, err error) {
	err = p.actor.call(&call{kind: read, op: "look at timers", do: func() (err error) {
		armed, err = p.Memory.Armed(ctx, ids)
		return err
	}})
	return armed, err
}

func (p *port) Timers(ctx context.Context) (n int, err error) {
	err = p.actor.call(&call{kind: read, op: "count timers", do: func() (err error) {
		n, err = p.Memory.Timers(ctx)
		return err
	}})
	return n, err
}

func (p *port) Task(ctx context.Context, id task.ID) (records []events.Record, err error) {
	err = p.actor.call(&call{kind: read, op: "read", task: id, do: func() (err error) {
		records, err = p.Memory.Task(ctx, id)
		return err
	}})
	return records, err
}

func (p *port) Beginning(ctx context.Context, id task.ID, to uint64) (records []events.Record, err error) {
	err = p.actor.call(&call{kind: read, op: "read the beginning", task: id, do: func() (err error) {
		records, err = p.Memory.Beginning(ctx, id, to)
		return err
	}})
	return records, err
}

func (p *port) Node(ctx context.Context, id node.ID, from uint64) (records []events.Record, err error) {
	err = p.actor.call(&call{kind: read, op: "read node " + string(id), do: func() (err error) {
		records, err = p.Memory.Node(ctx, id, from)
		return err
	}})
	return records, err
}

func (p *port) Pulse(ctx context.Context, id node.ID) (pulse node.Pulse, err error) {
	err = p.actor.call(&call{kind: read, op: "read the heartbeat of " + string(id), do: func() (err error) {
		pulse, err = p.Memory.Pulse(ctx, id)
		return err
	}})
	return pulse, err
}

// beat stores a heartbeat, unless a later one of the same process is stored: heartbeats over one
// connection arrive in order, and package jet makes the server refuse what comes over an earlier
// connection.
func (p *port) beat(id node.ID, h node.Heartbeat, last *int, number int) error {
	return p.actor.call(&call{kind: write, op: "beat", do: func() error {
		if number < *last {
			return nil
		}
		err := p.Memory.Beat(context.Background(), id, h, nodeTTL)
		if err == nil {
			*last = number
		}
		return err
	}})
}

// pull takes an offer if there is one. If the answer is lost, no worker may get the offer before
// its lease expires.
func (p *port) pull(offers *events.MemoryOffers) *events.Offer {
	var offer *events.Offer
	c := &call{kind: write, op: "pull"}
	c.do = func() error {
		if offer = offers.Try(); offer != nil {
			c.task, c.seq = offer.Fact.Task, offer.Seq
		}
		return nil
	}
	if err := p.actor.call(c); err != nil || offer == nil {
		return nil
	}
	offer.Lease = &lease{Lease: offer.Lease, port: p, offer: offer, losses: p.losses()}
	return offer
}

// lease is the lease of an offer that an actor has pulled.
type lease struct {
	events.Lease
	port   *port
	offer  *events.Offer
	losses int // of the log, before it was pulled
}

var _ events.Doubtful = (*lease)(nil)

// Severed implements [events.Doubtful].
func (l *lease) Severed() bool { return l.port.losses() > l.losses }

// losses is how often the log has lost its last messages.
func (p *port) losses() int {
	if p.actor.h == nil { // in a small world
		return 0
	}
	return p.actor.h.lost.times
}

func (l *lease) Ack() error {
	return l.port.actor.call(&call{kind: tell, op: "ack", task: l.offer.Fact.Task, last: l.offer.Seq, do: l.Lease.Ack})
}

func (l *lease) Extend(ctx context.Context) error {
	return l.port.actor.call(&call{kind: write, op: "extend", task: l.offer.Fact.Task, last: l.offer.Seq,
		do: func() error { return l.Lease.Extend(ctx) }})
}

func (l *lease) Prolong() error {
	return l.port.actor.call(&call{kind: tell, op: "prolong", task: l.offer.Fact.Task, last: l.offer.Seq, do: l.Lease.Prolong})
}

func (l *lease) Return() error {
	return l.port.actor.call(&call{kind: tell, op: "return", task: l.offer.Fact.Task, last: l.offer.Seq, do: l.Lease.Return})
}

func (l *lease) Rest(d time.Duration) error {
	return l.port.actor.call(&call{kind: tell, op: "rest", task: l.offer.Fact.Task, last: l.offer.Seq,
		do: func() error { return l.Lease.Rest(d) }})
}
