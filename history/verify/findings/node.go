package findings

import (
	"maps"
	"slices"

	"millrace/events"
	"millrace/task/node"
)

// Node is a node after each of its latest facts, in two versions: by the writers' times, as in read
// models and schedulers, and by the server's, as in accounts of leases.
type Node struct {
	// written and stored are the node before the facts in later. Now is written at present.
	written, stored, now node.Node
	later                []fact
}

// fact is a fact of a node, with both times. It owns its memory.
type fact struct{ written, stored node.Recorded }

// Add adds a fact.
func (p *Node) Add(r *events.Record) {
	written := r.Node()
	written.Event = owned(written.Event, r)
	written.Actor = string([]byte(written.Actor))
	stored := written
	stored.At = r.Stored
	if c, ok := written.Event.(node.Carried); ok {
		stored.Event = node.Carried{Fold: c.Stored}
	}
	if len(p.later) == Many {
		p.written, p.stored = node.Evolve(p.written, p.later[0].written), node.Evolve(p.stored, p.later[0].stored)
		p.later = slices.Delete(p.later, 0, 1)
	}
	p.later = append(p.later, fact{written, stored})
	p.now = node.Evolve(p.now, written)
}

// At is the node as of a sequence; false if that state is forgotten.
func (p *Node) At(seq uint64) (n node.Node, known bool) {
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

// StoredAt is the node by the server's times, as of its fact at a sequence; false if that state is
// forgotten, or there is no such fact.
func (p *Node) StoredAt(seq uint64) (n node.Node, known bool) {
	n = p.stored
	for i := range p.later {
		if p.later[i].written.Seq > seq {
			break
		}
		n = node.Evolve(n, p.later[i].stored)
	}
	return n, n.Head == seq
}

// owned is a copy of an event that shares no memory with its record.
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

// Now is the node at present.
func (p *Node) Now() node.Node { return p.now }

// Takes tells whether the node takes work at present.
func (p *Node) Takes() bool { return p.now.Takes() }

// Forgot tells whether the fact at a sequence is too old to be remembered.
func (p *Node) Forgot(seq uint64) bool { return seq <= p.written.Head }

// Nodes are the nodes with facts.
type Nodes map[node.ID]*Node

// Of returns the past of a node, empty for one without facts.
func (all Nodes) Of(id string) *Node {
	if p := all[node.ID(id)]; p != nil {
		return p
	}
	none := node.Node{ID: node.ID(id)}
	return &Node{written: none, stored: none, now: none}
}

// At returns all nodes as of a sequence; false if a state is forgotten.
func (all Nodes) At(seq uint64) (are []node.Node, known bool) {
	for _, id := range slices.Sorted(maps.Keys(all)) {
		n, known := all[id].At(seq)
		if !known {
			return nil, false
		}
		if n.Head > 0 {
			are = append(are, n)
		}
	}
	return are, true
}
