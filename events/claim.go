package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/job"
)

// Taken refuses a submission: another task with its unique key is in the way.
type Taken struct {
	Key    string
	Holder task.ID
	// State is that of the holder.
	State task.State
}

func (e *Taken) Error() string {
	return fmt.Sprintf("unique key %q: task %s has it and is %s", e.Key, e.Holder, e.State)
}

// claimPatience is how long a claim may be without the birth that is to follow it before
// somebody else takes the key over, and claimLook how often that is looked at.
const (
	claimPatience = 2 * time.Second
	claimLook     = 10 * time.Millisecond
)

// underKey is a record that is taken only under a claim of a unique key: a birth, or a reopening.
type underKey struct {
	id     task.ID
	key    string
	unique *job.Unique
	// place records it if the claim with this sequence is the key's last one.
	place func(claim uint64) (uint64, error)
	// placed is its sequence in the history of its task; 0 if it is not there. An error says that it
	// never will be.
	placed func([]Record) (uint64, error)
}

// submitUnique records the birth of a task with a unique key, on the task's chain or not. The error is
// a [*Taken] if another one has it, an [*Exists] if the id has a task.
//
// A message has one expectation, and here that is the key's: the birth is taken while the claim is
// the key's last. For an id that was not drawn for this birth the log is read as well. Behind the
// claim nothing can be born under this key and id any more but by this process; a birth of the same
// id under another key, or none, is the first message of the chain or it does not count.
func (r *Recorder) submitUnique(ctx context.Context, id task.ID, key string, e task.Submitted, chain bool) (uint64, error) {
	var birth *Fact
	var under uint64
	mine := map[string]bool{} // the facts by which it was tried
	placed := func(records []Record) (uint64, error) {
		switch i := Born(records); {
		case i < 0:
			return 0, nil
		case mine[records[i].Fact.ID]:
			return records[i].Seq, nil
		default:
			return 0, &Exists{id, records[i]}
		}
	}
	look := func() (uint64, error) {
		records, err := r.Log.Task(ctx, id)
		if err != nil {
			return 0, err
		}
		return placed(records)
	}
	return r.claim(ctx, &underKey{
		id: id, key: key, unique: &e.Spec.Unique, placed: placed,
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
			return look() // somebody may have been first under another key
		},
	})
}

