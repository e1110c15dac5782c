package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
)

// Protocol is the sequence of steps by which a worker handles one offer, without any goroutine:
// claim it, report how the attempt ended, and acknowledge the offer when everything that must
// follow is durable. If the process dies between two steps, the server delivers the offer to
// another worker, which finds in the log what is left to do.
type Protocol struct {
	Recorder *events.Recorder
	Node     node.ID
	Session  string
	// Labels returns the node's labels at this moment, by which tasks choose nodes, and the fact of
	// the node that set them. Nil for none.
	Labels func() (labels map[string]string, at uint64)
	// Runs tells whether this node can run tasks of a spec: it has the handler, or runs commands.
	// The node passes on the others. Default: it can run all.
	Runs func(*job.Spec) bool
	// Accounts tell whether an attempt still runs when its offer comes again. Without them the
	// worker takes nothing over.
	Accounts *events.Accounts
	// Preferring finds the node to which a task that prefers nodes is left. Default: every task is
	// taken.
	Preferring Preferring
	// Chance returns a number in [0,1) that spreads the return of tasks that a breaker holds back.
	// Default: always 0.
	Chance func() float64

	circuits    events.Lately[string, limit.Circuit]
	places      places
	definitions events.Definitions
	horizon     horizon
}

// Each offer needs one of each, and they are large: so they are reused.
var (
	questions = sync.Pool{New: func() any { return new(question) }}
	reported  = sync.Pool{New: func() any { return new(task.Task) }}
)

// Claim asks to run the task of an offer, and sets *t to that task. If it returns true, the task
// belongs to this node under the epoch in it. If false, there was nothing to run: the offer is
// settled and acknowledged, or it rests as long as another attempt holds its lease. After an error
// the offer is delivered again when its lease has expired. When the attempt has ended on this node,
// the caller must call [Protocol.Vacate].
func (p *Protocol) Claim(ctx context.Context, o *events.Offer, t *task.Task) (bool, error) {
	q := questions.Get().(*question)
	defer questions.Put(q)
	became, rest, err := p.claim(ctx, o, t, q)
	switch {
	case q.taken == nil: // its job does not bound how many tasks run on one node
	case became == mine:
		p.places.occupy(t)
	default:
		p.places.vacate(o.Fact.Task, q.taken, 0)
	}
	switch {
	case became == mine:
		return true, nil
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
	notMine fate = iota // acknowledge it, once what follows from its task is durable
	notNow              // it comes again, here or elsewhere
	mine                // its task runs here
)

// leased is the rest of an offer that may be the lease of an attempt: the lease's holder determines
// how long it is.
const leased time.Duration = -1

// putBack returns an offer: for delivery at once, here or elsewhere, or after a rest.
func putBack(o *events.Offer, rest time.Duration) error {
	switch {
	case rest == leased:
		return nil
	case rest > 0:
		return o.Rest(rest)
	}
	return o.Return()
}

// claim decides what becomes of an offer, and how long it rests if it must come again: 0 for not at
// all.
func (p *Protocol) claim(ctx context.Context, o *events.Offer, t *task.Task, q *question) (_ fate, rest time.Duration, err error) {
	*q = question{task: t, deliveries: o.Deliveries, stored: o.Stored, valve: o.Valve}
	q.claim = task.Claim{Node: string(p.Node), Session: p.Session, Offer: o.Seq, Seen: true, Rate: o.Rate}
	if became, rest, err := p.learn(ctx, o, q); became != mine {
		return became, rest, err
	}
	if p.Labels != nil && (t.Route.Selected() || len(t.Spec.Room()) > 0) {
		q.claim.Labels, q.claim.At = p.Labels()
	}
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
	case errors.Is(err, task.ErrStale) && behind(o, t, q.claim.After):
		return notNow, restFor(o.Deliveries), nil
	case errors.Is(err, task.ErrStale), errors.Is(err, task.ErrEnded):
		return notMine, 0, nil
	case err != nil:
		return notNow, leased, fmt.Errorf("claim task %s: %w", t.ID, err)
	}
	e, started := event.(task.AttemptStarted)
	if started && (o.MayBeLost() || p.outlived(q.unread)) { // the claim may have come to a log that has lost the birth, or has other sequences
		switch err := p.Recorder.LoadInto(ctx, t.ID, t); {
		case errors.Is(err, task.ErrUnknown):
			return notMine, 0, nil
		case err != nil:
			return notNow, leased, err
		}
	}
	switch {
	case !started || !t.Live():
		// A rule has changed the task. Or the answer to the claim was lost with the connection, and
		// by the time that was back the attempt had been given up.
		return notMine, 0, nil
	case t.Session != p.Session || t.Attempt != e.Attempt:
		return notNow, leased, nil // the worker that runs it now holds the lease
	}
	if q.memory.Name != "" {
		// If that fails, the next task of its name starts anywhere, and is remembered.
		_ = p.Preferring.Remember(ctx, q.memory)
	}
	return mine, 0, nil
}

