package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// Taken refuses a submission, because another task blocks its unique key.
type Taken struct {
	Key    string
	Holder task.ID
	// State is the state of the holder.
	State task.State
}

func (e *Taken) Error() string {
	return fmt.Sprintf("unique key %q: task %s has it and is %s", e.Key, e.Holder, e.State)
}

// claimPatience is how long a claim may lack its birth before another claimant takes the key over.
// claimLook is the interval of the checks.
const (
	claimPatience = 2 * time.Second
	claimLook     = 10 * time.Millisecond
)

// underKey is a record that is accepted only under a claim of a unique key: a birth, or a
// reopening.
type underKey struct {
	id     task.ID
	key    string
	unique *job.Unique
	// place records it if the key's last claim has this sequence.
	place func(claim uint64) (uint64, error)
	// placed is its sequence in the history of its task; 0 if it is missing. An error says that it
	// can never be placed.
	placed func([]Record) (uint64, error)
}

// submitUnique records the birth of a task with a unique key, on the task's chain or not. The error
// is a [*Taken] if another task has the key, an [*Exists] if the id has a task.
//
// A message can have only one expectation, and here that is the key's: the birth is accepted while
// the claim is the key's last. For an id that was not drawn for this birth, submitUnique reads the
// log as well. After the claim, only this process can place a birth under this key and id. A birth
// of the same id under another key, or none, counts only as the first message of the chain.
func (r *Recorder) submitUnique(ctx context.Context, id task.ID, key string, e task.Submitted, chain bool) (uint64, error) {
	var birth *Fact
	var under uint64
	mine := map[string]bool{} // the ids of the facts tried so far
	placed := func(records []Record) (uint64, error) {
		switch b, ok := BirthOf(records); {
		case !ok:
			return 0, nil
		case mine[b.Fact.ID]:
			return b.Seq, nil
		default:
			return 0, &Exists{id, b}
		}
	}
	look := func() (uint64, error) {
		records, err := r.Log.Task(ctx, id)
		if err != nil {
			return 0, err
		}
		return placed(records)
	}
	return r.claimKey(ctx, &underKey{
		id: id, key: key, unique: e.Spec.Lock(), placed: placed,
		place: func(claim uint64) (uint64, error) {
			if chain || id.Derived() {
				if at, err := look(); at > 0 || err != nil {
					return at, err
				}
			}
			if claim != under {
				birth, under = r.Fact(id, e), claim
				mine[birth.ID] = true
			}
			if at, err := r.Log.PlaceClaimed(ctx, birth, key, claim, chain); err != nil || !chain {
				return at, err
			}
			return look() // another birth may have come first under another key
		},
	})
}

