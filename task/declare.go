package task

import (
	"strconv"
	"time"
)

// Declaration says what the name of a selector's route stands for, so that nodes
// can find out which of these routes they match. It follows from any task that was
// offered there, so it holds no truth of its own: whoever places an offer on
// such a route declares it first.
type Declaration struct {
	// Queue is what a node must serve, besides being chosen by Needs.
	Queue string   `json:"queue"`
	Needs Selector `json:"needs"`
	// From is a sequence before which no offer lies on the route.
	From uint64 `json:"from"`
	// At is when it was last declared, give or take an hour.
	At time.Time `json:"at"`
}

// Route is the queue part of the route that it declares.
func (d Declaration) Route() string { return SelectorQueue(d.Queue, d.Needs) }

// Needs is all that the spec asks of a node's labels: the selector, the nodes to
// avoid and the slots. The nodes that it names are a part of it only beside labels or nodes to
// avoid, for else it waits on the own routes of those.
func (s *Spec) Needs() Selector {
	if s == nil {
		return nil
	}
	needs := s.Place.Labels
	if len(s.Place.Avoid) > 0 {
		needs = append(needs[:len(needs):len(needs)], Requirement{LabelNode, OpNotIn, s.Place.Avoid})
	}
	if s.Place.Targeted() && s.Place.selective() {
		needs = append(needs[:len(needs):len(needs)], Requirement{LabelNode, OpIn, s.Place.Nodes})
	}
	return append(needs[:len(needs):len(needs)], s.room()...)
}

// room is what is left of the needs of a task that may run anywhere.
func (s *Spec) room() Selector {
	if s.Cost() <= 1 {
		return nil
	}
	return Selector{{LabelSlots, OpGreaterEqual, []string{strconv.Itoa(s.Cost())}}}
}

// Asks is what the task's present route asks of a node: that it serves the
// queue, and is chosen by the selector. On the own route of a node and in a plain
// queue the selector is empty.
func (w *Work) Asks() (queue string, needs Selector) {
	if a := w.Asked; a != nil && w.Route.Selected() && SelectorQueue(a.Queue, a.Needs) == w.Route.Queue() {
		return a.Queue, a.Needs
	}
	if !w.Route.Selected() || w.Spec == nil {
		return w.Route.Queue(), nil
	}
	if p := &w.Spec.Place; p.named() {
		if needs = namedNeeds(p.Nodes, w.Spec); SelectorQueue("", needs) == w.Route.Queue() {
			return "", needs
		}
	}
	queue = w.Spec.Place.Queue
	if queue == "" {
		queue = DefaultQueue
	}
	if needs = w.Spec.Needs(); SelectorQueue(queue, needs) == w.Route.Queue() {
		return queue, needs
	}
	if preferred, ok := w.Spec.preferred(queue, w.Route); ok {
		return queue, preferred
	}
	needs = w.Spec.room() // it has fallen back, or was released
	return queue, needs
}
