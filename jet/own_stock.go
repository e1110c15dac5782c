package jet

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
)

// A node alone reads its own route. So that route needs no lanes in the server: the node reads a window
// ahead, and orders here what it has read, as [task.Turns] says. What lies behind the window
// waits until that is used up, however urgent it is. A node on which no place is free asks for no
// more. What it has read stays with it, for nobody else may run it.

const (
	// ownWindow is how many offers of its own route a node reads ahead.
	ownWindow = 256
	// ownLow is with how few of them it reads on.
	ownLow = ownWindow / 2
	// ownSettle bounds how long what was read waits for the next of what lies behind it in the window, so that
	// the most urgent of all goes first. The server sends it at once; some may be lost with a connection.
	ownSettle = 20 * time.Millisecond
)

// stock is what a node has read of its own route and not started yet. It is guarded by offers.mu.
type stock struct {
	lanes map[task.Lane][]*events.Offer
	n     int // how many there are
	ahead int // how many were asked for and have not come
	// behind is how many lay behind the last that came, when the server sent that.
	behind uint64
	// settling is whether some of those are on their way; nothing is handed out until they are here,
	// or until none has come for that long.
	settling *time.Timer
	patience time.Duration
}

func (s *stock) put(l task.Lane, o *events.Offer) {
	if s.lanes == nil {
		s.lanes = map[task.Lane][]*events.Offer{}
	}
	s.lanes[l] = append(s.lanes[l], o)
	s.n++
}

// open appends the lanes from which something may be handed out.
func (s *stock) open(lanes []task.Lane) []task.Lane {
	if s.settling != nil {
		return lanes
	}
	for l := range s.lanes {
		lanes = append(lanes, l)
	}
	return lanes
}

// take takes out the oldest of a lane.
func (s *stock) take(l task.Lane) *events.Offer {
	of := s.lanes[l]
	first := of[0]
	if s.n--; len(of) == 1 {
		delete(s.lanes, l)
	} else {
		s.lanes[l] = slices.Delete(of, 0, 1)
	}
	return first
}

// all returns everything.
func (s *stock) all() []*events.Offer {
	var all []*events.Offer
	for _, of := range s.lanes {
		all = append(all, of...)
	}
	return all
}

// ownLane is where an offer of a node's own route stands: the priority is that of its subject.
func ownLane(queue string, o *events.Offer) task.Lane {
	l := task.Lane{Queue: queue, Priority: task.DefaultPriority}
	switch e := o.Fact.Event.(type) {
	case task.Submitted:
		l.Number = e.Lane().Number
	case task.Queued:
		l.Number = e.Lane().Number
	case task.Due:
		l.Number = min(max(e.Number, 0), task.Lanes)
	}
	rest, _ := strings.CutPrefix(o.Place, queuePrefix+queue+".")
	token, _, _ := strings.Cut(rest, ".")
	if p, err := strconv.Atoi(token); err == nil && task.ValidPriority(p) == nil {
		l.Priority = p
	}
	return l
}

// reach returns how many more offers of the own route are to be asked for while so many wait. The caller
// holds o.mu, and tells the puller when it does not.
func (o *offers) reach(waiting int) (more int) {
	s := &o.stock
	if o.own == nil || waiting == 0 || s.n+s.ahead >= ownLow {
		return 0
	}
	more = ownWindow - s.n - s.ahead
	s.ahead += more
	if s.behind > 0 {
		o.settle()
	}
	return more
}

// settle lets nothing be handed out until what is on its way is here. The caller holds o.mu.
func (o *offers) settle() {
	s := &o.stock
	if s.settling != nil {
		s.settling.Stop() // its call may be under way: then that deals, a little early
	}
	s.settling = time.AfterFunc(s.patience, o.settled)
}

// settled deals what has come.
func (o *offers) settled() {
	o.mu.Lock()
	deal := o.deal()
	o.mu.Unlock()
	deal()
}

// read tells the own route's puller what reach has said.
func (o *offers) read(more int) {
	if more != 0 {
		o.own.pull.want(more)
	}
}

// stockUp takes what has come on the own route. Behind it are so many more.
func (o *offers) stockUp(offer *events.Offer, pending uint64) {
	o.mu.Lock()
	s := &o.stock
	if s.ahead > 0 {
		s.ahead--
		defer o.own.pull.want(-1)
	}
	s.put(ownLane(o.own.lane.Queue, offer), offer)
	if s.behind = pending; pending > 0 && s.ahead > 0 {
		o.settle()
		o.mu.Unlock()
		return
	}
	deal := o.deal()
	o.mu.Unlock()
	deal()
}

// deal takes out those who get an offer of the own route now: all who wait, for they have found nothing
// elsewhere, or not yet. What it returns hands the offers out. The caller holds o.mu.
func (o *offers) deal() func() {
	type hand struct {
		*waiter
		offer *events.Offer
	}
	var hands []hand
	if o.stock.settling != nil {
		o.stock.settling.Stop()
		o.stock.settling = nil
	}
	for len(o.waiting) > 0 && o.stock.n > 0 {
		n := len(o.waiting) - 1
		w := o.waiting[n]
		o.waiting = o.waiting[:n]
		hands = append(hands, hand{w, o.unstock(o.turns.Next(o.stock.open(nil)))})
	}
	more := o.reach(len(o.waiting))
	return func() {
		for _, h := range hands {
			o.want(h.stance, nil, -1)
			h.got <- h.offer
		}
		o.read(more)
	}
}

// unstock takes out the next of a lane of the own route. The caller holds o.mu.
func (o *offers) unstock(l task.Lane) *events.Offer {
	open := o.stock.open(nil)
	for _, s := range o.sources {
		if s.own == nil && !s.empty {
			open = append(open, s.lane)
		}
	}
	o.turns.Took(l, open)
	offer := o.stock.take(l)
	o.own.handed(offer)
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
		o.mu.Lock()
		all := o.stock.all()
		o.mu.Unlock()
		for _, offer := range all {
			_ = offer.Prolong() // it comes again if the word is lost
		}
	}
}

// giveBack returns what is in stock.
func (o *offers) giveBack() {
	o.mu.Lock()
	all := o.stock.all()
	if o.stock.settling != nil {
		o.stock.settling.Stop()
	}
	o.stock = stock{patience: o.stock.patience}
	o.mu.Unlock()
	for _, offer := range all {
		_ = offer.Return() // else the lease runs out
	}
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