// reopenUnique gives a task with a unique key another life, as [Recorder.Move] does: it has to get its key
// again. The error is a [*Taken] if another one has it.
func (r *Recorder) reopenUnique(ctx context.Context, t *task.Task, c task.Reopen, key string) (task.Event, error) {
	event, err := t.Decide(c, r.Now())
	if err != nil || event == nil {
		return nil, err
	}
	f := r.Fact(t.ID, event)
	placed := func(records []Record) (uint64, error) { return seqOf(records, f.ID), nil }
	_, err = r.claim(ctx, &underKey{
		id: t.ID, key: key, unique: &t.Spec.Unique, placed: placed,
		place: func(claim uint64) (uint64, error) {
			// Nobody else can reopen it under this claim, so what is read now stays true.
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
	return event, r.LoadInto(ctx, t.ID, t)
}

// Free tells whether a task could get another life as far as its unique key is concerned: if not, the
// error is a [*Taken]. Nothing is claimed by asking.
func (r *Recorder) Free(ctx context.Context, t *task.Task) error {
	key, err := t.UniqueKey()
	if err != nil || key == "" || !t.State.Terminal() {
		return nil
	}
	_, _, _, err = r.unclaimed(ctx, &underKey{id: t.ID, key: key, unique: &t.Spec.Unique})
	return err
}

// FreeFor is [Recorder.Free] for the birth of a task that is about to be.
func (r *Recorder) FreeFor(ctx context.Context, id task.ID, e *task.Submitted) error {
	key, err := e.UniqueKey()
	if err != nil || key == "" {
		return err
	}
	last, found, err := r.LastClaim(ctx, key)
	if err != nil || !found {
		return err
	}
	claim, ok := last.Fact.Event.(task.KeyClaimed)
	if !ok {
		return nil
	}
	taken, err := r.taken(ctx, &underKey{id: id, key: key, unique: &e.Spec.Unique}, append([]task.ID{claim.Holder}, claim.Before...))
	return errors.Join(err, asError(taken))
}

// LastClaim returns the last claim of a unique key; false if there is none.
func (r *Recorder) LastClaim(ctx context.Context, key string) (Record, bool, error) {
	return r.Log.Latest(ctx, Fact{Key: key})
}

// Claim records that a task is about to come under a key, if last is the sequence of the key's last
// claim. It returns the sequence; 0 if another claim has come first.
func (r *Recorder) Claim(ctx context.Context, key string, holder task.ID, last uint64) (uint64, error) {
	return r.writeClaim(ctx, key, task.KeyClaimed{Holder: holder}, nil, last)
}

// writeClaim records a claim of a key at the one before and returns its sequence; 0 if another one
// has come first.
func (r *Recorder) writeClaim(ctx context.Context, key string, e task.KeyClaimed, by *task.By, last uint64) (uint64, error) {
	claim := r.Fact("", nil)
	claim.Type, claim.Key, claim.By, claim.Event = UniqueClaimed, key, by, e
	chain := Chain[Record, *Fact]{
		Read: func(ctx context.Context, wrote *Fact) (Record, uint64, bool, error) {
			now, _, err := r.LastClaim(ctx, key)
			return now, now.Seq, now.Fact.ID == wrote.ID, err
		},
		Write: r.Log.Append, Once: true,
	}
	d, err := chain.DecideFrom(ctx, Record{}, last, func(Record) (*Fact, bool, error) { return claim, true, nil })
	if err != nil || d.Outcome == Lost {
		return 0, recording(claim, err)
	}
	return d.End, nil
}

// claim records something under a unique key and returns its sequence. The error is a [*Taken] if
// another task has the key.
//
// A claim of the key goes first, by compare-and-set; the record is taken only while that claim is
// the key's last one. So a claim that is not followed by it locks nothing, and keeps out
// every one that was on its way under an earlier one. Who claims a key looks again, behind
// its own claim, at the claimants before: what lives by then is in
// the way, and nothing that does not ever will be without another claim.
func (r *Recorder) claim(ctx context.Context, u *underKey) (uint64, error) {
	for {
		next, by, last, err := r.unclaimed(ctx, u)
		if err != nil {
			return 0, err
		}
		seq, err := r.writeClaim(ctx, u.key, next, by, last)
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

// underClaim places a record under a claim, which is that of its own; false if somebody has claimed the key since.
func (r *Recorder) underClaim(ctx context.Context, u *underKey, claim uint64) (at uint64, done bool, err error) {
	type placed struct {
		at    uint64
		never error // why it never will be placed
	}
	chain := Chain[placed, *underKey]{
		Read: func(ctx context.Context, u *underKey) (is placed, end uint64, _ bool, err error) {
			last, _, err := r.LastClaim(ctx, u.key) // first: behind another claim nothing is placed under this one
			if err != nil {
				return is, 0, false, err
			}
			records, err := r.Log.Task(ctx, u.id)
			if err == nil {
				is.at, is.never = u.placed(records)
			}
			return is, last.Seq, is != placed{}, err
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

// asError is not nil only if there is something in it.
func asError(t *Taken) error {
	if t == nil {
		return nil
	}
	return t
}

// unclaimed returns the next claim of the key with what that was decided by, and the sequence of the last one, if nobody
// is in the way. For a birth that is about to come it waits.
func (r *Recorder) unclaimed(ctx context.Context, u *underKey) (next task.KeyClaimed, by *task.By, at uint64, err error) {
	var since time.Time
	for {
		last, found, err := r.LastClaim(ctx, u.key)
		if err != nil {
			return next, nil, 0, err
		}
		claim, ok := last.Fact.Event.(task.KeyClaimed)
		if !found || !ok { // rubbish claims nothing
			return task.KeyClaimed{Holder: u.id}, nil, last.Seq, nil
		}
		known, err := r.claimants(ctx, claim.Holder)
		if err != nil {
			return next, nil, 0, err
		}
		next, taken, more := task.NextClaim(u.unique, u.id, u.key, last.Seq, known, false, r.Now())
		if !more {
			return next, task.ClaimedBy(u.unique, known, false), last.Seq, asError(u.takenBy(taken))
		}
		// Who was born before the claim wanted another life by it, and may have been refused that.
		if now := r.Now(); known[0].Born > 0 {
			since = now.Add(-claimPatience)
		} else if since.IsZero() {
			since = now
		}
		if r.Now().Sub(since) >= claimPatience {
			// Never born, or not yet; of those before it, one may be.
			before, err := r.claimants(ctx, claim.Before...)
			if err != nil {
				return next, nil, 0, err
			}
			known = append(known, before...)
			next, taken, _ = task.NextClaim(u.unique, u.id, u.key, last.Seq, known, true, r.Now())
			return next, task.ClaimedBy(u.unique, known, true), last.Seq, asError(u.takenBy(taken))
		}
		pause, over := context.WithTimeout(ctx, claimLook)
		<-pause.Done()
		if over(); ctx.Err() != nil {
			return next, nil, 0, context.Cause(ctx)
		}
	}
}

// claimants are tasks that have claimed a key, as they are.
func (r *Recorder) claimants(ctx context.Context, ids ...task.ID) ([]task.Claimant, error) {
	all := make([]task.Claimant, len(ids))
	for i, id := range ids {
		records, err := r.Log.Task(ctx, id)
		if err != nil {
			return nil, err
		}
		t := FoldTask(id, records)
		key, _ := t.UniqueKey() // who has none was not born under this one
		all[i] = task.Claimant{ID: id, State: t.State, Submitted: t.SubmittedAt, Born: birthIn(records), Seq: t.Seq, Key: key}
	}
	return all, nil
}

// taken looks whether one of the claimants is in the way.
func (r *Recorder) taken(ctx context.Context, u *underKey, claimants []task.ID) (*Taken, error) {
	known, err := r.claimants(ctx, slices.DeleteFunc(slices.Clone(claimants), func(id task.ID) bool { return id == u.id || id == "" })...)
	if err != nil {
		return nil, err
	}
	return u.takenBy(task.InTheWay(u.unique, u.id, u.key, known, r.Now())), nil
}

func (u *underKey) takenBy(c *task.Claimant) *Taken {
	if c == nil {
		return nil
	}
	return &Taken{Key: u.key, Holder: c.ID, State: c.State}
}
