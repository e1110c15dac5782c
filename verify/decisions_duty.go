package verify

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/duties"
	"millrace/verify/book"
)

// owed repeats a decision that followed from an unmet duty ([duties.Owes]): from the nodes at the
// sequence seen, the known states of the task's node and queue, and since when no node had been
// seen that would take the work.
func (s *story) owed(v *Verifier, k *task.Task, r *events.Record) {
	if !v.whole() {
		return // facts before the range may have shaped the nodes and queues
	}
	by := book.By(r)
	if late := max(by.Seen, by.Node, by.Queue, by.Task); late >= r.Seq {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{r.Seq, late}, "%s was decided by what came later, at %d", r.Fact.Type, late)
		return
	}
	if by.Task < k.Seq {
		// An offer has come since, or its birth once more: the task was judged as it was without.
		if by.Task < k.Head || !s.offeredAfter(by.Task) && s.repeated <= by.Task {
			v.book.Checked[Decisions]++
			s.found(v, Decisions, []uint64{by.Task, r.Seq}, "%s was decided by the task as it was at %d, and is recorded on what it was at %d", r.Fact.Type, by.Task, k.Seq)
			return
		}
		v.book.Overtaken++
		return
	}
	w, known := v.worldFor(k, &by, r)
	if !known {
		v.book.Forgotten++
		return
	}
	around := w.Around(k)
	accounted := w.Accounted(k, around) && !by.Beats
	if by.Beats {
		around.NodeGone = time.Time{}
	}
	duty := duties.Owes(*k, around, v.bounds(by.Bounds))
	if was := duties.Owes(v.tasks.task(s.id, &s.now), around, duties.SettingsOf(by.Bounds)); duty.By.Before(was.By) {
		v.wasSooner(r, was.By.Sub(duty.By))
	}
	if duty.Command == nil || duty.Look || r.Fact.At.Before(duty.By) {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s follows from a duty that was not overdue: %s was to %s", r.Fact.Type, duty.Who, duty.What)
		return
	}
	command := duty.Command
	if lose, ok := command.(task.Lose); ok && accounted {
		account, ok := s.account(v, k, r)
		if !ok {
			return
		}
		lose.Account = &account
		command = lose
	}
	by.Lease = nil
	s.remade(v, k, task.Judged{Command: command, By: by}, r)
}

// offeredAfter tells whether the task has an offer behind a sequence.
func (s *story) offeredAfter(seq uint64) bool {
	return slices.ContainsFunc(s.offers, func(o offer) bool { return o.seq > seq })
}

// worldFor is the world known to the decider about k; false if it is no longer remembered.
func (v *Verifier) worldFor(k *task.Task, by *task.By, r *events.Record) (*node.World, bool) {
	if v.world == nil || v.world.At != by.Seen || v.worldTo < by.Seen {
		nodes, known := v.pasts.At(by.Seen)
		if !known {
			return nil, false
		}
		v.world, v.worldTo = node.NewWorld(nodes, by.Seen, r.Fact.At), v.last
	}
	w := v.world.Again(r.Fact.At)
	on := k.Node
	if k.Waiting() {
		on, _ = k.Route.Node()
	}
	if by.Node > 0 {
		n, known := v.pasts.Of(on).At(by.Node)
		if !known || n.Head != by.Node {
			return nil, known
		}
		w.Freshen(n)
	}
	queue := k.Route.Queue()
	if k.Route.Selected() {
		served, needs := k.Asks()
		w.Learn(queue, node.Want{Queue: served, Needs: needs})
	}
	if by.Queue > 0 {
		q, _ := v.queuePast.At(w.Home(queue), by.Queue)
		if q == nil {
			return nil, false
		}
		w.Tell(*q)
	}
	if !by.Since.IsZero() {
		w.Unserved(queue, by.Since)
	}
	return w, true
}
