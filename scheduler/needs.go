package scheduler

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"millrace/events"
	"millrace/task"
)

// needs tracks which held tasks wait for which others, and the progress of those. It observes the
// facts in the order of the log. Answers of the read model may be older, so every entry has the
// sequence that it reflects, and older information is ignored. It keeps this in memory; the log has
// the rest.
type needs struct {
	*inbox[task.ID]               // held tasks to examine
	busy            chan struct{} // holds one: a needed task is under way, so changes are urgent

	observed atomic.Uint64 // the latest change seen

	mu      sync.Mutex
	waiting map[task.ID]*held   // guarded by mu; the held tasks
	wanted  map[task.ID]*wanted // guarded by mu; the needed tasks
	births  int                 // guarded by mu; how many births are kept in waiting
	under   int                 // guarded by mu; how many of the wanted are under way: offered, or running
}

// held is a task that waits for others.
type held struct {
	seq uint64 // the last fact that left it held; 0 if it is only assumed to be held
	// needs are the tasks it waits for; nil if they must be read.
	needs *task.Needs
	// birth is the task as it was born, if it has had no other fact and there is room: then it need
	// not be read again.
	birth *task.Task
	// awaited says that it is registered with the tasks it needs.
	awaited bool
}

// wanted is a task that others need.
type wanted struct {
	by map[task.ID]struct{} // those
	task.Input
}

// underway tells whether it may end soon.
func (w *wanted) underway() bool { return w.State == task.Pending || w.State == task.Running }

// maxBirths is how many births are kept in memory, at about 1 kB each.
const maxBirths = 100_000

func newNeeds(l *Deferred) *needs {
	n := &needs{inbox: newInbox[task.ID](l), busy: make(chan struct{}, 1)}
	n.begin()
	return n
}

// begin forgets everything.
func (n *needs) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting, n.wanted = map[task.ID]*held{}, map[task.ID]*wanted{}
	n.births, n.under = 0, 0
	n.take()
	n.handled() // nobody does
}

// observe implements reactor.
func (n *needs) observe(s *events.Step) {
	r := s.Record
	if r.Seq <= n.observed.Load() {
		n.begin() // the read model is rebuilt
	}
	n.observed.Store(r.Seq)
	if s.Is.State == task.Unknown {
		return
	}
	id := r.Fact.Task
	n.mu.Lock()
	defer n.mu.Unlock()
	switch h := n.waiting[id]; {
	case s.Is.State == task.Held && s.Was.State != task.Held:
		n.hold(id, r)
	case s.Is.State == task.Held && h != nil:
		n.stays(id, h, r.Seq)
	case h != nil:
		n.forget(id)
		n.left.Drop(string(id))
	}
	if w := n.wanted[id]; w != nil {
		is := task.Input{Seq: r.Seq, State: s.Is.State, Reason: s.Is.Reason, Result: resultOf(r.Fact.Event)}
		if s.Is.State == s.Was.State && is.State == w.State {
			is.Result = w.Result // no new result
		}
		n.goes(w, is)
	}
}

// resultOf is the result that an event carries.
func resultOf(e any) []byte {
	switch e := e.(type) {
	case task.AttemptFinished:
		return bytes.Clone(e.Result)
	case task.Concluded:
		return bytes.Clone(e.Result)
	}
	return nil
}

// hold records that a task is held, if its needs may hold it. It needs mu held.
func (n *needs) hold(id task.ID, r *events.Record) {
	e, born := r.Fact.Event.(task.Submitted)
	if born && e.Needs == nil {
		return
	}
	if _, offered := r.Fact.Event.(task.Throttled); offered {
		return // so its needs had been met
	}
	n.forget(id)
	h := &held{seq: r.Seq}
	if born {
		h.needs = e.Needs
		if n.births < maxBirths {
			t := task.Evolve(task.Task{ID: id}, r.Task())
			h.birth = &t
			n.births++
		}
	}
	n.waiting[id] = h
	n.look(id)
}

// stays records a fact that left a held task held: a move, another hold that opened, or an offer
// that was stale. It needs mu held.
func (n *needs) stays(id task.ID, h *held, seq uint64) {
	h.seq = max(h.seq, seq)
	n.dropBirth(h)
}

// dropBirth needs mu held.
func (n *needs) dropBirth(h *held) {
	if h.birth != nil {
		h.birth = nil
		n.births--
	}
}

// goes records the progress of a needed task. It needs mu held.
func (n *needs) goes(w *wanted, is task.Input) {
	if is.Seq < w.Seq {
		return // a newer state is known
	}
	before := *w
	w.Seq, w.State, w.Reason, w.Result = is.Seq, is.State, is.Reason, is.Result
	n.count(before.underway(), w.underway())
	if is.State.Terminal() && (!before.State.Terminal() || before.Seq == 0) {
		for waiter := range w.by {
			n.look(waiter)
		}
	}
}

