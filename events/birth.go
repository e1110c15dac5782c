package events

import (
	"context"
	"errors"
	"fmt"

	"millrace/task"
)

// Exists says that there already is a task with this id, so no birth was recorded. Differs of its
// birth tells whether it is the same submission.
type Exists struct {
	Task task.ID
	// Birth is the record of the birth that counts; see [task.Born].
	Birth Record
}

func (e *Exists) Error() string { return fmt.Sprintf("task %s is there already", e.Task) }

// Submit records the birth of a task under an id that was drawn for it or derived from its origin,
// and arms its timer if it is due later. It returns the sequence of the birth. If another task
// blocks its unique key, the error wraps a [*Taken].
func (r *Recorder) Submit(ctx context.Context, id task.ID, e task.Submitted) (uint64, error) {
	return r.submit(ctx, id, e, e.OnChain())
}

// SubmitNamed is [Recorder.Submit] under an id that the submitter chose, so that other submitters
// may choose it, too. Only one birth under such an id is recorded: the others get an [*Exists]. One
// whose time lies before the horizon of the log gets an error that wraps [ErrForgotten].
//
// The birth lies on the task's chain, whose first message can be written only once. An offer that
// refers to it follows. If the process dies between the two, the task lacks its offer, and the
// sweep places it.
func (r *Recorder) SubmitNamed(ctx context.Context, id task.ID, e task.Submitted) (uint64, error) {
	if err := r.Unborn(ctx, id); err != nil { // a task with a drawn id has no chain before its claim
		return 0, err
	}
	if err := r.remembered(ctx, id); err != nil {
		return 0, fmt.Errorf("task %s: %w", id, err)
	}
	return r.submit(ctx, id, e, true)
}

