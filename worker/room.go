package worker

import (
	"context"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
)

// room makes room for tasks that take more than one slot. The slot that serves such a task waits
// until enough other slots are idle, and they stay idle until the task has ended. While room is
// being made, every slot that becomes free stays idle, whatever else is waiting: so a stream of
// small tasks cannot starve a large one.
type room struct {
	mu     sync.Mutex
	making *making // guarded by mu; nil while no slot waits for room
}

// making is the room that is being made for one task.
type making struct {
	lack  int           // guarded by room.mu; how many more slots must become idle
	full  chan struct{} // closed when there are enough
	ended chan struct{} // closed when the idle slots may go on
}

// make begins to make room of n more slots; nil if another slot is making room already.
func (r *room) make(n int) *making {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.making != nil {
		return nil
	}
	r.making = &making{lack: n, full: make(chan struct{}), ended: make(chan struct{})}
	return r.making
}

// end lets the slots go on.
func (r *room) end(m *making) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.making == m {
		r.making = nil
	}
	close(m.ended)
}

// stand keeps a free slot idle while room is being made, and until the large task has ended.
func (r *room) stand(ctx context.Context) {
	r.mu.Lock()
	m := r.making
	if m != nil {
		if m.lack--; m.lack == 0 {
			r.making = nil
			close(m.full)
		}
	}
	r.mu.Unlock()
	if m == nil {
		return
	}
	select {
	case <-m.ended:
	case <-ctx.Done():
	}
}

// Times of making room.
const (
	roomMoment = 100 * time.Millisecond // slots that wait for offers become idle within that
	roomLook   = 2 * time.Second        // how often the slot checks whether the task still waits
	roomFetch  = 5 * time.Second        // how long its offer, once given back, may take to return
)

// serveLarge serves an offer of a task that takes several slots. If there is no room at once, the
// worker gives the offer back, for another worker that has room, makes room here meanwhile, and
// then fetches it again. On the node's own route no other worker could take the offer, so there it
// keeps it.
func (w *Worker) serveLarge(pulling, attempts context.Context, offer *events.Offer, cost int) {
	if w.leases.redelivered(offer, time.Now()) {
		return
	}
	_, own := offer.Route().Node()
	m := w.room.make(cost - 1)
	for own && m == nil { // one after the other
		if !w.holdFor(pulling, offer, w.ackWait/3) {
			return
		}
		m = w.room.make(cost - 1)
	}
	if m == nil {
		w.passOn(pulling, offer)
		return
	}
	defer w.room.end(m)
	w.gate.kick()
	moment := time.NewTimer(roomMoment)
	defer moment.Stop()
	select {
	case <-m.full:
		w.serve(attempts, offer)
		return
	case <-pulling.Done():
	case <-moment.C:
	}
	for own {
		select {
		case <-m.full:
			w.serve(attempts, offer)
			return
		default:
			if !w.holdFor(pulling, offer, roomMoment) {
				return
			}
		}
	}
	if !w.passOn(pulling, offer) || !w.awaitRoom(pulling, m, offer) {
		return
	}
	if again := w.fetchAgain(pulling, offer); again != nil {
		w.serve(attempts, again)
	}
}

// passOn gives back an offer for which there is no room here, for another worker. It returns false
// if the task runs already: then the offer came too early, and rests instead of going round. It also
// does if that cannot be read, as when the worker ends.
func (w *Worker) passOn(pulling context.Context, offer *events.Offer) bool {
	rests, err := w.protocol.Rests(pulling, offer)
	if !rests {
		_ = offer.Return() // else it is delivered again when its lease has expired
	}
	return !rests && err == nil
}

// holdFor keeps the lease of an offer for a while. It returns false, and gives the offer back, if
// the lease cannot be kept or the worker ends.
func (w *Worker) holdFor(pulling context.Context, offer *events.Offer, d time.Duration) bool {
	sleep(pulling, d)
	if pulling.Err() != nil {
		_ = offer.Return()
		return false
	}
	if err := offer.Extend(pulling); err != nil {
		w.log.Warn("an offer that waits for room was lost; it comes again", "error", err)
		_ = offer.Return() // it may still be here
		return false
	}
	return true
}

// awaitRoom waits until there is room; false if the task no longer waits.
func (w *Worker) awaitRoom(pulling context.Context, m *making, offer *events.Offer) bool {
	look := time.NewTicker(roomLook)
	defer look.Stop()
	for {
		select {
		case <-m.full:
			return true
		case <-pulling.Done():
			return false
		case <-look.C:
			t, err := w.protocol.Recorder.Load(pulling, offer.Fact.Task)
			if err == nil && (t.State != task.Pending || t.Route != offer.Route()) {
				return false
			}
		}
	}
}

// fetchAgain takes an offer of the same kind, now that there is room; nil if none comes soon.
func (w *Worker) fetchAgain(pulling context.Context, offer *events.Offer) *events.Offer {
	open, ok := w.gate.enter(pulling)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(open, roomFetch)
	defer cancel()
	offers, err := w.offers.Offers(ctx, []string{offer.Route().Queue()})
	if err != nil {
		w.log.Warn("there is room for a large task, and its route cannot be had", "error", err)
		return nil
	}
	defer offers.Close()
	again, err := offers.Next(ctx)
	if err != nil {
		return nil // another worker has it
	}
	return again
}
