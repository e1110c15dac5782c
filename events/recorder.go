package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
)

// Recorder is the only way to change state. It decides a command on the known state of a task or
// node and records the event at the sequence on which it decided. If another writer was faster, it
// reads the state again and decides again.
type Recorder struct {
	Log Log
	// Actor is written into facts whose event does not name the actor.
	Actor string
	// Corr is written into the facts about tasks: the first cause of all changes by this recorder,
	// such as a bulk command. Default: none.
	Corr string
	// Hints notifies nodes at once of events about themselves or their tasks. Default: they find
	// out by polling.
	Hints Hinter
	// Now and NewID are the clock and the source of ULIDs.
	Now   func() time.Time
	NewID func(time.Time) string
}

// Hinter notifies a node of an event about a task that it runs, or about the node itself if the
// task is "". The message may be lost.
type Hinter interface {
	Hint(id node.ID, about task.ID) error
}

// Moment is the time of a fact, in whole microseconds: clocks are not more precise, and readers of
// the log keep no more.
func (r *Recorder) Moment() time.Time { return r.Now().Truncate(time.Microsecond) }

// Fact makes a fact of an event of a task.
func (r *Recorder) Fact(id task.ID, e task.Event) *Fact { return r.factAt(r.Moment(), id, e) }

func (r *Recorder) factAt(now time.Time, id task.ID, e task.Event) *Fact {
	f := &Fact{ID: r.NewID(now), At: now, Type: TypeOf(e), Task: id, Actor: r.Actor, Corr: r.Corr}
	if e != nil { // so that it is not an event of nil's type
		f.Event = e
	}
	return f
}

// PlaceAdmitted places the offers of admitted tasks. If placing one fails or its outcome is
// unknown, the offer is found missing later.
func (r *Recorder) PlaceAdmitted(ctx context.Context, offers []*Fact) error {
	var failed []error
	r.Log.PlaceAll(ctx, offers, false, func(_ int, _ uint64, err error) {
		if err != nil {
			failed = append(failed, err)
		}
	})
	return errors.Join(failed...)
}

// MessageFact makes a fact of an event about an unreadable message.
func (r *Recorder) MessageFact(seq uint64, e task.MessageEvent) *Fact {
	now := r.Moment()
	return &Fact{ID: r.NewID(now), At: now, Type: TypeOf(e), Message: seq, Actor: r.Actor, Event: e}
}

// Load reads a task. The error wraps [task.ErrUnknown] if the log does not say what it is.
func (r *Recorder) Load(ctx context.Context, id task.ID) (task.Task, error) {
	var t task.Task
	err := r.LoadInto(ctx, id, &t)
	return t, err
}

// LoadInto is [Recorder.Load] in place: t becomes the task.
func (r *Recorder) LoadInto(ctx context.Context, id task.ID, t *task.Task) error {
	records, err := r.read(ctx, id, t)
	switch {
	case err != nil:
		*t = task.Task{}
		return fmt.Errorf("read task %s: %w", id, err)
	case len(records) == 0 || t.Spec == nil: // what else there is was written after the log had lost its birth
		return fmt.Errorf("task %s: %w", id, task.ErrUnknown)
	}
	return nil
}

// KnownTask is a task as far as it was read from a log. The zero value is one that was not read.
type KnownTask struct {
	is   task.Task // up to the last fact of its chain: until there, what was read is whole
	last string    // the id of that fact; "" if it is not known
}

// UpdateTask is [Recorder.Load] for a task that is read again and again: it reads only what is new since
// the last time, if the log can tell ([Resumer]).
func (r *Recorder) UpdateTask(ctx context.Context, id task.ID, k *KnownTask) (task.Task, error) {
	var records []Record
	var err error
	if log, ok := r.Log.(Resumer); ok && k.last != "" {
		records, err = log.Rest(ctx, id, k.is.Head)
	}
	if err == nil && (len(records) == 0 || records[0].Fact.ID != k.last) {
		*k = KnownTask{is: task.Task{ID: id}}
		records, err = r.Log.Task(ctx, id)
	}
	if err != nil {
		return task.Task{}, fmt.Errorf("read task %s: %w", id, err)
	}
	t := k.fold(records)
	if t.Spec == nil {
		return t, fmt.Errorf("task %s: %w", id, task.ErrUnknown)
	}
	return t, nil
}

