package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/task"
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
	unique *task.Unique
	// place records it if the claim with this sequence is the key's last one.
	place func(claim uint64) (uint64, error)
	// placed is its sequence in the history of its task; 0 if it is not there.
	placed func([]Record) uint64
}

// submitUnique records the birth of a task with a unique key. The error is a [*Taken] if another
// one has it.
func (r *Recorder) submitUnique(ctx context.Context, id task.ID, key string, e task.Submitted) (uint64, error) {
	var birth *Fact
	var under uint64
	return r.claim(ctx, &underKey{
		id: id, key: key, unique: &e.Spec.Unique,
		place: func(claim uint64) (uint64, error) {
			if claim != under {
				birth, under = r.Fact(id, e), claim
			}
			return r.Log.PlaceClaimed(ctx, birth, key, claim)
		},
		placed: firstSeq,
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
	placed := func(records []Record) uint64 {
		for i := range records {
			if records[i].Fact.ID == f.ID {
				return records[i].Seq
			}
		}
		return 0
	}
	_, err = r.claim(ctx, &underKey{
		id: t.ID, key: key, unique: &t.Spec.Unique, placed: placed,
		place: func(claim uint64) (uint64, error) {
			// Nobody else can reopen it under this claim, so what is read now stays true.
			records, err := r.Log.Task(ctx, t.ID)
			if at := placed(records); err != nil || at > 0 {
				return at, err
			}
			if _, err := task.Decide(FoldTask(t.ID, records), c, r.Now()); err != nil {
				return 0, err
			}
			return r.Log.AppendClaimed(ctx, f, key, claim)
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
	_, _, err = r.unclaimed(ctx, &underKey{id: t.ID, key: key, unique: &t.Spec.Unique})
	return err
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
		last, before, err := r.unclaimed(ctx, u)
		if err != nil {
			return 0, err
		}
		claim := r.Fact("", nil)
		claim.Type, claim.Key, claim.Event = UniqueClaimed, u.key, task.KeyClaimed{Holder: u.id, Before: before}
		seq, err := r.record(ctx, claim, last, func() (uint64, bool, error) {
			now, _, err := r.Log.Claimed(ctx, u.key)
			return now.Seq, now.Fact.ID == claim.ID, err
		})
		switch {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return 0, fmt.Errorf("record %s: %w", claim.Type, err)
		case seq == 0:
			now, _, err := r.Log.Claimed(ctx, u.key)
			if err != nil {
				return 0, err
			}
			if now.Fact.ID != claim.ID {
				continue
			}
			seq = now.Seq
		}
		if taken, err := r.taken(ctx, u, before); err != nil || taken != nil {
			return 0, errors.Join(err, asError(taken))
		}
		at, err := u.place(seq)
		for errors.Is(err, ErrUnknown) && ctx.Err() == nil {
			at, err = u.place(seq)
		}
		if !errors.Is(err, ErrConflict) {
			return at, err
		}
		// Somebody has claimed it since. An answer may have been lost before that.
		records, err := r.Log.Task(ctx, u.id)
		if at := u.placed(records); err != nil || at > 0 {
			return at, err
		}
	}
}

func firstSeq(records []Record) uint64 {
	if len(records) == 0 {
		return 0
	}
	return records[0].Seq
}

// asError is not nil only if there is something in it.
func asError(t *Taken) error {
	if t == nil {
		return nil
	}
	return t
}

// unclaimed returns the sequence of the key's last claim and the claimants that the next one has to
// name, if nobody is in the way. For a birth that is about to come it waits.
func (r *Recorder) unclaimed(ctx context.Context, u *underKey) (uint64, []task.ID, error) {
	var since time.Time
	for {
		last, found, err := r.Log.Claimed(ctx, u.key)
		if err != nil || !found {
			return 0, nil, err
		}
		claim, ok := last.Fact.Event.(task.KeyClaimed)
		if !ok {
			return last.Seq, nil, nil // rubbish claims nothing
		}
		taken, err := r.taken(ctx, u, []task.ID{claim.Holder})
		if err != nil || taken != nil {
			return 0, nil, errors.Join(err, asError(taken))
		}
		holder, err := r.Log.Task(ctx, claim.Holder)
		if err != nil {
			return 0, nil, err
		}
		born := firstSeq(holder)
		// Who was born before the claim wanted another life by it, and may have been refused that.
		again := born > 0 && born < last.Seq
		if born > 0 && !again || born == 0 && claim.Holder == u.id {
			return last.Seq, []task.ID{claim.Holder}, nil
		}
		if now := r.Now(); again {
			since = now.Add(-claimPatience)
		} else if since.IsZero() {
			since = now
		}
		if r.Now().Sub(since) >= claimPatience {
			// Never born, or not yet; of those before it, one may be.
			taken, err := r.taken(ctx, u, claim.Before)
			if err != nil || taken != nil {
				return 0, nil, errors.Join(err, asError(taken))
			}
			before, err := r.mayLive(ctx, claim.Before)
			return last.Seq, append([]task.ID{claim.Holder}, before...), err
		}
		pause, over := context.WithTimeout(ctx, claimLook)
		<-pause.Done()
		if over(); ctx.Err() != nil {
			return 0, nil, context.Cause(ctx)
		}
	}
}

// mayLive are those of the claimants that may be in the way without another claim: all that have not
// ended, and of the others the first that was born.
func (r *Recorder) mayLive(ctx context.Context, claimants []task.ID) ([]task.ID, error) {
	var list []task.ID
	found := false
	for _, id := range claimants {
		var t task.Task
		born, err := r.read(ctx, id, "", &t)
		if err != nil {
			return nil, err
		}
		if born && (!found || !t.State.Terminal()) {
			list, found = append(list, id), true
		}
	}
	return list, nil
}

// taken looks whether one of the claimants is in the way.
func (r *Recorder) taken(ctx context.Context, u *underKey, claimants []task.ID) (*Taken, error) {
	for _, id := range claimants {
		if id == u.id || id == "" {
			continue
		}
		var t task.Task
		known, err := r.read(ctx, id, "", &t)
		if err != nil {
			return nil, err
		}
		if known && t.Locks(u.unique, r.Now()) {
			return &Taken{Key: u.key, Holder: id, State: t.State}, nil
		}
	}
	return nil, nil
}
