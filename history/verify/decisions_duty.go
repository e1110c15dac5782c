package verify

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
)

// owed repeats a decision that followed from an unmet duty ([duties.Owes]): from the nodes at the
// sequence seen, the known states of the task's node and queue, and since when no node had been
// seen that would take the work.
func (s *story) owed(v *Verifier, k *task.Task, r *events.Record) {
	if !v.whole() {
		return // facts before the range may have shaped the nodes and queues
	}
	by := findings.By(r)
	if by.Latest() >= r.Seq {
		v.book.Checked[Decisions]++ // [Verifier.timely] has found that
		return
	}
	now, old := s.now, task.Task{}
	if by.Task < k.Seq {
		// An offer, or a repeated birth, has come since: the task was judged without it.
		if by.Task < k.Head || !s.offeredAfter(by.Task) && s.repeated <= by.Task {
			v.book.Checked[Decisions]++
			s.found(v, Decisions, []uint64{by.Task, r.Seq}, "%s was decided by the task as it was at %d, and is recorded on what it was at %d", r.Fact.Type, by.Task, k.Seq)
			return
		}
		was, known := v.tasks.before(s.id, by.Task)
		if !known {
			v.book.Overtaken++
			return
		}
		now, old = was, v.tasks.task(s.id, &was)
		k = s.asks(v, &old)
	}
	w, none := v.worldFor(k, &by, r)
	switch {
	case none > 0:
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{none, r.Seq}, "%s was decided by an event of a node or queue at %d, and there is none", r.Fact.Type, none)
		return
	case w == nil:
		v.book.Forgotten++
		return
	}
	around := w.Around(k)
	accounted := w.Accounted(k, around) && !by.Beats
	if by.Beats {
		around.NodeGone = time.Time{}
	}
	if by.Looked == nil {
		around.NoNode = "" // ends did not say it
	}
	duty := duties.Owes(*k, around, v.bounds(by.Bounds))
	if was := duties.Owes(v.tasks.task(s.id, &now), around, duties.SettingsOf(by.Bounds)); duty.By.Before(was.By) {
		v.wasSooner(r, was.By.Sub(duty.By))
	}
	if duty.Command == nil || duty.Look || r.Fact.At.Before(duty.By) {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s follows from a duty that was not overdue: %s was to %s", r.Fact.Type, duty.Who, duty.What)
		return
	}
	s.accounted(v, k, duty.Command, accounted, by, r)
}

// offeredLately is the number of offers for which the task before the offer is kept. A decision that
// an offer overtook follows soon.
const offeredLately = 1024

// before returns a task as it was at a sequence, without the next offer; false if that is forgotten.
func (t *tasks) before(id task.ID, seq uint64) (was folded, known bool) {
	for i := range t.lately {
		if o := &t.lately[i]; o.id == id && o.was.seq <= seq && seq < o.until {
			return o.was, true
		}
	}
	return folded{}, false
}

// waited is a task as it was before an offer.
type waited struct {
	id    task.ID
	was   folded
	until uint64 // the offer
}

// offer remembers a task before an offer.
func (t *tasks) offer(id task.ID, was *folded, seq uint64) {
	if was.seq == 0 {
		return // its birth is the offer
	}
	is := waited{id, *was, seq}
	if len(t.lately) < offeredLately {
		t.lately = append(t.lately, is)
		return
	}
	t.lately[t.oldest] = is
	t.oldest = (t.oldest + 1) % offeredLately
}

// offeredAfter tells whether the task has an offer behind a sequence.
func (s *story) offeredAfter(seq uint64) bool {
	return slices.ContainsFunc(s.offers, func(o offer) bool { return o.seq > seq })
}

// worldFor is the world known to the decider about k; nil if it is no longer remembered, or if the
// decision names a fact that is none of the node or queue, which is then returned.
func (v *Verifier) worldFor(k *task.Task, by *task.By, r *events.Record) (w *node.Fleet, none uint64) {
	if v.world == nil || v.world.At != by.Seen || v.worldTo < by.Seen {
		nodes, known := v.pasts.At(by.Seen)
		if !known {
			return nil, 0
		}
		v.world, v.worldTo = node.NewFleet(nodes, by.Seen, r.Fact.At), v.last
	}
	w = v.world.Again(r.Fact.At)
	on := k.Node
	if k.Waiting() {
		on, _ = k.Route.Node()
	}
	if by.Node > 0 {
		n, known := v.pasts.Of(on).At(by.Node)
		switch {
		case !known:
			return nil, 0
		case n.Head != by.Node:
			return nil, by.Node
		}
		w.Freshen(n)
	} else if k.Live() && w.Node(node.ID(on)).State == node.Unknown {
		w.Freshen(node.Node{ID: node.ID(on)}) // whoever judges such an attempt has asked the log for its node
	}
	queue := k.Route.Queue()
	if k.Route.Selected() {
		served, needs := k.Asks()
		w.Learn(queue, node.Want{Queue: served, Needs: needs})
	}
	if by.Queue > 0 {
		q, forgotten := v.queuePast.At(w.Home(queue), by.Queue)
		switch {
		case forgotten:
			return nil, 0
		case q == nil:
			return nil, by.Queue
		}
		w.Tell(*q)
	}
	if !by.Since.IsZero() {
		w.Unserved(queue, by.Since)
	}
	return w, 0
}
