package verify

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/events"
	"millrace/task"
)

// tasks holds what must be remembered of each task: much of those that have not
// ended, little of the others.
type tasks struct {
	open  map[task.ID]*story
	ended map[ulid.ULID]ended
	// ranged is whether the records begin behind the beginning of the log.
	ranged bool
	words  words
	specs  timeouts
}

func newTasks(ranged bool) *tasks {
	return &tasks{ranged: ranged, open: map[task.ID]*story{}, ended: map[ulid.ULID]ended{}, words: newWords(), specs: timeouts{index: map[specKey]uint32{}}}
}

// words are texts that many tasks have in common: nodes, sessions, routes. A
// story holds their numbers; 0 is the empty one.
type words struct {
	index map[string]uint32
	list  []string
}

func newWords() words { return words{index: map[string]uint32{"": 0}, list: []string{""}} }

func (w *words) number(s string) uint32 {
	if n, ok := w.index[s]; ok {
		return n
	}
	s = strings.Clone(s)
	n := uint32(len(w.list))
	w.index[s] = n
	w.list = append(w.list, s)
	return n
}

// timeouts are those of specs, together with where tasks may run and their limits: the only
// parts on which deadlines and the fold depend. 0 is no spec.
type timeouts struct {
	index map[specKey]uint32
	list  []*task.Spec
}

// specKey tells specs apart by these parts. Nearly all have no place.
type specKey struct {
	timeout task.Timeout
	slots   int
	place   string
	parent  bool

	limits string
}

func (w *timeouts) number(spec *task.Spec) uint32 {
	if spec == nil {
		return 0
	}
	key := specKey{timeout: spec.Timeout, slots: spec.Slots, parent: len(spec.Steps) > 0 || spec.Each != nil}
	if spec.Placed() {
		place, _ := json.Marshal(spec.Place) // it came from JSON
		key.place = string(place)
	}
	if spec.Limited() {
		limits, _ := json.Marshal([]any{spec.Concurrency, spec.Rate})
		key.limits = string(limits)
	}
	n, ok := w.index[key]
	if !ok {
		thin := &task.Spec{Timeout: spec.Timeout, Slots: spec.Slots, Place: spec.Place, Concurrency: spec.Concurrency, Rate: spec.Rate}
		if key.parent {
			thin.Each = &task.Each{} // says enough: it has children whichever nodes there are
		}
		w.list = append(w.list, thin)
		n = uint32(len(w.list))
		w.index[key] = n
	}
	return n
}

func (w *timeouts) spec(n uint32) *task.Spec {
	if n == 0 {
		return nil
	}
	return w.list[n-1]
}

// stamp is a time in microseconds, 0 for none: a third of the memory of a [time.Time].
type stamp int64

func stampOf(t time.Time) stamp {
	switch {
	case t.IsZero():
		return 0
	case t.UnixMicro() == 0:
		return 1
	}
	return stamp(t.UnixMicro())
}

func (s stamp) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(s)).UTC()
}

// folded is the part of a [task.Task] that anything here depends on.
type folded struct {
	seq, head, turn, epoch, offer        uint64
	due, since, started, ended, cancelBy stamp
	startBy, endBy, handedUntil          stamp
	attempt, failures, losses            int32
	spec, route, node, session, holds    uint32
	home                                 uint32 // where it goes back to, if it was handed over
	state                                task.State
	offered, dismissed, needs            bool
}

func (t *tasks) thin(k *task.Task) folded {
	f := folded{
		seq: k.Seq, head: k.Head, turn: k.Turn, epoch: k.Epoch, offer: k.Offer,
		due: stampOf(k.Due), since: stampOf(k.Since), started: stampOf(k.StartedAt), ended: stampOf(k.EndedAt),
		cancelBy: stampOf(k.CancelBy), startBy: stampOf(k.StartBy),
		attempt: int32(k.Attempt), failures: int32(k.Failures), losses: int32(k.Losses),
		spec: t.specs.number(k.Spec), route: t.words.number(string(k.Route)),
		holds: t.words.number(strings.Join(k.Holds, ",")),
		node:  t.words.number(k.Node), session: t.words.number(k.Session),
		state: k.State, offered: k.Offered, dismissed: k.Dismissed != nil, needs: k.Needs != nil,
		endBy: stampOf(k.EndBy),
	}
	if h := k.Handed; h != nil {
		f.home, f.handedUntil = t.words.number(string(h.Home)), stampOf(h.Until)
	}
	return f
}

