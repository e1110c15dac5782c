package verify

import (
	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
)

// Two kinds of decisions place a waiting task: duties, which see all nodes, and nodes that leave it
// to others. Such a node knows each of the others as last read, and not all at one moment. So the
// repetition only checks whether the chosen node is better than the deciding one, as both were
// known, and not whether another one would have been better still.

// leftTo repeats the decision to leave a task to others.
func (s *story) leftTo(v *Verifier, k *task.Task, r *events.Record) {
	by := findings.By(r)
	switch by.Rule {
	case task.RulePrefer:
		self, known := s.known(v, by.Self, r)
		peer, also := s.known(v, by.Peer, r)
		if !known || !also {
			return
		}
		asked := *k
		if hand, ok := duties.HandsOver(&asked, self, []duties.Peer{peer}, by.Ran); ok {
			s.remade(v, k, hand, r)
			return
		}
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s leaves it to %s, which is no better than %s", r.Fact.Type, peer.Node, self.Node)
	case task.RuleMeans:
		if by.Self == nil {
			s.unruled(v, r)
			return
		}
		if pass, ok := duties.PassesOn(k, by.Self.Node); ok {
			pass.Self = *by.Self
			s.remade(v, k, pass, r)
			return
		}
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s passes it on from %s, and it waits for such nodes already", r.Fact.Type, by.Self.Node)
	default:
		if by.Rule != "" || r.Fact.Actor == scheduler {
			s.unruled(v, r)
		}
	}
}

// known is a node as the decider knew it; false if that cannot be told.
func (s *story) known(v *Verifier, k *task.Known, r *events.Record) (p duties.Peer, ok bool) {
	if k == nil {
		s.unruled(v, r)
		return p, false
	}
	if !v.whole() || k.At == 0 {
		return p, false
	}
	n, known := v.pasts.Of(k.Node).At(k.At)
	switch {
	case k.At >= r.Seq || known && n.Head != k.At:
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{k.At, r.Seq}, "%s was decided by the fact of node %s at %d, and there is none", r.Fact.Type, k.Node, k.At)
		return p, false
	case !known:
		v.book.Forgotten++
		return p, false
	}
	return peer(&n), true
}

func peer(n *node.Node) duties.Peer {
	return duties.Peer{Node: string(n.ID), Labels: n.Selectable(), At: n.Head}
}
