package jet

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/jet/wire"
	"millrace/task"
	"millrace/task/where"
)

// A node alone reads its own route. What has one reader needs no lanes in the server: the node reads a window
// ahead, and orders here what it has read, as [where.Turns] says. What lies behind the window
// waits until that is used up, however urgent it is. A node on which no place is free asks for no
// more. What it has read stays with it, for nobody else may run it.

const (
	// ownWindow is how many offers of its own route a node reads ahead. With half of them it reads on.
	ownWindow = 256
	// settleTime bounds how long what was read waits for the next of what lies behind it in the window, so that
	// the most urgent of all goes first. The server sends it at once; some may be lost with a connection.
	settleTime = 20 * time.Millisecond
)

// stock is what was read ahead of a source and not started yet. It is guarded by offers.mu.
type stock struct {
	lanes map[where.Lane][]*events.Offer
	n     int // how many there are
	// behind is how many lay behind the last that came, when the server sent that.
	behind uint64
	// settling is whether some of those are on their way; nothing is handed out until they are here,
	// or until none has come for that long.
	settling *time.Timer
}

func (s *stock) put(l where.Lane, o *events.Offer) {
	if s.lanes == nil {
		s.lanes = map[where.Lane][]*events.Offer{}
	}
	s.lanes[l] = append(s.lanes[l], o)
	s.n++
}

// open appends the lanes from which something may be handed out.
func (s *stock) open(lanes []where.Lane) []where.Lane {
	if s.settling != nil {
		return lanes
	}
	for l := range s.lanes {
		lanes = append(lanes, l)
	}
	return lanes
}

// take takes out the oldest of a lane.
func (s *stock) take(l where.Lane) *events.Offer {
	of := s.lanes[l]
	first := of[0]
	if s.n--; len(of) == 1 {
		delete(s.lanes, l)
	} else {
		s.lanes[l] = slices.Delete(of, 0, 1)
	}
	return first
}

// laneIn is where an offer that was read ahead stands: the priority is that of its subject.
func laneIn(queue string, o *events.Offer) where.Lane {
	l := where.Lane{Queue: queue, Priority: where.DefaultPriority}
	switch e := o.Fact.Event.(type) {
	case task.Submitted:
		l.Number = e.Lane().Number
	case task.Queued:
		l.Number = e.Lane().Number
	case task.Due:
		l.Number = min(max(e.Number, 0), where.Lanes)
	}
	rest, _ := strings.CutPrefix(o.Place, wire.QueuePrefix+queue+".")
	token, _, _ := strings.Cut(rest, ".")
	if p, err := strconv.Atoi(token); err == nil && where.ValidPriority(p) == nil {
		l.Priority = p
	}
	return l
}

// settle lets nothing of a source be handed out until what is on its way is here. The caller holds o.mu.
func (o *offers) settle(s *source) {
	s.unsettle()
	s.settling = time.AfterFunc(o.patience, func() { o.settled(s) })
}

// unsettle lets it be handed out. If the call of the timer is under way, that deals a little early.
func (s *stock) unsettle() {
	if s.settling != nil {
		s.settling.Stop()
		s.settling = nil
	}
}

// settled deals what has come.
func (o *offers) settled(s *source) {
	o.mu.Lock()
	hands := o.deal(s)
	changes := o.aim(nil)
	o.mu.Unlock()
	apply(changes)
	give(hands)
}

// keep takes what was read ahead, and deals unless more is on its way. Behind it are so many more. The caller holds o.mu.
func (o *offers) keep(s *source, offer *events.Offer, pending uint64) []hand {
	s.put(laneIn(s.lane.Queue, offer), offer)
	if s.behind = pending; pending > 0 && s.pulled > 0 {
		o.settle(s)
		return nil
	}
	return o.deal(s)
}

// deal takes out those who get an offer that was read ahead now: all who wait, for they have found nothing
// elsewhere, or not yet. The caller holds o.mu.
func (o *offers) deal(s *source) (hands []hand) {
	s.unsettle()
	for len(o.waiting) > 0 && s.n > 0 {
		w := o.remove(len(o.waiting) - 1)
		hands = append(hands, hand{w, o.unstock(s, o.turns.Next(s.open(nil)))})
	}
	return hands
}

// unstock takes out the next of a lane that was read ahead. The caller holds o.mu.
func (o *offers) unstock(s *source, l where.Lane) *events.Offer {
	o.took(l)
	offer := s.stock.take(l)
	offer.Lease.(*ownLease).handed()
	return offer
}

// prolong keeps the leases of what is in stock, until the offers are closed.
func (o *offers) prolong() {
	tick := time.NewTicker(o.store.ackWait / 3)
	defer tick.Stop()
	for {
		select {
		case <-o.closed:
			return
		case <-tick.C:
		}
		for _, offer := range o.stocked(false) {
			_ = offer.Prolong() // it comes again if the word is lost
		}
	}
}

// stocked returns what was read ahead, and takes it out if the offers are closed.
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

// doneWith are sequences of offers that a node is done with, and that its consumer would offer again if
// it were made again: those above the first that is still open.
type doneWith struct {
	seqs map[uint64]struct{}
	most int // with how many it forgets what lies below
}

func (d *doneWith) has(seq uint64) bool {
	_, ok := d.seqs[seq]
	return ok
}

// add notes one. All below low is done with anyway, and is forgotten each time that there are twice as many.
func (d *doneWith) add(seq, low uint64) {
	if d.seqs == nil {
		d.seqs, d.most = map[uint64]struct{}{}, ownWindow
	}
	if d.seqs[seq] = struct{}{}; len(d.seqs) >= d.most {
		maps.DeleteFunc(d.seqs, func(seq uint64, _ struct{}) bool { return seq < low })
		d.most = max(2*len(d.seqs), ownWindow)
	}
}
