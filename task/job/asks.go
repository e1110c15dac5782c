package job

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
	return append(needs[:len(needs):len(needs)], s.Room()...)
}

// Room is what is left of the needs of a task that may run anywhere.
func (s *Spec) Room() where.Selector {
	if s.Cost() <= 1 {
		return nil
	}
	return where.Selector{{Key: where.LabelSlots, Op: where.OpGreaterEqual, Values: []string{strconv.Itoa(s.Cost())}}}
}

// Users are those as whom the processes of a spec run, steps included; "" is the worker's own.
func (s *Spec) Users() []string {
	var all []string
	s.whole(func(s *Spec) {
		if s.Run != nil {
			all = append(all, s.Run.User)
		}
	})
	return all
}
