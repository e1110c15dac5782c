package verify

import (
	"iter"

	"github.com/oklog/ulid/v2"

	"millrace/task"
	"millrace/verify/limits"
	"millrace/verify/thin"
)

// endedTasks are the tasks that have ended. A log has millions of them, so their common fields lie
// in pages without pointers, which the garbage collector need not scan.
type endedTasks struct {
	places map[ulid.ULID]uint32
	pages  [][]ended
	free   []uint32           // unused places
	odd    map[ulid.ULID]*odd // only of tasks with such fields
}

// endedPage is how many ended tasks a page holds.
const endedPage = 1 << 10

// ended is the memory of an ended task.
type ended struct {
	core
	end, bornAt                           uint64
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

func newEndedTasks() endedTasks {
	return endedTasks{places: map[ulid.ULID]uint32{}, odd: map[ulid.ULID]*odd{}}
}

func (t *endedTasks) at(place uint32) *ended { return &t.pages[place/endedPage][place%endedPage] }

// get returns an ended task, valid until the next put or drop; nil if it is missing.
func (t *endedTasks) get(key ulid.ULID) *ended {
	place, ok := t.places[key]
	if !ok {
		return nil
	}
	return t.at(place)
}

// all iterates over all of them, in no order.
func (t *endedTasks) all() iter.Seq2[ulid.ULID, *ended] {
	return func(yield func(ulid.ULID, *ended) bool) {
		for key, place := range t.places {
			if !yield(key, t.at(place)) {
				return
			}
		}
	}
}

// place returns the place of a task, and assigns one if needed.
func (t *endedTasks) place(key ulid.ULID) uint32 {
	place, ok := t.places[key]
	switch n := len(t.free); {
	case ok:
		return place
	case n > 0:
		place, t.free = t.free[n-1], t.free[:n-1]
	default:
		place = uint32(len(t.places)) // #nosec G115 -- so many do not fit into memory
		if place%endedPage == 0 {
			t.pages = append(t.pages, make([]ended, endedPage))
		}
	}
	t.places[key] = place
	return place
}

// drop forgets a task.
func (t *endedTasks) drop(key ulid.ULID) {
	if place, ok := t.places[key]; ok {
		delete(t.places, key)
		delete(t.odd, key)
		t.free = append(t.free, place)
	}
}

// put keeps the part of a task's story that is needed after its end.
func (t *endedTasks) put(key ulid.ULID, s *story) {
	e := ended{core: s.now.core, end: s.end, told: s.told, key: s.key, job: s.job, bornAt: s.bornAt, birth: s.birth,
		born: s.born, undue: s.undue, seen: s.seen, finished: s.result, old: s.old, size: s.size, child: s.child}
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
	*t.at(t.place(key)) = e
}

// folded returns the fold of an ended task.
func (t *endedTasks) folded(key ulid.ULID, e *ended) folded {
	f := folded{core: e.core}
	if e.odd {
		f.rest = t.odd[key].rest
	}
	return f
}

// story is the reverse of put.
func (t *endedTasks) story(key ulid.ULID, e *ended) *story {
	s := &story{id: task.ID(key.String()), now: t.folded(key, e), end: e.end, told: e.told, attempt: e.attempt, turn: e.turn,
		born: e.born, undue: e.undue, seen: e.seen, result: e.finished, old: e.old,
		key: e.key, job: e.job, bornAt: e.bornAt, birth: e.birth, size: e.size, child: e.child}
	var o odd
	if e.odd {
		o = *t.odd[key]
	}
	s.limit, s.kin = o.limit, o.kin
	switch {
	case o.course != nil:
		s.turns, s.attempts = o.course.turns, o.course.attempts
	case e.epoch > 0:
		s.attempts = []attempt{{epoch: e.epoch, number: e.attempt, on: e.node, own: e.own}}
	}
	return s
}
