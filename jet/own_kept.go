package jet

import (
	"slices"
	"time"

	"millrace/events"
)

// A node proves itself by pulling from the plain lane of its own route. What comes first is what
// waits there, and not the probe behind it. If the route has special lanes, it is perhaps not that
// offer's turn: handed to whoever asks another lane it would run too soon, and given back it
// would be missing in its lane when its turn comes. So it is kept here until a place is free for that lane.

// keepTime bounds how long an offer is kept that nobody has a place for. It goes back then, so that
// the server need not wait for its lease if this process dies.
const keepTime = 5 * time.Second

// keep keeps an offer that came unasked until its lane has its turn. The caller holds o.mu.
func (o *offers) keep(from *source, offer *events.Offer) {
	from.kept = append(from.kept, offer)
	from.empty = false
	time.AfterFunc(min(keepTime, o.store.ackWait/3), func() {
		o.mu.Lock()
		i := slices.Index(from.kept, offer)
		if i >= 0 {
			from.kept = slices.Delete(from.kept, i, i+1)
		}
		o.mu.Unlock()
		if i >= 0 && !from.own.reclaims() { // until then it would come again before what is reclaimed
			_ = offer.Return() // else the lease runs out
		}
	})
}

// unkeep takes out what was kept for a lane that has its turn; nil if nothing was. The caller
// holds o.mu.
func (o *offers) unkeep(s *source) *events.Offer {
	if s == nil || len(s.kept) == 0 {
		return nil
	}
	offer := s.kept[0]
	s.kept = s.kept[1:]
	o.came(s, 1, true) // there may be more: whoever asks is told
	return offer
}

// giveBack returns what is kept of a source from which nothing more is pulled.
func (o *offers) giveBack(s *source) {
	o.mu.Lock()
	kept := s.kept
	s.kept = nil
	o.mu.Unlock()
	for _, offer := range kept {
		_ = offer.Return() // else the lease runs out
	}
}
