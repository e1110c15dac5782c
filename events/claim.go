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

// submitUnique records the birth of a task with a unique key. The error is a [*Taken] if another
// one has it.
//
// A claim of the key goes first, by compare-and-set; the birth is taken only while that claim is
// the key's last one. So a claim that is not followed by a birth locks nothing, and keeps out
// every birth that was on its way under an earlier one. Who claims a key looks again, behind
// its own claim, at the claimants before that had not been born: what is born by then is in
// the way, and nothing that is not ever will be.
func (r *Recorder) submitUnique(ctx context.Context, id task.ID, key string, e task.Submitted) (uint64, error) {
	for {
		last, before, err := r.unclaimed(ctx, id, key, &e)
		if err != nil {
			return 0, err
		}
		claim := r.Fact("", nil)
		claim.Type, claim.Key, claim.Event = UniqueClaimed, key, task.KeyClaimed{Holder: id, Before: before}
		seq, err := r.record(ctx, claim, last, func() (uint64, bool, error) {
			now, _, err := r.Log.Claimed(ctx, key)
			return now.Seq, now.Fact.ID == claim.ID, err
		})
		switch {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return 0, fmt.Errorf("record %s: %w", claim.Type, err)
		case seq == 0:
			now, _, err := r.Log.Claimed(ctx, key)
			if err != nil {
				return 0, err
			}
			if now.Fact.ID != claim.ID {
				continue
			}
			seq = now.Seq
		}
		if taken, err := r.taken(ctx, id, key, before, &e); err != nil || taken != nil {
			return 0, errors.Join(err, asError(taken))
		}
		birth := r.Fact(id, e)
		at, err := r.Log.PlaceClaimed(ctx, birth, key, seq)
		for errors.Is(err, ErrUnknown) && ctx.Err() == nil {
			at, err = r.Log.PlaceClaimed(ctx, birth, key, seq)
		}
		if !errors.Is(err, ErrConflict) {
			return at, err
		}
		// Somebody has claimed it since. An answer may have been lost before that.
		records, err := r.Log.Task(ctx, id)
		if err != nil || len(records) > 0 {
			return firstSeq(records), err
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
func (r *Recorder) unclaimed(ctx context.Context, id task.ID, key string, e *task.Submitted) (uint64, []task.ID, error) {
	var since time.Time
	for {
		last, found, err := r.Log.Claimed(ctx, key)
		if err != nil || !found {
			return 0, nil, err
		}
		claim, ok := last.Fact.Event.(task.KeyClaimed)
		if !ok {
			return last.Seq, nil, nil // rubbish claims nothing
		}
		taken, err := r.taken(ctx, id, key, []task.ID{claim.Holder}, e)
		if err != nil || taken != nil {
			return 0, nil, errors.Join(err, asError(taken))
		}
		born, err := r.born(ctx, claim.Holder)
		if err != nil {
			return 0, nil, err
		}
		if born || claim.Holder == id {
			return last.Seq, []task.ID{claim.Holder}, nil
		}
		if now := r.Now(); since.IsZero() {
			since = now
		} else if now.Sub(since) >= claimPatience {
			// Never born, or not yet; of those before it, one may be.
			taken, err := r.taken(ctx, id, key, claim.Before, e)
			if err != nil || taken != nil {
				return 0, nil, errors.Join(err, asError(taken))
			}
			before := []task.ID{claim.Holder}
			for _, earlier := range claim.Before {
				born, err := r.born(ctx, earlier)
				if err != nil {
					return 0, nil, err
				}
				if born {
					before = append(before, earlier)
					break
				}
			}
			return last.Seq, before, nil
		}
		pause, over := context.WithTimeout(ctx, claimLook)
		<-pause.Done()
		if over(); ctx.Err() != nil {
			return 0, nil, context.Cause(ctx)
		}
	}
}

func (r *Recorder) born(ctx context.Context, id task.ID) (bool, error) {
	_, known, err := r.read(ctx, id, "")
	return known, err
}

// taken looks for the first of the claimants that was born, and whether it is in the way.
func (r *Recorder) taken(ctx context.Context, self task.ID, key string, claimants []task.ID, e *task.Submitted) (*Taken, error) {
	for _, id := range claimants {
		if id == self || id == "" {
			continue
		}
		t, known, err := r.read(ctx, id, "")
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		if t.Locks(&e.Spec.Unique, r.Now()) {
			return &Taken{Key: key, Holder: id, State: t.State}, nil
		}
		return nil, nil
	}
	return nil, nil
}
