package task

import (
	"strconv"

	"millrace/task/where"
)

// Needs is all that the spec asks of a node's labels: the selector, the nodes to
// avoid and the slots. The nodes that it names are a part of it only beside labels or nodes to
// avoid, for else it waits on the own routes of those.
func (s *Spec) Needs() where.Selector {
	if s == nil {
		return nil
	}
	needs := s.Place.Labels
	if len(s.Place.Avoid) > 0 {
		needs = append(needs[:len(needs):len(needs)], where.Requirement{Key: where.LabelNode, Op: where.OpNotIn, Values: s.Place.Avoid})
	}
	if s.Place.Targeted() && s.Place.selective() {
		needs = append(needs[:len(needs):len(needs)], where.Requirement{Key: where.LabelNode, Op: where.OpIn, Values: s.Place.Nodes})
	}
	return append(needs[:len(needs):len(needs)], s.room()...)
}

// room is what is left of the needs of a task that may run anywhere.
func (s *Spec) room() where.Selector {
	if s.Cost() <= 1 {
		return nil
	}
	return where.Selector{{Key: where.LabelSlots, Op: where.OpGreaterEqual, Values: []string{strconv.Itoa(s.Cost())}}}
}

// Asks is what the task's present route asks of a node: that it serves the
// queue, and is chosen by the selector. On the own route of a node and in a plain
// queue the selector is empty.
func (w *Work) Asks() (queue string, needs where.Selector) {
	if a := w.Asked; a != nil && w.Route.Selected() && where.SelectorQueue(a.Queue, a.Needs) == w.Route.Queue() {
		return a.Queue, a.Needs
	}
	if !w.Route.Selected() || w.Spec == nil {
		return w.Route.Queue(), nil
	}
	if p := &w.Spec.Place; p.named() {
		if needs = namedNeeds(p.Nodes, w.Spec); where.SelectorQueue("", needs) == w.Route.Queue() {
			return "", needs
		}
	}
	queue = w.Spec.Place.Queue
	if queue == "" {
		queue = where.DefaultQueue
	}
	if needs = w.Spec.Needs(); where.SelectorQueue(queue, needs) == w.Route.Queue() {
		return queue, needs
	}
	if preferred, ok := w.Spec.preferred(queue, w.Route); ok {
		return queue, preferred
	}
	needs = w.Spec.room() // it has fallen back, or was released
	return queue, needs
}