// count needs mu held.
func (n *needs) count(was, is bool) {
	switch {
	case is && !was:
		n.under++
		Poke(n.busy)
	case was && !is:
		n.under--
	}
}

// crowded tells whether the next facts in the log may release waiting tasks.
func (n *needs) crowded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.under > 0
}

// done drops a task that does not wait since a fact, unless it was held again afterwards.
func (n *needs) done(id task.ID, seq uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.waiting[id]; h != nil && h.seq > seq {
		return
	}
	n.forget(id)
	if w := n.wanted[id]; w != nil && w.Seq < seq {
		n.expect(w)
	}
}

// expect records that a needed task has been released: the read model will soon report its
// progress. It needs mu held.
func (n *needs) expect(w *wanted) {
	was := w.underway()
	w.State = task.Pending
	n.count(was, true)
}

// again discards what is known of some held tasks, because it may be incomplete, and schedules them
// to be read anew.
func (n *needs) again(ids ...task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if h := n.waiting[id]; h != nil {
			n.unwant(id, h)
			n.dropBirth(h)
		}
	}
}

// forget needs mu held.
func (n *needs) forget(id task.ID) {
	n.drop(id)
	if h := n.waiting[id]; h != nil {
		n.dropBirth(h)
		n.unwant(id, h)
		delete(n.waiting, id)
	}
}

// unwant needs mu held.
func (n *needs) unwant(id task.ID, h *held) {
	if !h.awaited {
		return
	}
	h.awaited = false
	for _, need := range h.needs.Of {
		w := n.wanted[need.Task]
		if w == nil {
			continue
		}
		if delete(w.by, id); len(w.by) == 0 {
			n.count(w.underway(), false)
			delete(n.wanted, need.Task)
		}
	}
}

// learn records the needs of a task that they hold, read since watch was called.
func (n *needs) learn(t task.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.waiting[t.ID]
	if h == nil {
		return // it was released meanwhile: the task read is outdated
	}
	if h.seq == 0 && t.Head == t.Turn && n.births < maxBirths {
		h.birth = &t
		n.births++
	}
	h.seq = max(h.seq, t.Seq)
	if h.needs == nil {
		h.needs = t.Needs
	}
}

// watch registers tasks, so that facts about them are recorded until they are known not to be held.
func (n *needs) watch(ids []task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if n.waiting[id] == nil {
			n.waiting[id] = &held{}
		}
	}
}

// await registers held tasks with the tasks they need, so that no end is missed from now on. It
// returns the tasks whose needs must be read, and the needed tasks whose progress is unknown.
func (n *needs) await(ids []task.ID) (unread, unknown []task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		h := n.waiting[id]
		if h == nil {
			continue // it is not held any more
		}
		if h.needs == nil {
			unread = append(unread, id)
			continue
		}
		if h.awaited {
			continue
		}
		h.awaited = true
		for _, need := range h.needs.Of {
			w := n.wanted[need.Task]
			if w == nil {
				w = &wanted{by: map[task.ID]struct{}{}, Input: task.Input{Task: need.Task}}
				n.wanted[need.Task] = w
			}
			w.by[id] = struct{}{}
			if w.Seq > 0 {
				continue
			}
			if of := n.waiting[need.Task]; of != nil && of.seq > 0 {
				n.goes(w, task.Input{Seq: of.seq, State: task.Held})
			} else {
				unknown = append(unknown, need.Task)
			}
		}
	}
	slices.Sort(unknown)
	return unread, slices.Compact(unknown)
}

// found records the progress of tasks, by the read model.
func (n *needs) found(tasks []task.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range tasks {
		if t := &tasks[i]; n.wanted[t.ID] != nil {
			n.goes(n.wanted[t.ID], task.InputOf(t))
		}
	}
}

// decided is a held task whose next command follows from the known ends of its needs.
type decided struct {
	id    task.ID
	needs *task.Needs
	known []task.Input // the progress of its needs
	// birth is the task if it has had no fact since; nil if it must be read.
	birth *task.Task
}

// decide returns the decided ones among the tasks, without those on their way already.
func (n *needs) decide(ids []task.ID) []decided {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []decided
	var ends []task.End
	for _, id := range ids {
		h := n.waiting[id]
		if h == nil || !h.awaited {
			continue
		}
		ends = ends[:0]
		for _, need := range h.needs.Of {
			w := n.wanted[need.Task]
			ends = append(ends, task.End{State: w.State, Reason: w.Reason})
		}
		if verdict, _ := h.needs.Judge(ends); verdict == task.NotYet || !n.left.Mine(string(id)) {
			continue
		}
		d := decided{id: id, needs: h.needs, known: make([]task.Input, len(h.needs.Of)), birth: h.birth}
		for i, need := range h.needs.Of {
			d.known[i] = n.wanted[need.Task].Input
		}
		all = append(all, d)
	}
	return all
}
