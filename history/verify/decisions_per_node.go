package verify

import (
	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/limit"
)

// A node without a place for a task names the attempts that it runs. Each must have started there
// before, under the same counter. Two points are not judged. Whether one of them had ended: the
// node counts it until none of its processes runs there, and an end recorded by others does not
// wait for that. And when the last task that the node had postponed comes again.

// crowdedOut repeats the decision that a node had no place for a task.
func (s *story) crowdedOut(v *Verifier, k *task.Task, r *events.Record) {
	by := findings.By(r)
	i := v.terms.Index(s.kin.onNode, by.Limit)
	if i < 0 || by.Self == nil {
		s.unruled(v, r)
		return
	}
	most := s.kin.onNode.Max(i)
	is := duties.Crowd{Node: by.Self.Node, Counter: limit.Counter{Name: by.Limit, Max: most}, Epochs: by.Ends, Last: by.Since}
	if !is.Counter.Crowded(by.Ends) {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{r.Seq}, "%s, and with %d attempts under %s node %s has a place, since per_node is %d", r.Fact.Type, len(by.Ends), by.Limit, is.Node, most)
		return
	}
	not, known := v.running.Began(is.Node, by.Limit, by.Ends)
	switch {
	case !known || !v.whole():
		v.book.Forgotten++
		return
	case not >= 0:
		epoch := by.Ends[not]
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{epoch, r.Seq}, "%s because of the attempt at %d, and node %s had not begun that under %s, or it is named twice", r.Fact.Type, epoch, is.Node, by.Limit)
		return
	}
	s.remade(v, k, task.Judged{Command: is.Postpone(k.Turn, by.At), By: is.By(by.At)}, r)
}
