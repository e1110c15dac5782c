package jet

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/task"
	"millrace/task/placement"
)

// Only the node itself reads its own route. A route with one reader needs no lanes in the server:
// the node reads a window ahead, and orders here what it has read, by [placement.Turns]. Offers behind
// the window wait until the window is used up, however urgent they are. A node without a free slot
// asks for no more. What it has read stays with it, for no other node may run it.

const (
	// ownWindow is how many offers of its own route a node reads ahead. When half of them are used
	// it reads on.
	ownWindow = 256
	// settleTime bounds how long the offers already read wait for the rest of the window, so that
	// the most urgent one goes first. The server sends the rest at once; some may be lost with a
	// connection.
	settleTime = 20 * time.Millisecond
)

// stock holds the offers that were read ahead from a source and have not started. It is guarded by
// offers.mu.
type stock struct {
	lanes map[placement.Lane][]*events.Offer
	n     int // how many there are
	// behind is how many offers lay behind the last one when the server sent it.
	behind uint64
	// settling is set while some of those are on their way; no offer is handed out until they are
	// here, or until none has come for settleTime.
	settling *time.Timer
}

func (s *stock) put(l placement.Lane, o *events.Offer) {
	if s.lanes == nil {
		s.lanes = map[placement.Lane][]*events.Offer{}
	}
	s.lanes[l] = append(s.lanes[l], o)
	s.n++
}

// open appends the lanes from which an offer may be handed out.
func (s *stock) open(lanes []placement.Lane) []placement.Lane {
	if s.settling != nil {
		return lanes
	}
	for l := range s.lanes {
		lanes = append(lanes, l)
	}
	return lanes
}

// take removes and returns the oldest offer of a lane.
func (s *stock) take(l placement.Lane) *events.Offer {
	of := s.lanes[l]
	first := of[0]
	if s.n--; len(of) == 1 {
		delete(s.lanes, l)
	} else {
		s.lanes[l] = slices.Delete(of, 0, 1)
	}
	return first
}

// laneIn returns the lane of an offer that was read ahead: its subject gives the priority.
func laneIn(queue string, o *events.Offer) placement.Lane {
	l := placement.Lane{Queue: queue, Priority: placement.DefaultPriority}
	switch e := o.Fact.Event.(type) {
	case task.Submitted:
		l.Number = e.Lane().Number
	case task.Queued:
		l.Number = e.Lane().Number
	case task.Due:
		l.Number = min(max(e.Number, 0), placement.Lanes)
	}
	rest, _ := strings.CutPrefix(o.Place, names.QueuePrefix+queue+".")
	token, _, _ := strings.Cut(rest, ".")
	if p, err := strconv.Atoi(token); err == nil && placement.ValidPriority(p) == nil {
		l.Priority = p
	}
	return l
}

// settle holds back all offers of a source until those on their way are here. The caller holds
// o.mu.
func (o *offers) settle(s *source) {
	s.unsettle()
	s.settling = time.AfterFunc(o.patience, func() { o.settled(s) })
}

// unsettle ends that. If the timer is already firing, it deals a little early.
func (s *stock) unsettle() {
	if s.settling != nil {
		s.settling.Stop()
		s.settling = nil
	}
}

// settled deals the offers that have come.
func (o *offers) settled(s *source) {
	o.mu.Lock()
	hands := o.deal(s)
	changes := o.aim(nil)
	o.mu.Unlock()
	apply(changes)
	give(hands)
}

// keep stores an offer that was read ahead, and deals unless more are on their way. pending is how
// many lie behind it. The caller holds o.mu.
func (o *offers) keep(s *source, offer *events.Offer, pending uint64) []hand {
	s.put(laneIn(s.lane.Queue, offer), offer)
	if s.behind = pending; pending > 0 && s.pulled > 0 {
		o.settle(s)
		return nil
	}
	return o.deal(s)
}

// deal hands out offers that were read ahead to all waiters, since they have found none elsewhere
// so far. The caller holds o.mu.
func (o *offers) deal(s *source) (hands []hand) {
	s.unsettle()
	for len(o.waiting) > 0 && s.n > 0 {
		w := o.remove(len(o.waiting) - 1)
		hands = append(hands, hand{w, o.unstock(s, o.turns.Next(s.open(nil)))})
	}
	return hands
}

// unstock removes and returns the next offer of a lane that was read ahead. The caller holds o.mu.
func (o *offers) unstock(s *source, l placement.Lane) *events.Offer {
	o.took(l)
	offer := s.stock.take(l)
	offer.Lease.(*ownLease).handed()
	return offer
}

// prolong keeps the leases of stocked offers, until the offers are closed.
func (o *offers) prolong() {
	ticker := time.NewTicker(o.store.ackWait / 3)
	defer ticker.Stop()
	for {
		select {
		case <-o.closed:
			return
		case <-ticker.C:
		}
		for _, offer := range o.stocked(false) {
			_ = offer.Prolong() // if this message is lost the offer comes again
		}
	}
}

// stocked returns the offers that were read ahead; with out, it also removes them.
func (o *offers) stocked(out bool) (all []*events.Offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.sources {
		for _, of := range s.lanes {
			all = append(all, of...)
		}
		if out {
			s.unsettle()
			s.stock = stock{}
		}
	}
	return all
}

// doneWith are the sequences of offers that a node has finished, and that its consumer would
// deliver again if it were made again: those above the first one that is still open.
type doneWith struct {
	seqs map[uint64]struct{}
	most int // the size at which it forgets what lies below
}

func (d *doneWith) has(seq uint64) bool {
	_, ok := d.seqs[seq]
	return ok
}

// add records one. Everything below low is finished anyway; add forgets it each time the set has
// doubled.
func (d *doneWith) add(seq, low uint64) {
	if d.seqs == nil {
		d.seqs, d.most = map[uint64]struct{}{}, ownWindow
	}
	if d.seqs[seq] = struct{}{}; len(d.seqs) >= d.most {
		maps.DeleteFunc(d.seqs, func(seq uint64, _ struct{}) bool { return seq < low })
		d.most = max(2*len(d.seqs), ownWindow)
	}
}
