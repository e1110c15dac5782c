package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/job"
)

// Protocol is what a worker says to the log about one offer, step by step and
// without any goroutine: claim it, report how the attempt ended, and
// acknowledge the offer when all that must follow is durable. If the process
// dies between two steps, the offer comes to somebody else, who finds in the log
// what is left to do.
type Protocol struct {
	Recorder *events.Recorder
	Node     node.ID
	Session  string
	// Labels are those by which tasks choose nodes, as the node has them at this
	// moment, and the fact of the node since which it has them. Nil for none.
	Labels func() (labels map[string]string, at uint64)
	// Runs tells whether this node can run tasks of a spec: it has the handler, or runs commands. Those
	// that it cannot run it passes on. Default: it can run all.
	Runs func(*job.Spec) bool
	// Accounts tell whether an attempt still runs of which the offer comes again. Without them
	// nothing is taken over.
	Accounts *events.Accounts
	// Preferring finds out to whom a task is left that prefers nodes. Default: every task is taken.
	Preferring Preferring
	// Chance is in [0,1) and spreads the return of what a breaker holds back. Default: 0 each time.
	Chance func() float64

	circuits    circuits
	places      places
	definitions events.Definitions
}

// Each task takes one of each, and they are large: so they are used again.
var (
	questions = sync.Pool{New: func() any { return new(question) }}
	reported  = sync.Pool{New: func() any { return new(task.Task) }}
)

// Claim asks to run the task of an offer, and makes t that task. If it returns true the task is this
// node's under the epoch in it. Otherwise there was nothing to run: the offer is settled and
// acknowledged, or rests for as long as another attempt holds its lease. After an error the offer
// comes again when its lease has run out. When the attempt has ended on this node, [Protocol.Vacate] must be called.
func (p *Protocol) Claim(ctx context.Context, o *events.Offer, t *task.Task) (bool, error) {
	q := questions.Get().(*question)
	defer questions.Put(q)
	*q = question{}
	became, rest, err := p.claim(ctx, o, t, q)
	if became == mine {
		p.places.occupy(t)
		return true, nil
	}
	p.places.vacate(o.Fact.Task, q.taken, 0)
	switch {
	case err != nil:
		return false, err
	case became == notMine:
		return false, p.done(ctx, t, o)
	}
	return false, putBack(o, rest)
}

// fate is what becomes of an offer that came here.
type fate int

const (
	notMine fate = iota // it is acknowledged, once what follows from its task is durable
	notNow              // it comes again, here or elsewhere
	mine                // its task runs here
)

// leased is the rest of an offer that may be the lease of an attempt: its holder says how long that is.
const leased time.Duration = -1

// putBack has an offer come again: at once, here or elsewhere, or when it has rested for so long.
func putBack(o *events.Offer, rest time.Duration) error {
	switch {
	case rest == leased:
		return nil
	case rest > 0:
		return o.Rest(rest)
	}
	return o.Return()
}

// claim finds out what becomes of an offer, and how long it rests if it is to come again: 0 if at once.
func (p *Protocol) claim(ctx context.Context, o *events.Offer, t *task.Task, q *question) (_ fate, rest time.Duration, err error) {
	*t = task.Task{ID: o.Fact.Task}
	var after uint64
	var reference *task.Due
	first := true // no attempt was made before
	switch e := o.Fact.Event.(type) {
	case task.Submitted:
	case task.Queued:
		after, first = e.After, e.Attempt == 1
	case task.Due:
		after, first, reference = e.After, false, &e
	default:
		if errors.Is(o.Err, events.ErrLater) {
			return notNow, restFor(o.Deliveries), nil // a newer worker can read it
		}
		return notMine, 0, nil // nobody can run it; the projector has listed it
	}
	birth := after == 0 && o.Deliveries == 1
	if first && o.Deliveries == 1 && (birth || !prefers(o)) {
		// Whoever waits for its first attempt has failed at nothing yet, and its chain
		// ends where its turn began: the claim checks just that, and what the offer
		// carries is enough.
		t.Apply(o.Task())
	} else {
		err := p.load(ctx, o, t)
		if reference != nil && (errors.Is(err, task.ErrUnknown) || err == nil && t.Waiting() && !t.Awaits(*reference)) {
			return notMine, 0, nil // nobody of ours has set that timer, or the task has moved on
		}
		if err != nil {
			return notNow, leased, err
		}
	}
	claim := task.Claim{Node: string(p.Node), Session: p.Session, Offer: o.Seq, After: after, Reference: reference, Rate: o.Rate}
	if p.Labels != nil && (t.Route.Selected() || t.Spec.Cost() > 1) {
		claim.Labels, claim.At = p.Labels()
	}
	*q = question{task: t, claim: claim, deliveries: o.Deliveries, window: o.Window}
	said, event, err := p.move(ctx, o, q)
	if said.back || said.rest > 0 {
		return notNow, said.rest, nil
	}
	if held, ok := errors.AsType[*task.Leased](err); ok {
		return notNow, restOf(held.For), nil
	}
	switch {
	case errors.Is(err, task.ErrUnfit), errors.Is(err, task.ErrShut):
		return notNow, 0, nil
	case errors.Is(err, task.ErrStale), errors.Is(err, task.ErrEnded):
		return notMine, 0, nil
	case err != nil:
		return notNow, leased, fmt.Errorf("claim task %s: %w", t.ID, err)
	}
	e, started := event.(task.AttemptStarted)
	switch {
	case !started || !t.Live():
		// A rule has made something else of it. Or the answer to the claim was lost with the connection, and by
		// the time that was back the attempt had been given up.
		return notMine, 0, nil
	case t.Session != p.Session || t.Attempt != e.Attempt:
		return notNow, leased, nil // to whoever runs it now
	}
	p.remember(ctx, q.memory)
	return mine, 0, nil
}

