package verify

import (
	"hash/maphash"
	"iter"

	"github.com/oklog/ulid/v2"

	"millrace/history/verify/findings"
)

// packedTasks are the tasks of which little must be kept: those that have ended, and those that
// wait since their birth. A log has millions of them, so their common fields lie in pages without
// pointers, which the garbage collector need not scan.
type packedTasks struct {
	seed maphash.Seed
	// slots find the place of a task by its id: a power of two, at most three quarters of them used.
	// Each holds a place plus one; 0 is free. A task keeps its place while it is not packed, so no
	// slot is ever freed. A search mostly takes one access to memory here, and one to the place.
	slots  []uint32
	pages  [][]packed
	places uint32             // how many are taken
	size   int                // how many of those are packed
	odd    map[ulid.ULID]*odd // only of tasks with such fields
}

// packedPage is how many tasks a page holds.
const packedPage = 1 << 10

// packed is the memory of such a task.
type packed struct {
	id ulid.ULID
	core
	brief
	away bool // the task is not packed at present
	own  bool // its attempt ended by its own report
	odd  bool // it has an entry in odd
}

// odd holds the fields that few of them have.
type odd struct {
	rest
	limit  findings.Bounds
	kin    kin
	made   *made   // nil for a function without steps
	other  uint32  // the spec for repeated decisions; 0 for its own
	course *course // nil for one turn since the birth with at most one attempt
}

// course are the turns and attempts of a task with several.
type course struct {
	turns    []turn
	attempts []attempt
}

func newPackedTasks() packedTasks {
	return packedTasks{seed: maphash.MakeSeed(), slots: make([]uint32, 1<<10), odd: map[ulid.ULID]*odd{}}
}

// packs tells whether packedTasks can keep the story: its task has ended, and the fold agrees, or
// it waits for the first claim under its first offer, and no limit counts it.
func (s *story) packs() bool {
	if s.lone || s.now.attempt != s.attempt || s.now.turn != s.turn {
		return false
	}
	if s.end != 0 {
		return s.now.state.Terminal()
	}
	return s.born && s.undue && s.turn == 0 && s.attempt == 0 && len(s.turns) == 0 && len(s.attempts) == 0 &&
		len(s.offers) == 1 && s.offers[0] == offer{seq: s.bornAt} && s.byOthers && len(s.limit) == 0 &&
		s.open == 0 && s.openOffer == 0 && s.openOn == findings.Session{} && s.held == 0 && !s.asked && !s.result && s.granted == 0 && s.rated == 0 &&
		s.repeated == 0 && s.rivals == nil && s.reborn == nil && !s.cut
}

func (t *packedTasks) at(place uint32) *packed { return &t.pages[place/packedPage][place%packedPage] }

// slot returns the slot of a task, or the free one where it would be.
func (t *packedTasks) slot(id ulid.ULID) *uint32 {
	mask := uint64(len(t.slots) - 1)
	for i := maphash.Bytes(t.seed, id[:]) & mask; ; i = (i + 1) & mask {
		if at := &t.slots[i]; *at == 0 || t.at(*at-1).id == id {
			return at
		}
	}
}

// place returns the place of a task; false if it has none.
func (t *packedTasks) place(id ulid.ULID) (place uint32, taken bool) {
	at := *t.slot(id)
	return at - 1, at != 0
}

// get returns a packed task, valid until the next put or drop; nil if it is missing.
func (t *packedTasks) get(id ulid.ULID) *packed {
	if place, taken := t.place(id); taken && !t.at(place).away {
		return t.at(place)
	}
	return nil
}

// all iterates over all of them, in no order.
func (t *packedTasks) all() iter.Seq2[ulid.ULID, *packed] {
	return func(yield func(ulid.ULID, *packed) bool) {
		for place := range t.places {
			if e := t.at(place); !e.away && !yield(e.id, e) {
				return
			}
		}
	}
}

// spot is where the story of a task is packed, or would be.
type spot struct {
	key   ulid.ULID
	fits  bool   // the id of the task has a key
	taken bool   // the task has a place,
	place uint32 // this one
}

// assign gives a place to a task that has none.
func (t *packedTasks) assign(id ulid.ULID) (place uint32) {
	place = t.places
	if t.places++; place%packedPage == 0 {
		t.pages = append(t.pages, make([]packed, packedPage))
	}
	t.at(place).id, t.at(place).away = id, true
	if 4*int(t.places) > 3*len(t.slots) {
		t.slots = make([]uint32, 2*len(t.slots))
		for p := range place {
			*t.slot(t.at(p).id) = p + 1
		}
	}
	*t.slot(id) = place + 1
	return place
}

// drop forgets a story that was packed.
func (t *packedTasks) drop(s *story) {
	if !s.spot.taken {
		return
	}
	if e := t.at(s.spot.place); !e.away {
		*e = packed{id: e.id, away: true}
		delete(t.odd, e.id)
		t.size--
	}
}

// put keeps a story that fits, and for which [story.packs] holds.
func (t *packedTasks) put(s *story) {
	key := s.spot.key
	if !s.spot.taken {
		s.spot.place, s.spot.taken = t.assign(key), true
	}
	was := t.at(s.spot.place)
	if was.away {
		t.size++
	}
	e := packed{id: key, core: s.now.core, brief: s.brief}
	simple := len(s.turns) == 0 && len(s.attempts) <= 1
	if simple && len(s.attempts) == 1 {
		a := s.attempts[0]
		e.own = a.own
		simple = a.epoch == s.now.epoch && a.number == s.now.attempt && a.on == s.now.node
	}
	if e.odd = !simple || len(s.limit) > 0 || !s.kin.none() || s.other != 0 || s.made != nil || s.now.rest != (rest{}); e.odd {
		o := &odd{rest: s.now.rest, limit: s.limit, kin: s.kin, made: s.made, other: s.other}
		if !simple {
			o.course = &course{turns: s.turns, attempts: s.attempts}
		}
		t.odd[key] = o
	} else if was.odd {
		delete(t.odd, key)
	}
	*was = e
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
	place, taken := t.place(key)
	if s.spot = (spot{key, fits, fits && taken, place}); !s.spot.taken || t.at(place).away {
		return false
	}
	e := t.at(place)
	s.now, s.brief, s.attempt, s.turn = t.folded(key, e), e.brief, e.attempt, e.turn
	var o odd
	if e.odd {
		o = *t.odd[key]
	}
	s.limit, s.kin, s.made, s.other = o.limit, o.kin, o.made, o.other
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