// fold adds records, and returns the task with those behind its chain, too. Their order is not known for
// good: they lie in several places, which are read one after the other.
func (k *KnownTask) fold(records []Record) task.Task {
	head := headOf(records)
	t := k.is
	for i := range records {
		t.Apply(records[i].Task())
		if records[i].Seq == head {
			t.Head, k.is, k.last = head, t, records[i].Fact.ID
		}
	}
	t.Head = k.is.Head // an offer can be wrong about a chain
	return t
}

// CarriedIn tells whether a task was carried in a history.
func CarriedIn(records []Record) bool {
	return slices.ContainsFunc(records, func(r Record) bool { return r.Fact.Type == TaskKept })
}

// LoadOffered makes t the task of an offer as the log had it when it stored that, if its chain is the
// birth and what opened its holds, up to the turn of the offer. False if all of the task must be
// read ([Recorder.LoadInto]), or the offer does not count. Nothing else that lies in a queue counts for
// such a task, and a command on it fails if the chain has gone on.
func (r *Recorder) LoadOffered(ctx context.Context, o *Record, turn uint64, t *task.Task) bool {
	log, ok := r.Log.(Beginner)
	if !ok {
		return false
	}
	records, err := log.Beginning(ctx, o.Fact.Task, turn)
	if err != nil {
		return false
	}
	*t = task.Task{ID: o.Fact.Task}
	for i := range records {
		switch records[i].Fact.Event.(type) {
		case task.Submitted:
			if i > 0 {
				return false
			}
		case task.Unheld:
			if i == 0 {
				return false
			}
		default: // it may follow from an offer in between
			return false
		}
		t.Apply(records[i].Task())
	}
	t.Apply(o.Task())
	return len(records) > 0 && t.Offered
}

// Do decides c on t and records the event. It returns the resulting task and the event, nil if the
// requested state held already. If the command is refused, the error wraps that of [task.Decide],
// and the task is the one on which it was refused, read anew from the log if t was outdated.
//
// Do returns only when the outcome is known, or when the log cannot be read, for example because
// ctx has ended; then the error wraps that of the log, and [ErrUnknown] if the outcome is open.
//
// Do also removes a timer that the event makes needless, and notifies the node that runs the task,
// if it can: nothing depends on either.
//
// A [task.Reopen] of a task with a unique key is also refused with a [*Taken] if another task has
// the key.
func (r *Recorder) Do(ctx context.Context, t task.Task, c task.Command) (task.Task, task.Event, error) {
	event, err := r.Move(ctx, &t, c)
	return t, event, err
}