// reopenUnique reopens a task with a unique key, like [Recorder.Move]. The task must regain its
// key. The error is a [*Taken] if another task has it.
func (r *Recorder) reopenUnique(ctx context.Context, t *task.Task, c task.Command, key string) (task.Event, error) {
	event, err := t.Decide(c, r.Now())
	if err != nil || event == nil {
		return nil, err
	}
	f := r.Fact(t.ID, event)
	placed := func(records []Record) (uint64, error) { return seqOf(records, f.ID), nil }
	_, err = r.claimKey(ctx, &underKey{
		id: t.ID, key: key, unique: t.Spec.Lock(), placed: placed,
		place: func(claim uint64) (uint64, error) {
			// No other process can reopen it under this claim, so the history read now stays true.
			records, err := r.Log.Task(ctx, t.ID)
			if err != nil {
				return 0, err
			}
			if at := seqOf(records, f.ID); at > 0 {
				return at, nil
			}
			if _, err := task.Decide(FoldTask(t.ID, records), c, r.Now()); err != nil {
				return 0, err
			}
			return r.Log.PlaceClaimed(ctx, f, key, claim, true)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := r.LoadInto(ctx, t.ID, t); err != nil {
		return event, err
	}
	return event, r.outlives(ctx, t)
}

// FreeFor tells whether a task could be born as far as its unique key is concerned: if not, the error
// is a [*Taken]. It claims nothing.
func (r *Recorder) FreeFor(ctx context.Context, id task.ID, e *task.Submitted) error {
	key, err := e.UniqueKey()
	if err != nil || key == "" {
		return err
	}
	last, _, err := r.LastKeyClaim(ctx, key)
	claim, ok := last.Fact.Event.(birth.KeyClaimed)
	if err != nil || !ok {
		return err
	}
	taken, err := r.taken(ctx, &underKey{id: id, key: key, unique: e.Spec.Lock()}, append([]task.ID{claim.Holder}, claim.Before...))
	return errors.Join(err, asError(taken))
}

// LastKeyClaim returns the last claim of a unique key, of sequence 0 if there is none, and the sequence
// that the next claim must follow.
func (r *Recorder) LastKeyClaim(ctx context.Context, key string) (last Record, end uint64, err error) {
	return r.Log.Latest(ctx, Fact{Key: key})
}

// ClaimKey records that a task is about to be born under a key, if last is the sequence of the key's
// last claim. It returns the sequence; 0 if another claim came first.
func (r *Recorder) ClaimKey(ctx context.Context, key string, holder task.ID, last uint64) (uint64, error) {
	return r.writeKeyClaim(ctx, key, birth.KeyClaimed{Holder: holder}, nil, last)
}

// writeKeyClaim records a claim of a key, to follow the last one, and returns its sequence; 0 if
// another claim came first.
func (r *Recorder) writeKeyClaim(ctx context.Context, key string, e birth.KeyClaimed, by *task.By, last uint64) (uint64, error) {
	claim := r.Fact("", nil)
	claim.Type, claim.Key, claim.By, claim.Event = UniqueClaimed, key, by, e
	chain := Chain[Record, *Fact]{
		Read: func(ctx context.Context, wrote *Fact) (Record, uint64, bool, error) {
			now, end, err := r.LastKeyClaim(ctx, key)
			return now, end, now.Fact.ID == wrote.ID, err
		},
		Write: r.Log.Append, Once: true,
	}
	d, err := chain.DecideFrom(ctx, Record{}, last, func(Record) (*Fact, bool, error) { return claim, true, nil })
	if err != nil || d.Outcome == Lost {
		return 0, recording(claim, err)
	}
	return d.End, nil
}

// claimKey places a record under a unique key and returns its sequence. The error is a [*Taken] if
// another task has the key.
//
// First it writes a claim of the key, by compare-and-set. The record is accepted only while that
// claim is the key's last. So a claim without a record locks nothing, and a later claim keeps out
// all records on their way under earlier ones. After its own claim, a claimant checks the claimants
// before it once more. A task that is alive by then blocks it; a task that is not can come alive
// only by another claim.
func (r *Recorder) claimKey(ctx context.Context, u *underKey) (uint64, error) {
	for {
		next, by, last, err := r.unclaimed(ctx, u)
		if err != nil {
			return 0, err
		}
		seq, err := r.writeKeyClaim(ctx, u.key, next, by, last)
		switch {
		case err != nil:
			return 0, err
		case seq == 0:
			continue
		}
		if taken, err := r.taken(ctx, u, next.Before); err != nil || taken != nil {
			return 0, errors.Join(err, asError(taken))
		}
		at, done, err := r.underClaim(ctx, u, seq)
		if done || err != nil {
			return at, err
		}
	}
}

// underClaim places a record under its claim; false if another task has claimed the key since.
func (r *Recorder) underClaim(ctx context.Context, u *underKey, claim uint64) (at uint64, done bool, err error) {
	type placed struct {
		at    uint64
		never error // why it can never be placed
	}
	chain := Chain[placed, *underKey]{
		Read: func(ctx context.Context, u *underKey) (is placed, end uint64, _ bool, err error) {
			_, end, err = r.LastKeyClaim(ctx, u.key) // first, because nothing is placed under this claim once another follows
			if err != nil {
				return is, 0, false, err
			}
			records, err := r.Log.Task(ctx, u.id)
			if err == nil {
				is.at, is.never = u.placed(records)
			}
			return is, end, is != placed{}, err
		},
		Write: func(_ context.Context, u *underKey, claim uint64) (uint64, error) { return u.place(claim) },
		Once:  true,
	}
	d, err := chain.DecideFrom(ctx, placed{}, claim, func(placed) (*underKey, bool, error) { return u, true, nil })
	switch {
	case d.Outcome == Found:
		return d.Is.at, true, d.Is.never
	case d.Outcome == Recorded:
		return d.End, true, nil
	}
	return 0, false, err
}

// asError is nil for a nil t, and not an interface around it.
func asError(t *Taken) error {
	if t == nil {
		return nil
	}
	return t
}

// unclaimed returns the next claim of the key with its inputs, and the sequence of the last claim,
// if no task blocks the key. It waits for a birth that is about to come.
func (r *Recorder) unclaimed(ctx context.Context, u *underKey) (next birth.KeyClaimed, by *task.By, at uint64, err error) {
	var since time.Time
	for {
		last, end, err := r.LastKeyClaim(ctx, u.key)
		if err != nil {
			return next, nil, 0, err
		}
		claim, ok := last.Fact.Event.(birth.KeyClaimed)
		if !ok {
			return birth.KeyClaimed{Holder: u.id}, nil, end, nil
		}
		known, err := r.claimants(ctx, claim.Holder)
		if err != nil {
			return next, nil, 0, err
		}
		next, taken, more := birth.NextClaim(u.unique, u.id, u.key, last.Original(), known, false, r.Now())
		if !more {
			return next, birth.ClaimedBy(u.unique, known, false), end, asError(u.takenBy(taken))
		}
		// A holder born before its claim wanted to be reopened by it, and may have been refused.
		if now := r.Now(); known[0].Born > 0 {
			since = now.Add(-claimPatience)
		} else if since.IsZero() {
			since = now
		}
		if r.Now().Sub(since) >= claimPatience {
			// The holder is not born, or not yet. An earlier claimant may hold the key.
			before, err := r.claimants(ctx, claim.Before...)
			if err != nil {
				return next, nil, 0, err
			}
			known = append(known, before...)
			next, taken, _ = birth.NextClaim(u.unique, u.id, u.key, last.Original(), known, true, r.Now())
			return next, birth.ClaimedBy(u.unique, known, true), end, asError(u.takenBy(taken))
		}
		pause, over := context.WithTimeout(ctx, claimLook)
		<-pause.Done()
		if over(); ctx.Err() != nil {
			return next, nil, 0, context.Cause(ctx)
		}
	}
}

// claimants returns the present state of tasks that have claimed a key.
func (r *Recorder) claimants(ctx context.Context, ids ...task.ID) ([]birth.Claimant, error) {
	all := make([]birth.Claimant, len(ids))
	for i, id := range ids {
		records, err := r.Log.Task(ctx, id)
		if err != nil {
			return nil, err
		}
		t := FoldTask(id, records)
		key, _ := t.UniqueKey() // a task without a key was not born under this one
		all[i] = birth.Claimant{ID: id, State: t.State, Submitted: t.SubmittedAt, Born: birthIn(records), Seq: t.Seq, Takes: t.Takes(), Key: key}
	}
	return all, nil
}

// taken tells whether one of the claimants blocks the key.
func (r *Recorder) taken(ctx context.Context, u *underKey, claimants []task.ID) (*Taken, error) {
	known, err := r.claimants(ctx, slices.DeleteFunc(slices.Clone(claimants), func(id task.ID) bool { return id == u.id || id == "" })...)
	if err != nil {
		return nil, err
	}
	return u.takenBy(birth.InTheWay(u.unique, u.id, u.key, known, r.Now())), nil
}

func (u *underKey) takenBy(c *birth.Claimant) *Taken {
	if c == nil {
		return nil
	}
	return &Taken{Key: u.key, Holder: c.ID, State: c.State}
}
