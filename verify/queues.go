package verify

import (
	"slices"
	"strings"

	"millrace/events"
	"millrace/task"
)

// pastQueue is a queue as operators had it after each of the latest facts about it, the latest last.
type pastQueue []task.Queue

// queueFact takes a fact about a queue in.
func (v *Verifier) queueFact(r *events.Record) {
	e, _ := r.Fact.Event.(task.QueueEvent)
	name := r.Fact.Queue
	past, ok := v.queuePast[name]
	if !ok {
		name = strings.Clone(name)
	}
	was := task.Queue{Name: name}
	if n := len(past); n > 0 {
		was, name = past[n-1], past[n-1].Name
	}
	if len(past) == manyPasts {
		past = slices.Delete(past, 0, 1)
	}
	is := task.EvolveQueue(was, r.Seq, r.Fact.At, r.Fact.Actor, e)
	mine := kept(&is) // the record's memory is not ours to keep
	v.queuePast[name] = append(past, *mine)
	if is.Window != was.Window {
		v.windows[name] = append(v.windows[name], window{r.Fact.At, strings.Clone(is.Window)})
	}
	if v.asked[Decisions] && v.whole() {
		v.lineup.said(r.Seq, mine)
	}
}

// at is the queue as it was after the fact at a sequence; false if that is forgotten, or no fact about it.
func (p pastQueue) at(seq uint64) (task.Queue, bool) {
	i := slices.IndexFunc(p, func(q task.Queue) bool { return q.Head == seq })
	if i < 0 {
		return task.Queue{}, false
	}
	return p[i], true
}
