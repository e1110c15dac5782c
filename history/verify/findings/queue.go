package findings

import (
	"strings"

	"millrace/events"
	"millrace/task/queue"
)

// Queues are the queues after each of the latest facts about them.
type Queues map[string]Latest[queue.Queue]

// Add adds a fact about a queue, and returns the states before and after it.
func (all Queues) Add(r *events.Record) (was, is *queue.Queue) {
	e, _ := r.Fact.Event.(queue.Event)
	past, ok := all[r.Fact.Queue]
	if ok {
		was = &queue.Queue{}
		*was = past[len(past)-1]
	} else {
		was = &queue.Queue{Name: strings.Clone(r.Fact.Queue)}
	}
	next := queue.Evolve(*was, r.Seq, r.Fact.At, r.Fact.Actor, e)
	is = Own(&next) // the record's memory is reused
	past.Add(*is)
	all[was.Name] = past
	return was, is
}

// Now is a queue after its latest fact; false if there is none.
func (all Queues) Now(name string) (q queue.Queue, ok bool) {
	past := all[name]
	if len(past) == 0 {
		return q, false
	}
	return past[len(past)-1], true
}

// At is a queue as of the fact at a sequence; nil if that is forgotten, or there is no such fact.
func (all Queues) At(name string, seq uint64) (q *queue.Queue, forgotten bool) {
	return all[name].At(seq, func(q *queue.Queue) uint64 { return q.Head })
}