// task is the reverse of thin, with nothing that it left out.
func (t *tasks) task(id task.ID, f *folded) task.Task {
	var holds []string
	if f.holds != 0 {
		holds = strings.Split(t.words.list[f.holds], ",")
	}
	k := task.Task{
		ID: id, State: f.state, Seq: f.seq, Head: f.head, Turn: f.turn, Epoch: f.epoch, Offer: f.offer, Offered: f.offered,
		Due: f.due.time(), Since: f.since.time(), StartedAt: f.started.time(), EndedAt: f.ended.time(), CancelBy: f.cancelBy.time(),
		Attempt: int(f.attempt), Failures: int(f.failures), Losses: int(f.losses),
		Node: t.words.list[f.node], Session: t.words.list[f.session],
		Work: task.Work{Spec: t.specs.spec(f.spec), Route: task.Route(t.words.list[f.route]), StartBy: f.startBy.time(), EndBy: f.endBy.time(), Holds: holds},
	}
	if f.needs {
		k.Needs = &task.Needs{} // which they are is nobody's business here
	}
	if f.home != 0 {
		k.Handed = &task.Handed{Home: task.Route(t.words.list[f.home]), Until: f.handedUntil.time()}
	}
	if f.dismissed {
		k.Dismissed = &task.Dismissal{}
	}
	return k
}

// ended is what is remembered of a task that has ended.
type ended struct {
	seq, head, turn, epoch, end           uint64
	at, startBy                           stamp
	attempt                               int32
	spec, route, node, holds              uint32
	limit                                 limited
	told                                  uint16
	state                                 task.State
	born, undue, seen, own, finished, old bool
	dismissed, needs                      bool
	past                                  *past // nil if it was one turn since the birth with at most one attempt
}

// past are the turns and attempts of a task that had more than one.
type past struct {
	turns    []turn
	attempts []attempt
}

// take returns the story of a task; put must follow.
func (t *tasks) take(id task.ID) *story {
	if s, ok := t.open[id]; ok {
		return s
	}
	if key, ok := keyOf(id); ok {
		if e, ok := t.ended[key]; ok {
			return e.story(id)
		}
	}
	s := &story{id: task.ID(strings.Clone(string(id)))}
	if t.ranged {
		s.old, s.cut, s.attempt = true, true, unknown
	}
	return s
}

// put keeps a story, and most of it no longer if the task has ended and the fold
// says so, too.
func (t *tasks) put(s *story) {
	agree := s.now.state.Terminal() && s.now.attempt == s.attempt && s.now.turn == s.turn
	if s.end != 0 && agree {
		if key, ok := keyOf(s.id); ok {
			delete(t.open, s.id)
			s.kept = false
			t.ended[key] = s.forget()
			return
		}
	}
	if s.kept {
		return
	}
	t.open[s.id], s.kept = s, true
	if key, ok := keyOf(s.id); ok {
		delete(t.ended, key) // it has another life
	}
}

// keyOf packs the id of a task; false for what is no ULID in its one spelling.
func keyOf(id task.ID) (ulid.ULID, bool) {
	u, err := ulid.ParseStrict(string(id))
	return u, err == nil && u.String() == string(id)
}

func (e *ended) story(id task.ID) *story {
	s := &story{id: task.ID(strings.Clone(string(id))), end: e.end, told: e.told, attempt: e.attempt, turn: e.turn,
		born: e.born, undue: e.undue, seen: e.seen, result: e.finished, old: e.old, limit: e.limit}
	s.now = folded{seq: e.seq, head: e.head, turn: e.turn, epoch: e.epoch, ended: e.at, since: e.at, startBy: e.startBy,
		attempt: e.attempt, spec: e.spec, route: e.route, node: e.node, holds: e.holds, state: e.state, dismissed: e.dismissed, needs: e.needs}
	switch {
	case e.past != nil:
		s.turns, s.attempts = e.past.turns, e.past.attempts
	case e.epoch > 0:
		s.attempts = []attempt{{epoch: e.epoch, number: e.attempt, own: e.own}}
	}
	return s
}

func (s *story) forget() ended {
	f := &s.now
	e := ended{seq: f.seq, head: f.head, turn: f.turn, epoch: f.epoch, end: s.end, at: f.ended, startBy: f.startBy,
		attempt: f.attempt, spec: f.spec, route: f.route, node: f.node, holds: f.holds, limit: s.limit,
		told: s.told, state: f.state, born: s.born, undue: s.undue, seen: s.seen, finished: s.result, old: s.old, dismissed: f.dismissed, needs: f.needs}
	simple := len(s.turns) == 0 && len(s.attempts) <= 1
	if simple && len(s.attempts) == 1 {
		a := s.attempts[0]
		e.own = a.own
		simple = a.epoch == f.epoch && a.number == f.attempt
	}
	if !simple {
		e.past = &past{turns: s.turns, attempts: s.attempts}
	}
	return e
}

// fold adds a record as package task has it.
func (s *story) fold(t *tasks, r *events.Record) {
	k := t.task(s.id, &s.now)
	k = task.Evolve(k, r.Task())
	s.now = t.thin(&k)
}