// SubmitOnce is [Recorder.Submit] under a derived id, for a birth without a unique key. Other
// processes that make the same task place the same birth in the same place. Only one of these is
// recorded. The others get an [*Exists], or sequence 0 where the message in that place is not a
// birth.
func (r *Recorder) SubmitOnce(ctx context.Context, id task.ID, e task.Submitted) (uint64, error) {
	f := r.Fact(id, e)
	d, err := r.first(ctx, f, func(ctx context.Context, f *Fact, _ uint64) (seq uint64, err error) {
		r.Log.PlaceAll(ctx, []*Fact{f}, true, func(_ int, at uint64, failed error) { seq, err = at, failed })
		return seq, err
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("task %s: %w", id, err)
	case d.Done():
		return d.End, r.SettleBirth(ctx, f, d.End)
	}
	if b, ok := BirthOf(d.Is); ok {
		return 0, &Exists{id, b}
	}
	return 0, ctx.Err()
}

// Unborn returns an [*Exists] if there is a task with this id.
func (r *Recorder) Unborn(ctx context.Context, id task.ID) error {
	records, err := r.Log.Task(ctx, id)
	if err != nil {
		return fmt.Errorf("read task %s: %w", id, err)
	}
	if b, ok := BirthOf(records); ok {
		return &Exists{id, b}
	}
	return nil
}

func (r *Recorder) submit(ctx context.Context, id task.ID, e task.Submitted, chain bool) (uint64, error) {
	key, err := e.UniqueKey()
	at := r.Moment()
	var seq uint64
	switch {
	case err != nil:
	case key != "":
		seq, err = r.submitUnique(ctx, id, key, e, chain)
	case chain:
		seq, err = r.bear(ctx, r.Fact(id, e))
	default:
		seq, err = r.place(ctx, r.Fact(id, e)) // a second birth fails at the claim
	}
	if err != nil {
		return 0, fmt.Errorf("task %s: %w", id, err)
	}
	return seq, r.settleBirth(ctx, id, task.Recorded{Seq: seq, Chain: chain, At: at, Event: e})
}

// bear records a birth as the first message of the task's chain. The error is an [*Exists] if there
// is another birth.
func (r *Recorder) bear(ctx context.Context, f *Fact) (uint64, error) {
	write := r.Log.Append
	if e := f.Event.(task.Submitted); e.OnChain() { // no offer follows that makes what its route needs
		write = func(ctx context.Context, f *Fact, _ uint64) (uint64, error) { return r.Log.Place(ctx, f) }
	}
	d, err := r.first(ctx, f, write)
	if d.Outcome == Lost {
		return 0, exists(f.Task, d.Is)
	}
	return d.End, err
}

// first writes a birth where none may be yet.
func (r *Recorder) first(ctx context.Context, f *Fact, write func(context.Context, *Fact, uint64) (uint64, error)) (Decided[[]Record, *Fact], error) {
	chain := Chain[[]Record, *Fact]{
		Read: func(ctx context.Context, wrote *Fact) ([]Record, uint64, bool, error) {
			records, err := r.Log.Task(ctx, f.Task)
			return records, headOf(records), holds(records, wrote), err
		},
		Write: write, Once: true,
	}
	d, err := chain.DecideFrom(ctx, nil, 0, func([]Record) (*Fact, bool, error) { return f, true, nil })
	if d.Outcome == Found {
		d.End = seqOf(d.Is, f.ID)
	}
	return d, err
}

// exists returns the error that the task exists. A chain without a birth was written by another
// program.
func exists(id task.ID, records []Record) error {
	if b, ok := BirthOf(records); ok {
		return &Exists{id, b}
	}
	return fmt.Errorf("%w: facts of task %s lie in the log, and no birth of it", ErrConflict, id)
}

// BirthOf returns the birth that counts in a task's whole history; false if there is none. See
// [task.Born]. A birth that the log has forgotten is made again from what carries the task.
func BirthOf(records []Record) (Record, bool) {
	history := make([]task.Recorded, len(records))
	for i := range records {
		history[i] = records[i].Task()
	}
	i := task.Born(history)
	if i < 0 {
		return Record{}, false
	}
	b := records[i]
	if c, ok := b.Fact.Event.(task.Carried); ok {
		b.Seq, b.Raw, b.Kind = c.Born.Seq, nil, KindOffer
		if c.Born.Chain {
			b.Kind = KindChain
		}
		b.Fact.Type, b.Fact.At, b.Fact.Event = TaskSubmitted, c.Fold.SubmittedAt, c.Birth()
	}
	return b, true
}

// headOf is the sequence of the last message on the chain.
func headOf(records []Record) (head uint64) {
	for i := range records {
		if records[i].Kind == KindChain {
			head = records[i].Seq
		}
	}
	return head
}

// seqOf is the sequence of a fact in a history, 0 if it is missing.
func seqOf(records []Record, fact string) uint64 {
	for i := range records {
		if records[i].Fact.ID == fact {
			return records[i].Seq
		}
	}
	return 0
}

// SettleBirth is [Recorder.Settle] for a task that has only its birth, placed by f.
func (r *Recorder) SettleBirth(ctx context.Context, f *Fact, seq uint64) error {
	e := f.Event.(task.Submitted)
	return r.settleBirth(ctx, f.Task, task.Recorded{Seq: seq, Chain: e.OnChain(), At: f.At, Event: e})
}

func (r *Recorder) settleBirth(ctx context.Context, id task.ID, birth task.Recorded) error {
	t := task.Evolve(task.Task{ID: id}, birth)
	if _, err := r.NeedsStay(ctx, &t); err != nil {
		return err
	}
	if !t.Waiting() {
		return nil // a parent
	}
	if err := r.settleNext(ctx, &t); err != nil {
		return fmt.Errorf("task %s is recorded, and its offer is to be placed by the sweep: %w", id, err)
	}
	return nil
}

// PlaceBirths places births under drawn or derived ids, much faster than one by one.
// [Recorder.SettleBirth] must follow for each. Done gets each outcome, by index and in order; an
// [*Exists] if the birth begins a chain that has another one.
func (r *Recorder) PlaceBirths(ctx context.Context, births []*Fact, done func(i int, seq uint64, err error)) {
	r.Log.PlaceAll(ctx, births, false, func(i int, seq uint64, err error) {
		e := births[i].Event.(task.Submitted)
		switch unknown := errors.Is(err, ErrUnknown); {
		case ctx.Err() != nil:
		case e.OnChain() && (unknown || errors.Is(err, ErrConflict)):
			seq, err = r.bear(ctx, births[i])
		case unknown:
			seq, err = r.place(ctx, births[i])
		}
		done(i, seq, err)
	})
}

// place places a birth or an offer, and repeats that after a lost answer: placing it twice is
// harmless.
func (r *Recorder) place(ctx context.Context, f *Fact) (uint64, error) {
	seq, err := r.Log.Place(ctx, f)
	for errors.Is(err, ErrUnknown) && ctx.Err() == nil {
		seq, err = r.Log.Place(ctx, f)
	}
	return seq, err
}

// birthIn returns the sequence of the birth that counts; 0 if there is none.
func birthIn(records []Record) uint64 {
	b, _ := BirthOf(records)
	return b.Seq
}