// move claims the task, or has become of it what a rule says; or the rule said when it comes again.
func (p *Protocol) move(ctx context.Context, o *events.Offer, q *question) (said answer, event task.Event, err error) {
	for {
		said, err := p.ask(ctx, q)
		if err != nil || said.back || said.rest > 0 {
			return said, nil, err
		}
		command := said.command
		if command == nil {
			command = q.claim
		}
		event, err = p.Recorder.Move(ctx, q.task, command)
		switch {
		case !errors.Is(err, task.ErrLeased) && !(errors.Is(err, task.ErrStale) && p.running(q.task, o)):
			return said, event, err
		case said.command == nil:
			event, err = p.takeOver(ctx, q.task, q.claim)
			return said, event, err
		}
		// What the rule spoke of waited, as far as the offer said, and an attempt runs under it. So the rules are asked
		// whether this node may take that over.
	}
}

// load reads the task of an offer, unless that has been done.
func (p *Protocol) load(ctx context.Context, o *events.Offer, t *task.Task) error {
	if o.Read != nil {
		*t = *o.Read // if it has changed since, the claim fails and reads it anew
		return nil
	}
	return p.Recorder.LoadInto(ctx, o.Fact.Task, t)
}

// Report records how the attempt of t ended, makes durable what follows from
// that, and acknowledges the offer. If the task is no longer the attempt's own,
// what it had to say is kept as evidence, and the error wraps
// [task.ErrFenced]; the offer is then somebody else's to acknowledge. After any other error the
// outcome is open, and Report may be called again.
func (p *Protocol) Report(ctx context.Context, t *task.Task, o *events.Offer, c task.Command) error {
	now := reported.Get().(*task.Task)
	defer reported.Put(now)
	*now = *t // if the outcome is open, it is asked again as it was
	_, err := p.Recorder.Move(ctx, now, c)
	switch {
	case errors.Is(err, task.ErrFenced):
		told, readErr := p.told(ctx, t)
		if readErr != nil {
			return fmt.Errorf("read task %s: %w", t.ID, readErr) // without ErrFenced, so that it is asked again
		}
		if !told {
			return errors.Join(err, p.late(ctx, t, now, c))
		}
	case err != nil:
		return err
	}
	return p.done(ctx, now, o)
}

// told tells whether the end of t's attempt is in the log by its own word: an
// earlier Report recorded it and did not come to know, or failed at what follows.
func (p *Protocol) told(ctx context.Context, t *task.Task) (bool, error) {
	records, err := p.Recorder.Log.Task(ctx, t.ID)
	return slices.ContainsFunc(records, func(r events.Record) bool {
		if r.Kind != events.KindChain {
			return false
		}
		switch e := r.Fact.Event.(type) {
		case task.AttemptFinished:
			return e.Epoch == t.Epoch
		case task.AttemptFailed:
			return e.Epoch == t.Epoch
		case task.AttemptReleased:
			return e.Epoch == t.Epoch
		case task.CancelConfirmed:
			return e.Epoch == t.Epoch
		}
		return false
	}), err
}

// done acknowledges an offer once what follows from the task's state is durable.
func (p *Protocol) done(ctx context.Context, t *task.Task, o *events.Offer) error {
	if err := p.Recorder.Settle(ctx, t); err != nil {
		return fmt.Errorf("settle task %s: %w", t.ID, err)
	}
	return o.Ack()
}

// late keeps the event that would have followed from c if mine had still been true.
func (p *Protocol) late(ctx context.Context, mine, now *task.Task, c task.Command) error {
	event, err := mine.Decide(c, p.Recorder.Now())
	if err != nil || event == nil {
		return err
	}
	said, err := events.Encode(nil, p.Recorder.Fact(mine.ID, event))
	if err != nil {
		return err
	}
	_, err = p.Recorder.Move(ctx, now, task.ReportLate{Epoch: mine.Epoch, Node: string(p.Node), Said: said})
	return err
}
