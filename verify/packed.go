package verify

import (
	"iter"

	"github.com/oklog/ulid/v2"

	"millrace/verify/limits"
	"millrace/verify/thin"
)

// packedTasks are the tasks of which little must be kept: those that have ended, and those that
// wait since their birth. A log has millions of them, so their common fields lie in pages without
// pointers, which the garbage collector need not scan.
type packedTasks struct {
	places map[ulid.ULID]uint32
	pages  [][]packed
	free   []uint32           // unused places
	odd    map[ulid.ULID]*odd // only of tasks with such fields
}

// packedPage is how many tasks a page holds.
const packedPage = 1 << 10

// packed is the memory of such a task.
type packed struct {
	core
	end, bornAt                           uint64 // end is 0 for a task that waits
	birth                                 wish
	key, job                              thin.Word
	size                                  uint32
	told                                  uint16
	born, undue, seen, own, finished, old bool
	child                                 bool
	odd                                   bool // it has an entry in odd
}

// odd holds the fields that few of them have.
type odd struct {
	rest
	limit  limits.Bounds
	kin    kin
	course *course // nil for one turn since the birth with at most one attempt
}

// course are the turns and attempts of a task with several.
type course struct {
	turns    []turn
	attempts []attempt
}

func newPackedTasks() packedTasks {
	return packedTasks{places: map[ulid.ULID]uint32{}, odd: map[ulid.ULID]*odd{}}
}

// packs tells whether packedTasks can keep the story: its task has ended, and the fold agrees, or
// it waits for the first claim under its first offer, and no limit counts it.
func (s *story) packs() bool {
	if s.now.attempt != s.attempt || s.now.turn != s.turn {
		return false
	}
	if s.end != 0 {
		return s.now.state.Terminal()
	}
	return s.born && s.undue && s.turn == 0 && s.attempt == 0 && len(s.turns) == 0 && len(s.attempts) == 0 &&
		len(s.offers) == 1 && s.offers[0] == offer{seq: s.bornAt} && s.byOthers && len(s.limit) == 0 &&
		s.open == 0 && s.openOffer == 0 && s.openOn == limits.Session{} && s.held == 0 && !s.asked && !s.result &&
		s.repeated == 0 && s.rivals == nil && s.reborn == nil && s.other == 0 && !s.cut
}

func (t *packedTasks) at(place uint32) *packed { return &t.pages[place/packedPage][place%packedPage] }

// get returns a packed task, valid until the next put or drop; nil if it is missing.
func (t *packedTasks) get(key ulid.ULID) *packed {
	place, ok := t.places[key]
	if !ok {
		return nil
	}
	return t.at(place)
}

// all iterates over all of them, in no order.
func (t *packedTasks) all() iter.Seq2[ulid.ULID, *packed] {
	return func(yield func(ulid.ULID, *packed) bool) {
		for key, place := range t.places {
			if !yield(key, t.at(place)) {
				return
			}
		}
	}
}

// spot is where the story of a task is packed, or would be.
type spot struct {
	key   ulid.ULID
	fits  bool   // the id of the task has a key
	taken bool   // the task is packed,
	place uint32 // here
}

// assign returns a place for a task that has none.
func (t *packedTasks) assign(key ulid.ULID) (place uint32) {
	if n := len(t.free); n > 0 {
		place, t.free = t.free[n-1], t.free[:n-1]
	} else {
		place = uint32(len(t.places)) // #nosec G115 -- so many do not fit into memory
		if place%packedPage == 0 {
			t.pages = append(t.pages, make([]packed, packedPage))
		}
	}
	t.places[key] = place
	return place
}

// drop forgets a story that was packed.
func (t *packedTasks) drop(s *story) {
	if s.spot.taken {
		delete(t.places, s.spot.key)
		delete(t.odd, s.spot.key)
		t.free = append(t.free, s.spot.place)
		s.spot.taken = false
	}
}

// put keeps a story that fits, and for which [story.packs] holds.
func (t *packedTasks) put(s *story) {
	key := s.spot.key
	if !s.spot.taken {
		s.spot.place, s.spot.taken = t.assign(key), true
	}
	e := packed{
		core: s.now.core, end: s.end, told: s.told, key: s.key, job: s.job, bornAt: s.bornAt, birth: s.birth,
		born: s.born, undue: s.undue, seen: s.seen, finished: s.result, old: s.old, size: s.size, child: s.child,
	}
	simple := len(s.turns) == 0 && len(s.attempts) <= 1
	if simple && len(s.attempts) == 1 {
		a := s.attempts[0]
		e.own = a.own
		simple = a.epoch == s.now.epoch && a.number == s.now.attempt && a.on == s.now.node
	}
	if e.odd = !simple || len(s.limit) > 0 || !s.kin.none() || s.now.rest != (rest{}); e.odd {
		o := &odd{rest: s.now.rest, limit: s.limit, kin: s.kin}
		if !simple {
			o.course = &course{turns: s.turns, attempts: s.attempts}
		}
		t.odd[key] = o
	} else {
		delete(t.odd, key)
	}
	*t.at(s.spot.place) = e
}

// folded returns the fold of a packed task.
func (t *packedTasks) folded(key ulid.ULID, e *packed) folded {
	f := folded{core: e.core}
	if e.odd {
		f.rest = t.odd[key].rest
	}
	return f
}

// unpack makes a blank story with an id that of the packed task with that id, if there is one; it
// is the reverse of put.
func (t *packedTasks) unpack(s *story) bool {
	key, fits := keyOf(s.id)
	place, taken := t.places[key]
	if s.spot = (spot{key, fits, fits && taken, place}); !s.spot.taken {
		return false
	}
	e := t.at(place)
	s.now, s.end, s.told, s.attempt, s.turn = t.folded(key, e), e.end, e.told, e.attempt, e.turn
	s.born, s.undue, s.seen, s.result, s.old = e.born, e.undue, e.seen, e.finished, e.old
	s.key, s.job, s.bornAt, s.birth, s.size, s.child = e.key, e.job, e.bornAt, e.birth, e.size, e.child
	var o odd
	if e.odd {
		o = *t.odd[key]
	}
	s.limit, s.kin = o.limit, o.kin
	switch {
	case o.course != nil:
		s.turns, s.attempts = o.course.turns, o.course.attempts
	case e.end == 0:
		s.byOthers, s.offers = true, append(s.offers, offer{seq: e.bornAt})
	case e.epoch > 0:
		s.attempts = []attempt{{epoch: e.epoch, number: e.attempt, on: e.node, own: e.own}}
	}
	return true
}
