package scheduler

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"millrace/events"
	"millrace/scheduler/turns"
	"millrace/task"
)

// needs knows which held tasks wait for which others, and how far those have come. It is told so in the
// order of the log, and what it asks the read model for may be older than that: whatever it notes has the
// sequence that it reflects, and what is older than what is known counts for nothing. It keeps all that in
// memory; the log has the rest.
type needs struct {
	wake chan struct{} // there is somebody to look at
	busy chan struct{} // holds one: somebody who is waited for is on the way, so news are urgent
	left *turns.Left   // held tasks that may go, and that other schedulers let go first

	observed atomic.Uint64 // the latest that was told

	mu      sync.Mutex
	waiting map[task.ID]*held   // guarded by mu; those that are held
	wanted  map[task.ID]*wanted // guarded by mu; those that others need
	look    map[task.ID]bool    // guarded by mu; held tasks to look at
	births  int                 // guarded by mu; how many are kept in waiting
	under   int                 // guarded by mu; how many of the wanted are under way: offered, or running
}

// held is a task that waits for others.
type held struct {
	seq uint64 // the last fact that left it held; 0 if it is only taken to be held
	// needs are what it waits for; nil if that has to be read.
	needs *task.Needs
	// birth is the task as it was born, if that is all that has happened to it and
	// there is room for it: so it need not be read again.
	birth *task.Task
	// awaited is whether it is noted among those that want what it needs.
	awaited bool
	// let is whether an offer that lets it go is on its way, or in the log and not told of yet.
	let bool
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

func newNeeds(l *turns.Left) *needs {
	n := &needs{left: l, wake: make(chan struct{}, 1), busy: make(chan struct{}, 1)}
	n.begin()
	return n
}

// begin forgets everything.
func (n *needs) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting, n.wanted, n.look = map[task.ID]*held{}, map[task.ID]*wanted{}, map[task.ID]bool{}
	n.births, n.under = 0, 0
}

// observe implements reactor.
func (n *needs) observe(s *events.Step) {
	r := s.Record
	if r.Seq <= n.observed.Load() {
		n.begin() // the read model is made anew
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
			is.Result = w.Result // nothing new was brought forth
		}
		n.goes(w, is)
	}
}

// resultOf is what an event says that a task has brought forth.
func resultOf(e any) []byte {
	switch e := e.(type) {
	case task.AttemptFinished:
		return bytes.Clone(e.Result)
	case task.Concluded:
		return bytes.Clone(e.Result)
	}
	return nil
}

// hold notes that a task is held, if it may be by what it needs. It is called with mu held.
func (n *needs) hold(id task.ID, r *events.Record) {
	e, born := r.Fact.Event.(task.Submitted)
	if born && e.Needs == nil {
		return
	}
	if _, offered := r.Fact.Event.(task.Throttled); offered {
		return // so it had got what it needs
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
	n.add(id)
}

// stays notes a fact about a held task that left it held: a move, another hold that opened, or an offer
// that was no good any more. It is called with mu held.
func (n *needs) stays(id task.ID, h *held, seq uint64) {
	h.seq = max(h.seq, seq)
	n.dropBirth(h)
	if h.let {
		h.let = false
		n.add(id)
	}
}

// dropBirth is called with mu held.
func (n *needs) dropBirth(h *held) {
	if h.birth != nil {
		h.birth = nil
		n.births--
	}
}

// goes notes how far a task has come that others need. It is called with mu held.
func (n *needs) goes(w *wanted, is task.Input) {
	if is.Seq < w.Seq {
		return // more is known
	}
	before := *w
	w.Seq, w.State, w.Reason, w.Result = is.Seq, is.State, is.Reason, is.Result
	n.count(before.underway(), w.underway())
	if is.State.Terminal() && (!before.State.Terminal() || before.Seq == 0) {
		for waiter := range w.by {
			n.add(waiter)
		}
	}
}

// count is called with mu held.
func (n *needs) count(was, is bool) {
	switch {
	case is && !was:
		n.under++
		signal(n.busy)
	case was && !is:
		n.under--
	}
}

// crowded tells whether what comes next in the log may be what somebody waits for.
func (n *needs) crowded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.under > 0
}

// lookAt asks for tasks to be looked at.
func (n *needs) lookAt(ids ...task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(ids...)
}

// add is lookAt with mu held.
func (n *needs) add(ids ...task.ID) {
	for _, id := range ids {
		n.look[id] = true
	}
	if len(ids) > 0 {
		signal(n.wake)
	}
}

// done forgets a task that waits no more since a fact, unless it was held again after that.
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

// expect notes that a task has been let go on which others wait: the read model will tell in a moment.
// It is called with mu held.
func (n *needs) expect(w *wanted) {
	was := w.underway()
	w.State = task.Pending
	n.count(was, true)
}

// again forgets what was noted of some held tasks, for it may not be all, and has them read anew.
func (n *needs) again(ids ...task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if h := n.waiting[id]; h != nil {
			n.unwant(id, h)
			n.dropBirth(h)
			h.let = false
		}
	}
}

// forget is called with mu held.
func (n *needs) forget(id task.ID) {
	delete(n.look, id)
	if h := n.waiting[id]; h != nil {
		n.dropBirth(h)
		n.unwant(id, h)
		delete(n.waiting, id)
	}
}

// unwant is called with mu held.
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

// take returns who is to be looked at, and clears the list.
func (n *needs) take() []task.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := slices.Sorted(maps.Keys(n.look)) // as they were submitted
	clear(n.look)
	return ids
}

// learn notes what a task needs that is held by that, and that was read since watch was called.
func (n *needs) learn(t task.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.waiting[t.ID]
	if h == nil {
		return // it was let go meanwhile: what was read is old
	}
	if h.seq == 0 && t.Head == 0 && n.births < maxBirths {
		h.birth = &t
		n.births++
	}
	h.seq = max(h.seq, t.Seq)
	if h.needs == nil {
		h.needs = t.Needs
	}
}

// watch has what is told of some tasks from now on be noted, until it is known that they are not held.
func (n *needs) watch(ids []task.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if n.waiting[id] == nil {
			n.waiting[id] = &held{}
		}
	}
}

// await notes what held tasks need, so that no end of it is missed from now on. It returns those of the
// tasks of which has to be read what they need, and those of their needs of which nothing is known.
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

// found notes how far tasks have come, as the read model has it.
func (n *needs) found(tasks []task.Task) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range tasks {
		if t := &tasks[i]; n.wanted[t.ID] != nil {
			n.goes(n.wanted[t.ID], task.InputOf(t))
		}
	}
}

// decided is a held task of which is known what follows from the ends of those that it needs.
type decided struct {
	id    task.ID
	needs *task.Needs
	known []task.Input // of what it needs
	// birth is the task if nothing has happened to it since; nil if it has to be read.
	birth *task.Task
}

// decide returns those of the tasks of which it is known. What is on its way already is not among them.
func (n *needs) decide(ids []task.ID) []decided {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []decided
	var ends []task.End
	for _, id := range ids {
		h := n.waiting[id]
		if h == nil || !h.awaited || h.let {
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

// letGo notes that an offer of a held task is on its way, and returns whether it is the first to be.
func (n *needs) letGo(id task.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.waiting[id]
	if h == nil || h.let {
		return false
	}
	if h.birth == nil { // something has happened to it at this moment
		n.add(id)
		return false
	}
	h.let = true
	if w := n.wanted[id]; w != nil {
		n.expect(w)
	}
	return true
}