// fresh is how long after its id was drawn a birth counts as the first of its task without a look at
// the log. A later one may be forged. Earlier versions put births of tasks that are due later, or
// are held, beside the chain, which then has nothing that could refuse the claim.
const fresh = time.Second

// learn sets the question's task to that of an offer, and the turn that the claim is for. Unless the
// task may be this node's, it returns what becomes of the offer.
func (p *Protocol) learn(ctx context.Context, o *events.Offer, q *question) (_ fate, rest time.Duration, err error) {
	t, claim := q.task, &q.claim
	*t = task.Task{ID: o.Fact.Task}
	whole := false // the offer says all that the claim must know of the task: then the chain has nothing yet
	first := false // the offer is for the first attempt of a task that has a chain
	switch e := o.Fact.Event.(type) {
	case task.Submitted:
		whole = o.Stored.Sub(o.Fact.Task.Time()) < fresh
	case task.Queued:
		claim.After = e.After // whoever placed it, the task is what the log says
		first = e.Attempt == 1 && e.After > 0
	case task.Due:
		claim.After, claim.Reference = e.After, &e
	default:
		if errors.Is(o.Err, events.ErrLater) {
			return notNow, restFor(o.Deliveries), nil // a newer worker can read it
		}
		return notMine, 0, nil // no node can run it; the projector has listed it
	}
	once := o.Deliveries == 1 && !o.MayBeLost()
	if whole && once {
		h, at, err := p.horizon.read(ctx, p.Recorder)
		if err != nil {
			return notNow, leased, err
		}
		whole, q.unread = !h.Older(o.Fact.At), at // else its chain may be forgotten, and so take any claim
	}
	if whole && once {
		// Before the first attempt a task has no history beyond its birth. The claim only has to
		// check that, so the worker need not read the log.
		t.Apply(o.Task())
		return mine, 0, nil
	}
	switch {
	case o.Read != nil && !behind(o, o.Read, claim.After):
		*t = *o.Read // if it has changed since, the claim fails and reads it again
	case first && once && p.Recorder.LoadOffered(ctx, &o.Record, claim.After, t): // the same holds
	default:
		err = p.Recorder.LoadInto(ctx, o.Fact.Task, t)
	}
	unknown := errors.Is(err, task.ErrUnknown)
	switch {
	case (err == nil || unknown) && behind(o, t, claim.After):
		return notNow, restFor(o.Deliveries), nil
	case claim.Reference != nil && (unknown || err == nil && t.Waiting() && !t.Awaits(*claim.Reference)):
		return notMine, 0, nil // a forged timer, or the task has moved on
	case unknown && o.Fact.Type != events.TaskSubmitted:
		return notMine, 0, nil // the log has lost the task, or an offer of none was forged
	case err == nil && t.Waiting() && !t.Offered:
		return notMine, 0, nil // a forged offer, or the task has moved on
	case err == nil && slices.ContainsFunc(t.Rivals, func(r task.Rival) bool { return r.Seq == o.Seq }):
		return notMine, 0, nil // a birth of other work under the task's id
	case err != nil:
		return notNow, leased, err
	}
	return mine, 0, nil
}

// move claims the task, or records the command of a rule; or it returns the rest that a rule wants.
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
		// The offer said that the task waits, but an attempt runs under it. So ask the rules
		// whether this node may take that over.
	}
}

// rereads is how many deliveries of an offer may find the log behind it. With the rests between them
// that is some four seconds, longer than a server takes to learn that it does not lead any more.
const rereads = 8