// Move is [Recorder.Do] in place: t becomes what Do returns.
func (r *Recorder) Move(ctx context.Context, t *task.Task, c task.Command) (task.Event, error) {
	plain := c
	if only, ok := c.(task.Unmoved); ok {
		plain = only.Command
	}
	if _, ok := plain.(task.Reopen); ok {
		// Before, so that the front does not go meanwhile; a horizon that is chosen later is looked for afterwards.
		if err := r.outlives(ctx, t); err != nil && !errors.Is(err, ErrForgotten) {
			return nil, err
		}
		if key, err := t.UniqueKey(); err == nil && key != "" && t.Spec.Collapse == nil { // that holds its key before it begins
			return r.reopenUnique(ctx, t, c, key)
		}
	}
	var was task.Owed
	var event task.Event
	known, another := t, false
	chain := Chain[*task.Task, *Fact]{
		Read: func(ctx context.Context, wrote *Fact) (*task.Task, uint64, bool, error) {
			now := new(task.Task)
			records, err := r.read(ctx, t.ID, now)
			if err == nil {
				known, another = now, !holdsPast(records, known)
			}
			return now, now.Head, holds(records, wrote), err
		},
		Write:   r.Log.Append,
		Another: func() bool { return another },
	}
	d, err := chain.DecideFrom(ctx, t, t.Head, func(t *task.Task) (*Fact, bool, error) {
		at := r.Moment()
		var err error
		if event, err = t.Decide(c, at); err != nil || event == nil {
			return nil, false, err
		}
		was = t.Owed()
		f := r.factAt(at, t.ID, event) // the time of the decision, so that it can be repeated
		f.By = t.DecidedBy(c, event)
		return f, true, nil
	})
	if d.Is != t {
		*t = *d.Is
	}
	switch {
	case err != nil:
		return nil, recording(d.Wrote, err)
	case d.Outcome == Held:
		return nil, nil
	case d.Outcome == Recorded:
		f := d.Wrote
		t.Apply(task.Recorded{Seq: d.End, Chain: true, At: f.At, Actor: f.Actor, Corr: f.Corr, Event: event})
	}
	r.tidy(ctx, was, t, event)
	if _, again := event.(task.Reopened); again {
		return event, r.outlives(ctx, t)
	}
	return event, nil
}

// recording adds to an error which fact was to be recorded; nothing if that was not known yet.
func recording(f *Fact, err error) error {
	if f == nil || err == nil {
		return err
	}
	return fmt.Errorf("record %s: %w", f.Type, err)
}

// tidy takes the steps after an event that spare others a wait or a message. Their failure is not
// an error.
func (r *Recorder) tidy(ctx context.Context, was task.Owed, t *task.Task, e task.Event) {
	if task.Disarms(was, t.Owed()) {
		_ = r.Log.Disarm(ctx, t.ID, t.Head)
	}
	if r.Hints != nil && t.Hints(e) {
		_ = r.Hints.Hint(node.ID(t.Node), t.ID)
	}
}

// read sets t to the task in the log, and returns its history.
func (r *Recorder) read(ctx context.Context, id task.ID, t *task.Task) ([]Record, error) {
	*t = task.Task{ID: id}
	records, err := r.Log.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range records {
		t.Apply(records[i].Task())
	}
	t.Head = headOf(records) // an offer can be wrong about a chain; the chain itself cannot
	return records, nil
}

// holdsPast tells whether a task, as it is known, follows from the beginning of a history. It does not if
// the log has lost what was known.
func holdsPast(records []Record, known *task.Task) bool {
	past := task.Task{ID: known.ID}
	for i := range records {
		if records[i].Seq <= known.Seq {
			past.Apply(records[i].Task())
		}
	}
	return past.Seq == known.Seq && past.State == known.State && past.Turn == known.Turn &&
		past.Epoch == known.Epoch && past.Session == known.Session && past.StartedAt.Equal(known.StartedAt)
}

// holds tells whether a fact is among the records; nil never is.
func holds(records []Record, f *Fact) bool {
	return f != nil && slices.ContainsFunc(records, func(r Record) bool { return r.Fact.ID == f.ID })
}

// Stop is the fact by which a task is refused or stopped together with an admission.
type Stop struct {
	task *task.Task // the task before it
	was  task.Owed
	fact *Fact
}

// Stop reads a task and makes the fact that follows from a command on it, for [Recorder.Admit]; nil
// if the task has moved on, so that none follows.
func (r *Recorder) Stop(ctx context.Context, id task.ID, c task.Command) (*Stop, error) {
	t, err := r.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	at := r.Moment()
	event, err := t.Decide(c, at)
	if errors.Is(err, task.ErrEnded) || errors.Is(err, task.ErrNotWaiting) || err == nil && event == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Stop{task: &t, was: t.Owed(), fact: r.factAt(at, id, event)}
	s.fact.By = t.DecidedBy(c, event)
	return s, nil
}

