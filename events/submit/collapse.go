package submit

import (
	"context"
	"errors"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
)

// joined is the task that this process last made or joined under a key. It may have moved on.
type joined struct {
	turn chan struct{} // whoever has sent into it has the rest, so that one after the other joins without a read
	task task.Task
}

// mostJoined is how many keys a desk remembers. A forgotten one costs a read.
const mostJoined = 1024

// joinedBy returns what is remembered of a key.
func (r *rooms) joinedBy(key string) *joined {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.joined[key]
	if j == nil {
		if len(r.joined) >= mostJoined || r.joined == nil {
			r.joined = map[string]*joined{}
		}
		j = &joined{turn: make(chan struct{}, 1)}
		r.joined[key] = j
	}
	return j
}

// fullLook is the interval of the checks whether the time of a task that is full has come.
const fullLook = 20 * time.Millisecond

// collapse has a waiting task with the key of a birth stand for that, too, or records the birth if there
// is none. An id that others may ask for again makes no second task, and joins one task only: as long as
// the log keeps the task that has joined it and no other has taken the key after that.
func (d *Maker) collapse(ctx context.Context, n *Newborn) (Receipt, error) {
	key, err := n.Birth.UniqueKey()
	if err != nil {
		return Receipt{}, err
	}
	if n.look = !n.drawn(); n.look {
		err := d.Rec.Unborn(ctx, n.ID)
		if _, is := errors.AsType[*events.Exists](err); is {
			return d.Bear(ctx, n) // which tells whether it is the same
		}
		if err != nil {
			return Receipt{}, err
		}
	}
	j := d.rooms().joinedBy(key)
	select {
	case j.turn <- struct{}{}:
	case <-ctx.Done():
		return Receipt{}, context.Cause(ctx)
	}
	defer func() { <-j.turn }()
	for {
		if j.task.State == task.Unknown {
			if err := d.holding(ctx, key, &j.task); err != nil {
				return Receipt{}, err
			}
		}
		r, done, err := d.join(ctx, n, &j.task)
		if done || err != nil {
			return r, err
		}
		if r, err = d.Bear(ctx, n); err == nil && !r.Again {
			return r, d.Rec.LoadInto(ctx, n.ID, &j.task)
		}
		taken, is := errors.AsType[*events.Taken](err)
		if !is {
			return r, err
		}
		if taken.Holder == j.task.ID { // it is full by the clock of another server, and soon by this one's
			pause, over := context.WithTimeout(ctx, fullLook)
			<-pause.Done()
			over()
		}
		if ctx.Err() != nil {
			return Receipt{}, context.Cause(ctx)
		}
		j.task = task.Task{}
	}
}

// holding reads the task that has claimed a key last; nothing if there is none.
func (d *Maker) holding(ctx context.Context, key string, t *task.Task) error {
	last, _, err := d.Rec.LastKeyClaim(ctx, key)
	claim, ok := last.Fact.Event.(birth.KeyClaimed)
	if err != nil || !ok {
		return err
	}
	for _, id := range slices.Concat([]task.ID{claim.Holder}, claim.Before) {
		if err = d.Rec.LoadInto(ctx, id, t); !errors.Is(err, task.ErrUnknown) {
			return err
		}
	}
	return nil
}

// join has a task stand for a birth, too. False if it takes no more.
func (d *Maker) join(ctx context.Context, n *Newborn, t *task.Task) (Receipt, bool, error) {
	c := task.Collapse{Params: n.Birth.Params}
	if n.look {
		c.Of = n.ID
	}
	if t.State == task.Unknown {
		return Receipt{}, false, nil
	}
	_, err := d.Rec.Move(ctx, t, c)
	switch {
	case errors.Is(err, task.ErrNotWaiting), errors.Is(err, task.ErrEnded), errors.Is(err, task.ErrUnknown):
		return Receipt{}, false, nil
	case err == nil:
		err = d.Rec.Settle(ctx, t)
	}
	return Receipt{ID: t.ID, Seq: t.Seq, Existing: true}, true, err
}