// behind tells whether a task as it was read lacks its offer, or the fact that began the turn of
// that, which the log stored before. A server answers so that led the log until a moment ago and does
// not know yet: then the offer is as good as any. If it was forged, more reads find the same.
func behind(o *events.Offer, t *task.Task, after uint64) bool {
	missing := t.Seq < max(after, 1) && after < o.Seq || t.Seq < o.Seq && t.Waiting() && !t.Offered
	return missing && o.Deliveries <= rereads
}

// Report records how the attempt of t ended, makes durable what follows from that, and acknowledges
// the offer. If the task no longer belongs to the attempt, Report keeps the outcome as evidence,
// and the error wraps [task.ErrFenced]; then the next holder acknowledges the offer. If the log has no
// such attempt, there is nothing to keep, and the error wraps [ErrNoAttempt] as well. After any other
// error the outcome is unknown, and Report may be called again.
func (p *Protocol) Report(ctx context.Context, t *task.Task, o *events.Offer, c task.Command) error {
	now := reported.Get().(*task.Task)
	defer reported.Put(now)
	*now = *t // an unknown outcome is asked again with the same task
	if o.MayBeLost() {
		switch err := p.Recorder.LoadInto(ctx, t.ID, now); {
		case err != nil:
			return err
		case now.Epoch == t.Epoch && (now.Session != t.Session || !now.StartedAt.Equal(t.StartedAt)):
			return fmt.Errorf("%w: the log has lost the attempt, and has another one at %d", task.ErrFenced, t.Epoch)
		}
	}
	_, err := p.Recorder.Move(ctx, now, c)
	switch {
	case errors.Is(err, task.ErrFenced):
		begun, told, readErr := p.told(ctx, t)
		switch {
		case readErr != nil:
			// Without ErrFenced, so that the caller asks again.
			return fmt.Errorf("read task %s: %w", t.ID, readErr)
		case !begun:
			return fmt.Errorf("%w: %w", err, ErrNoAttempt)
		case !told:
			return errors.Join(err, p.late(ctx, t, now, c))
		}
	case err != nil:
		return err
	}
	if err := p.snooze(ctx, now, c); err != nil {
		return err
	}
	return p.done(ctx, now, o)
}

// snooze postpones a task that was given back until a time, before it is offered again. If the
// process dies before, the task starts at once, and may ask again.
func (p *Protocol) snooze(ctx context.Context, t *task.Task, c task.Command) error {
	back, ok := c.(task.Release)
	if !ok || back.Until.IsZero() {
		return nil
	}
	_, err := p.Recorder.Move(ctx, t, task.Postpone{Asked: true, Detail: back.Reason, Due: back.Until})
	if errors.Is(err, task.ErrEnded) || errors.Is(err, task.ErrNotWaiting) { // somebody has made something else of it
		return nil
	}
	return err
}

// ErrNoAttempt: the log has no such attempt, although the worker has seen it begin.
var ErrNoAttempt = errors.New("the log has no such attempt: it was restored from an older backup, or is another one")

// told tells whether the log has the begin of t's attempt, and whether it already has the end as the
// attempt itself reported it: an earlier Report recorded it but lost the answer, or failed at what
// follows.
func (p *Protocol) told(ctx context.Context, t *task.Task) (begun, told bool, err error) {
	records, err := p.Recorder.Log.Task(ctx, t.ID)
	for _, r := range records {
		begun = begun || r.Seq == t.Epoch
		if r.Kind != events.KindChain {
			continue
		}
		var of uint64
		switch e := r.Fact.Event.(type) {
		case task.AttemptFinished:
			of = e.Epoch
		case task.AttemptFailed:
			of = e.Epoch
		case task.AttemptReleased:
			of = e.Epoch
		case task.AttemptParked:
			of = e.Epoch
		case task.CancelConfirmed:
			of = e.Epoch
		}
		told = told || of == t.Epoch
	}
	return begun, told, err
}

// done acknowledges an offer once what follows from the task's state is durable. One whose log may have
// lost just that comes again, to be judged by what the log has then.
func (p *Protocol) done(ctx context.Context, t *task.Task, o *events.Offer) error {
	if err := p.Recorder.Settle(ctx, t); err != nil {
		return fmt.Errorf("settle task %s: %w", t.ID, err)
	}
	if o.MayBeLost() {
		return o.Return()
	}
	return o.Ack()
}

// late keeps as evidence the event that would have followed from c if mine were still the task's
// state.
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