// Admit records an admission by the limits of some scopes, one fact for each, behind the facts of
// the tasks that it refuses. The condition is that last are the sequences of the scopes' latest
// admissions and the tasks have not moved on. All facts are recorded directly behind each other, or
// none. It returns the sequence of the first scope's fact. It does not retry: done is false if
// another admission came first, or if the outcome is unknown.
func (r *Recorder) Admit(ctx context.Context, at time.Time, scopes []limit.Scope, records []task.Granted, last []uint64, by task.By, stops []*Stop) (first uint64, done bool, err error) {
	facts, heads := make([]*Fact, 0, len(stops)+len(scopes)), make([]uint64, 0, len(stops)+len(scopes))
	for _, s := range stops {
		facts, heads = append(facts, s.fact), append(heads, s.task.Head)
	}
	for i, of := range scopes {
		f := r.factAt(at, "", nil)
		f.Type, f.Scope, f.Event, f.By = LimitGranted, of, records[i], &by
		facts, heads = append(facts, f), append(heads, last[i])
	}
	if len(facts) == 1 {
		first, err = r.Log.Append(ctx, facts[0], heads[0])
	} else {
		first, err = r.Log.AppendAll(ctx, facts, heads)
	}
	if done, err = tried(err); !done {
		return 0, false, err
	}
	for i, s := range stops {
		f, event := s.fact, s.fact.Event.(task.Event)
		s.task.Apply(task.Recorded{Seq: first + uint64(i), Chain: true, At: f.At, Actor: f.Actor, Corr: f.Corr, Event: event})
		r.tidy(ctx, s.was, s.task, event)
	}
	return first + uint64(len(stops)), true, nil
}

// Settle makes durable what follows from the task's state: the offer of its next attempt, or the
// timer for it. Afterwards the offer that led here may be acknowledged. Settling twice is harmless.
func (r *Recorder) Settle(ctx context.Context, t *task.Task) error {
	if !t.Waiting() {
		return nil
	}
	if len(t.Holds) > 0 && t.Head > 0 {
		// Offers do not move the chain: an offer may have opened the hold before the event that led
		// here was recorded, for a turn that this event has ended.
		now, err := r.Load(ctx, t.ID)
		if err != nil {
			return err
		}
		t = &now
	}
	return r.settleNext(ctx, t)
}

// settleNext places or arms the next offer of a task, if it is missing.
func (r *Recorder) settleNext(ctx context.Context, t *task.Task) error {
	next, ok := task.NextOffer(t)
	if !ok {
		return nil
	}
	f := r.Fact(t.ID, next)
	if next.Due.After(f.At) {
		return r.Log.Arm(ctx, f)
	}
	_, err := r.place(ctx, f)
	return err
}

// Renew places an offer in the place of one that was handed out and is given back. It may be recorded
// all the same after an error; the claim lets only one of the two pass.
func (r *Recorder) Renew(ctx context.Context, given *Record) error {
	e, _ := given.Fact.Event.(task.Event)
	offer, ok := task.Renewed(e)
	if !ok {
		return fmt.Errorf("renew an offer of task %s: a %s is none", given.Fact.Task, given.Fact.Type)
	}
	_, err := r.place(ctx, r.Fact(given.Fact.Task, offer))
	return err
}

// KnownNode is a node as it was read from a log. It remembers the id of the last fact: a log that has lost
// its last messages may have given the sequence to another one.
type KnownNode struct {
	node.Node
	last string // "" if it is not known
}

// UnreadNode is a node of which nothing is known.
func UnreadNode(id node.ID) KnownNode { return KnownNode{Node: node.Node{ID: id}} }

// evolve adds a fact to the node.
func (n *KnownNode) evolve(r node.Recorded, id string) {
	if r.Seq > n.Head {
		n.last = id
	}
	n.Node = node.Evolve(n.Node, r)
}

