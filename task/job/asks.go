package job

import (
	"slices"
	"strconv"
	"strings"

	"millrace/task/limit"
	"millrace/task/placement"
)

// Needs returns all that the spec requires of a node's labels: the selector, the nodes to avoid and
// the slots. Named nodes are part of it only together with labels or nodes to avoid. A task with
// named nodes alone waits on the routes of those nodes.
func (s *Spec) Needs() placement.Selector {
	if s == nil {
		return nil
	}
	needs := s.Place.Labels
	if len(s.Place.Avoid) > 0 {
		needs = append(needs[:len(needs):len(needs)], placement.Requirement{Key: placement.LabelNode, Op: placement.OpNotIn, Values: s.Place.Avoid})
	}
	if s.Place.Targeted() && s.Place.selective() {
		needs = append(needs[:len(needs):len(needs)], placement.Requirement{Key: placement.LabelNode, Op: placement.OpIn, Values: s.Place.Nodes})
	}
	return append(needs[:len(needs):len(needs)], s.Room()...)
}

// Room returns the requirements that remain if the task may run anywhere: enough slots, and a runtime
// for its image.
func (s *Spec) Room() placement.Selector {
	needs := s.runtimes()
	if s.Cost() > 1 {
		needs = append(needs, placement.Requirement{Key: placement.LabelSlots, Op: placement.OpGreaterEqual, Values: []string{strconv.Itoa(s.Cost())}})
	}
	return needs
}

// Users returns the users as which the processes of a spec and its steps run; "" is the worker's
// own user.
func (s *Spec) Users() []string {
	var all []string
	s.whole(func(s *Spec) {
		if s.Run != nil {
			all = append(all, s.Run.User)
		}
	})
	return all
}

// Named returns the queues and the nodes that a spec and its steps name.
func (s *Spec) Named() (queues, nodes []string) {
	see := func(p *Place, queue string) {
		queues, nodes = append(queues, queue, p.Queue), append(nodes, p.Nodes...)
	}
	see(&s.Place, "")
	steps := *s
	_ = steps.ChangeSteps(func(_ string, step *Step) error {
		see(&step.Place, step.Queue)
		return nil
	})
	return queues, nodes
}

// Keyed tells whether a key of the spec, or of one of its steps, is made of parameters.
func (s *Spec) Keyed() (keyed bool) {
	s.whole(func(s *Spec) {
		keys := []limit.Key{{Text: s.Lock().Key}, {Text: s.Place.Sticky}}
		for i := range Rules {
			if r := &Rules[i]; r.Keys != nil && r.Has(s) {
				keys = append(keys, r.Keys(s)...)
			}
		}
		keyed = keyed || slices.ContainsFunc(keys, func(k limit.Key) bool { return strings.Contains(k.Text, "{params.") })
	})
	return keyed
}
