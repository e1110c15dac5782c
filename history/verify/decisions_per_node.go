package verify

import (
	"fmt"

	"millrace/events"
	"millrace/task"
	"millrace/task/duties"
)

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