// since reads what a log says of the node since its last known fact. The error wraps [node.ErrUnknown] if
// the log does not have that fact any more, or has another one in its place.
func (n *KnownNode) since(ctx context.Context, log Reader) ([]Record, error) {
	records, err := log.Node(ctx, n.ID, n.Head)
	if err != nil || n.Head == 0 {
		return records, err
	}
	if records[0].Seq != n.Head {
		return records, nil // that fact is forgotten, and one of these says all that was
	}
	if is := records[0].Fact.ID; n.last != "" && is != n.last {
		return nil, fmt.Errorf("node %s has fact %s at %d, not %s any more: %w", n.ID, is, n.Head, n.last, node.ErrUnknown)
	}
	return records[1:], nil
}

// LoadNode reads a node. A node without facts has the state [node.Unknown].
func (r *Recorder) LoadNode(ctx context.Context, id node.ID) (node.Node, error) {
	n, err := r.UpdateNode(ctx, UnreadNode(id))
	return n.Node, err
}

// UpdateNode reads the facts of a node since the given state. The error wraps [node.ErrUnknown] if the log
// has lost what is known of the node.
func (r *Recorder) UpdateNode(ctx context.Context, n KnownNode) (KnownNode, error) {
	now, _, err := r.readNode(ctx, n, nil)
	if err != nil {
		return n, fmt.Errorf("read node %s: %w", n.ID, err)
	}
	return now, nil
}

// DoNode is [Recorder.Do] for a node, which it reads from the log first.
func (r *Recorder) DoNode(ctx context.Context, id node.ID, c node.Command) (node.Node, node.Event, error) {
	return r.DoNodeFrom(ctx, node.Node{ID: id}, c)
}

// DoNodeFrom is [Recorder.DoKnownNode] for a node that comes from elsewhere, such as a read model.
func (r *Recorder) DoNodeFrom(ctx context.Context, n node.Node, c node.Command) (node.Node, node.Event, error) {
	now, event, err := r.DoKnownNode(ctx, KnownNode{Node: n}, c)
	return now.Node, event, err
}

// DoKnownNode is [Recorder.DoNode] for a node whose earlier state is known: it reads only the facts
// since then. The error wraps [node.ErrUnknown] if the log has lost what is known.
func (r *Recorder) DoKnownNode(ctx context.Context, n KnownNode, c node.Command) (KnownNode, node.Event, error) {
	known := n
	chain := Chain[KnownNode, *Fact]{
		Read: func(ctx context.Context, wrote *Fact) (KnownNode, uint64, bool, error) {
			now, found, err := r.readNode(ctx, known, wrote)
			if err != nil && wrote == nil {
				err = fmt.Errorf("read node %s: %w", n.ID, err)
			}
			known = now
			return now, now.Head, found, err
		},
		Write: r.Log.Append,
	}
	var event node.Event
	d, err := chain.Decide(ctx, func(n KnownNode) (*Fact, bool, error) {
		var err error
		if event, err = node.Decide(n.Node, c); err != nil || event == nil {
			return nil, false, err
		}
		at := r.Moment()
		return &Fact{
			ID:    r.NewID(at),
			At:    at,
			Type:  TypeOf(event),
			Node:  n.ID,
			Actor: r.Actor,
			By:    node.DecidedBy(c),
			Event: event,
		}, true, nil
	})
	switch {
	case err != nil:
		return d.Is, nil, recording(d.Wrote, err)
	case d.Outcome == Held:
		return d.Is, nil, nil
	}
	if r.Hints != nil {
		_ = r.Hints.Hint(n.ID, "")
	}
	if d.Outcome == Recorded {
		d.Is.evolve(node.Recorded{Seq: d.End, At: d.Wrote.At, Actor: d.Wrote.Actor, Event: event}, d.Wrote.ID)
	}
	return d.Is, event, nil
}

// readNode brings a node up to date. The second result tells whether a fact is among the new
// records.
func (r *Recorder) readNode(ctx context.Context, n KnownNode, wrote *Fact) (KnownNode, bool, error) {
	records, err := n.since(ctx, r.Log)
	if err != nil {
		return n, false, err
	}
	for i := range records {
		n.evolve(records[i].Node(), records[i].Fact.ID)
	}
	return n, holds(records, wrote), nil
}
