package verify

import (
	"maps"
	"slices"
	"strings"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// manyPasts is how many of the latest facts of a node are remembered singly. Who decides knows a node as it
// was a moment ago, and facts of a node are rare.
const manyPasts = 64

// past is a node as it was at each of its latest facts, twice: by the times of the writers, as read
// models and schedulers have it, and by those of the server, as accounts of leases have it.
type pastNode struct {
	// written and stored are the node as it was before the facts in later; now is written at present.
	written, stored, now node.Node
	later                []pastFact
}

// pastFact is a fact of a node, by both times. Its memory is its own.
type pastFact struct{ written, stored node.Recorded }

// add takes a fact in.
func (p *pastNode) add(r *events.Record) {
	written := r.Node()
	written.Event = owned(written.Event, r)
	written.Actor = string([]byte(written.Actor))
	stored := written
	stored.At = r.Stored
	if len(p.later) == manyPasts {
		p.written, p.stored = node.Evolve(p.written, p.later[0].written), node.Evolve(p.stored, p.later[0].stored)
		p.later = slices.Delete(p.later, 0, 1)
	}
	p.later = append(p.later, pastFact{written, stored})
	p.now = node.Evolve(p.now, written)
}

// at is the node as it was when everything to a sequence was known; false if that is forgotten.
func (p *pastNode) at(seq uint64) (n node.Node, known bool) {
	if n = p.written; n.Head > seq {
		return n, false
	}
	for i := range p.later {
		if p.later[i].written.Seq > seq {
			break
		}
		n = node.Evolve(n, p.later[i].written)
	}
	return n, true
}

// storedAt is the node by the times of the server, as it was at its fact of a sequence; false if that is
// forgotten, or none of its facts.
func (p *pastNode) storedAt(seq uint64) (n node.Node, known bool) {
	n = p.stored
	for i := range p.later {
		if p.later[i].written.Seq > seq {
			break
		}
		n = node.Evolve(n, p.later[i].stored)
	}
	return n, n.Head == seq
}

// owned is an event that shares no memory with its record.
func owned(e node.Event, r *events.Record) node.Event {
	if e == nil {
		return nil
	}
	text, err := events.Encode(nil, &r.Fact)
	if err != nil {
		return e // no log holds it
	}
	f, err := events.Decode(text)
	if err != nil {
		return e
	}
	own, _ := f.Event.(node.Event)
	return own
}

// pastOf is the past of a node, empty for one of which there is no fact.
func (v *Verifier) pastOf(id string) *pastNode {
	if p := v.pasts[node.ID(id)]; p != nil {
		return p
	}
	return &pastNode{written: node.Node{ID: node.ID(id)}, stored: node.Node{ID: node.ID(id)}}
}

// nodesAt are all nodes as they were when everything to a sequence was known; false if that is forgotten.
func (v *Verifier) nodesAt(seq uint64) (all []node.Node, known bool) {
	for _, id := range slices.Sorted(maps.Keys(v.pasts)) {
		n, known := v.pasts[id].at(seq)
		if !known {
			return nil, false
		}
		if n.Head > 0 {
			all = append(all, n)
		}
	}
	return all, true
}

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
