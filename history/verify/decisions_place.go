package verify

import (
	"fmt"

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
		s.found(v, Decisions, []uint64{k.At, r.Seq}, "%s was decided by the event of node %s at %d, and there is none", r.Fact.Type, k.Node, k.At)
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

// A node without a place for a task names the attempts that it runs. Each must have started there
// before, under the same counter. Two points are not judged. Whether one of them had ended: the
// node counts it until none of its processes runs there, and an end recorded by others does not
// wait for that. And when the last task that the node had postponed comes again.

// crowdedOut is what a node read that had no place for a task.
func (s *story) crowdedOut(v *Verifier, _ *task.Task, by *task.By, r *events.Record) (read duties.Read, free string, ok bool) {
	i := v.terms.Index(s.kin.onNode, by.Limit)
	if i < 0 || by.Self == nil {
		s.unruled(v, r)
		return read, "", false
	}
	read.Max = s.kin.onNode.Max(i)
	if n := len(by.Ends); n < read.Max {
		return read, fmt.Sprintf("with %d attempts under %s node %s has a place, since per_node is %d", n, by.Limit, by.Self.Node, read.Max), true
	}
	not, known := v.running.Began(by.Self.Node, by.Limit, by.Ends)
	switch {
	case !known || !v.whole():
		v.book.Forgotten++
		return read, "", false
	case not >= 0:
		epoch := by.Ends[not]
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{epoch, r.Seq}, "%s because of the attempt at %d, and node %s had not begun that under %s, or it is named twice", r.Fact.Type, epoch, by.Self.Node, by.Limit)
		return read, "", false
	}
	return read, "", true
}
