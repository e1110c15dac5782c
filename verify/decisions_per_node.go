package verify

import (
	"slices"

	"millrace/events"
	"millrace/task"
)

// A node that has no place for a task names the attempts that it runs. Each must have started there, under the same counter
// and before. Whether one of them had ended is not judged: the node counts it until nothing of it runs there, and
// who else ends an attempt in the log does not wait for that. Nor is when the last one comes again that the node had postponed.

// boundOnNode are the bounds per node that a task stands under.
func (t *tasks) boundOnNode(w *task.Work) limited {
	if w.Spec == nil || len(w.Spec.PerNode) == 0 {
		return nil
	}
	counters, err := w.OnNode()
	if err != nil {
		return nil // no worker can have claimed it
	}
	var all limited
	for _, c := range counters {
		all = append(all, bound{counter: uint32(t.words.number(c.Name)), max: uint32(c.Max)})
	}
	return all
}

// crowdedOut decides again that a node had no place for a task.
func (s *story) crowdedOut(v *Verifier, k *task.Task, r *events.Record) {
	by := by(r)
	i := slices.IndexFunc(s.kin.onNode, func(b bound) bool { return v.tasks.words.list[b.counter] == by.Limit })
	if i < 0 || by.Self == nil {
		s.unruled(v, r)
		return
	}
	b := s.kin.onNode[i]
	is := task.Crowd{Node: by.Self.Node, Counter: task.Counter{Name: by.Limit, Max: int(b.max)}, Epochs: by.Ends, Last: by.Since}
	if !is.Counter.Crowded(by.Ends) {
		v.checked[Decisions]++
		s.found(v, Decisions, []uint64{r.Seq}, "%s, and with %d attempts under %s node %s has a place, since per_node is %d", r.Fact.Type, len(by.Ends), by.Limit, is.Node, b.max)
		return
	}
	began := v.began[sessionKey{node: v.tasks.words.number(is.Node), counter: word(b.counter)}]
	for at, epoch := range by.Ends {
		if len(began) == manyBegan && epoch < began[0] || !v.whole() {
			v.forgotten++
			return
		}
		if !slices.Contains(began, epoch) || slices.Contains(by.Ends[:at], epoch) {
			v.checked[Decisions]++
			s.found(v, Decisions, []uint64{epoch, r.Seq}, "%s because of the attempt at %d, and node %s had not begun that under %s, or it is named twice", r.Fact.Type, epoch, is.Node, by.Limit)
			return
		}
	}
	s.remade(v, k, task.Judged{Command: is.Postpone(k.Turn, by.At), By: is.By(by.At)}, r)
}
