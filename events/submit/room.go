package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/queue"
)

// boundOf returns the queue in which a birth is about to wait, and its bound; 0 for none.
func (d *Maker) boundOf(ctx context.Context, birth *task.Submitted) (queue string, most int, err error) {
	queue = birth.QueueName()
	if _, own := birth.Route.Node(); own || !birth.Offers() {
		return queue, 0, nil // it does not wait in the queue, or not yet
	}
	r := d.rooms()
	r.mu.Lock()
	k, known := r.bounds[queue]
	r.mu.Unlock()
	if known && time.Since(k.at) <= boundFor {
		return queue, k.most, nil
	}
	q, err := d.Rec.LoadQueue(ctx, queue)
	if err != nil {
		return queue, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bounds == nil {
		r.bounds = map[string]bound{}
	}
	r.bounds[queue] = bound{q.MaxWaiting, time.Now(), r.bounds[queue].settled, r.bounds[queue].floor}
	return queue, q.MaxWaiting, nil
}

func full(name string, waiting, most int) error {
	return fmt.Errorf("%w: %s has %d waiting, and at most %d may wait; submit it later, or raise the bound with `millrace queue limit %s --max-waiting N`",
		queue.ErrFull, name, waiting, most, name)
}

// reservationPatience is how long a reservation may lack its births: longer than two requests that
// are lost, each of which costs its submitter 2 s (link.ReadTry). reservationLook is the interval of
// the checks.
const (
	reservationPatience = 5 * time.Second
	reservationLook     = 5 * time.Millisecond
)

// reserve makes room for births in a queue with a bound, and returns for how many of the ids, from
// the first.
//
// Counting and placing are two steps, so several submitters could use the same room. A ledger
// orders them: the chain of a key that no task can have. Each entry names the last task that its
// writer is about to place. The next submitter counts once that task exists, and writes its own
// entry by compare-and-set on that entry, so no task was placed since it counted. The others stop
// waiting for a submitter that pauses more than five seconds between its entry and its births; the
// births that it still places exceed the bound. So may those of two processes that submit without a server, if the NATS
// server counts the first ones late; a desk knows its own.
//
// Call over when the births are placed, or are known not to be: in that case it withdraws the
// entry, so that no submitter waits for them.
func (d *Maker) reserve(ctx context.Context, queue string, most int, ids []task.ID) (n int, over func(ctx context.Context, placed bool), err error) {
	for {
		last, err := d.settled(ctx, queue)
		if err != nil {
			return 0, nil, err
		}
		waiting, handed, err := d.waiting(ctx, queue, most)
		if err != nil {
			return 0, nil, err
		}
		if waiting >= most {
			return 0, nil, full(queue, waiting, most)
		}
		n := min(len(ids), most-waiting)
		entry, err := d.Rec.ClaimKey(ctx, birth.RoomKey(queue), ids[n-1], last)
		if err != nil {
			return 0, nil, err
		}
		if entry > 0 {
			d.raise(queue, floor{entry, time.Now(), waiting + n, handed})
			return n, func(ctx context.Context, placed bool) { d.over(ctx, queue, entry, placed) }, nil
		}
	}
}

// waiting counts the tasks that wait in a queue, those that this desk has just placed included.
func (d *Maker) waiting(ctx context.Context, queue string, most int) (n int, handed uint64, err error) {
	if n, handed, err = d.Store.Waiting(ctx, queue, most); err != nil {
		return 0, 0, err
	}
	r := d.rooms()
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.bounds[queue].floor; time.Since(f.at) < reservationPatience && handed >= f.handed {
		n = max(n, f.waiting-int(handed-f.handed))
	}
	return n, handed, nil
}

func (d *Maker) raise(queue string, f floor) {
	r := d.rooms()
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.bounds[queue]; b.floor.entry < f.entry {
		b.floor = f
		r.bounds[queue] = b
	}
}

// over ends a reservation.
func (d *Maker) over(ctx context.Context, queue string, entry uint64, placed bool) {
	if !placed {
		// If that fails, the others wait as after the death of this process.
		entry, _ = d.Rec.ClaimKey(ctx, birth.RoomKey(queue), "", entry)
	}
	r := d.rooms()
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bounds[queue]
	if !placed && b.floor.entry <= entry {
		b.floor = floor{}
	}
	b.settled = max(b.settled, entry)
	r.bounds[queue] = b
}

// settled returns the sequence that the next entry of a queue's ledger must follow, once the births
// of the last entry exist, or the wait for them has ended.
func (d *Maker) settled(ctx context.Context, queue string) (uint64, error) {
	var at uint64
	var since time.Time
	for {
		last, end, err := d.Rec.LastKeyClaim(ctx, birth.RoomKey(queue))
		if err != nil {
			return 0, err
		}
		claim, ok := last.Fact.Event.(birth.KeyClaimed)
		if !ok || claim.Holder == "" {
			return end, nil // there is none, or it was withdrawn
		}
		r := d.rooms()
		r.mu.Lock()
		own := r.bounds[queue].settled
		r.mu.Unlock()
		if last.Seq == own {
			return end, nil
		}
		t, err := d.Rec.Load(ctx, claim.Holder)
		if err != nil && !errors.Is(err, task.ErrUnknown) {
			return 0, err
		}
		if t.State != task.Unknown && (t.State != task.Pending || t.Offered) {
			return end, nil
		}
		if last.Seq != at {
			at, since = last.Seq, time.Now()
		}
		if time.Since(since) >= reservationPatience {
			return end, nil
		}
		pause, over := context.WithTimeout(ctx, reservationLook)
		<-pause.Done()
		if over(); ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}
