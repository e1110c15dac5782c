package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
)

// Want is what a task requires of a node.
type Want struct {
	// Queue must be served; "" if only names matter.
	Queue string
	// Nodes are the only nodes that may run it; none for all.
	Nodes []string
	// Needs must match the node's labels.
	Needs placement.Selector
	// Means is the label for what the node must be able to run, from [job.Spec.Means]; "" for none.
	Means string
}

// WantOf is what the spec of a task in a queue requires of nodes, regardless of where the task
// waits at present.
func WantOf(spec *job.Spec, queue string) Want {
	if spec == nil {
		return Want{Queue: queue}
	}
	w := Want{Queue: queue, Nodes: spec.Place.Nodes, Needs: spec.Needs(), Means: spec.Means()}
	if len(w.Nodes) > 0 && len(spec.Place.Labels)+len(spec.Place.Avoid) == 0 {
		w.Queue = "" // a node's own route requires no queue
	}
	return w
}

// Rule is a reason that excludes a node from a task.
type Rule string

// The rules. The first ones concern lasting properties of the node, the others its present state.
const (
	RuleName    Rule = "name"    // the task names other nodes
	RuleAvoid   Rule = "avoid"   // the task avoids it
	RuleQueue   Rule = "queue"   // it does not serve the queue
	RuleLabel   Rule = "label"   // its labels do not match
	RuleSlots   Rule = "slots"   // the task takes more slots than it has
	RuleHandler Rule = "handler" // it lacks the task's handler, or runs no commands
	RuleRetired Rule = "retired" // it will not come back

	RuleOffline     Rule = "offline"
	RuleDraining    Rule = "draining"
	RuleQuarantined Rule = "quarantined"
	RuleCordoned    Rule = "cordoned"
	RuleUnproved    Rule = "unproved" // it beats, and has not proved yet that work reaches it
)

// Passing tells whether the rule concerns the node's present state rather than a lasting property.
func (r Rule) Passing() bool {
	switch r {
	case RuleOffline, RuleDraining, RuleQuarantined, RuleCordoned, RuleUnproved:
		return true
	}
	return false
}

// Excluded returns the rule that keeps a task from the node, and the reason in words; "" if the
// node may claim it. Busy slots exclude no node: the task waits for one.
func (n *Node) Excluded(w Want) (Rule, string) {
	if n.State == Retired || n.State == Unknown {
		return RuleRetired, "it is " + n.State.String()
	}
	if len(w.Nodes) > 0 && !slices.Contains(w.Nodes, string(n.ID)) {
		return RuleName, "the task is for " + strings.Join(w.Nodes, ", ")
	}
	if w.Queue != "" && !slices.Contains(n.Queues, w.Queue) && w.Queue != n.ID.Queue() {
		return RuleQueue, fmt.Sprintf("it does not serve queue %q, but %s", w.Queue, strings.Join(n.Queues, ", "))
	}
	if len(w.Needs) > 0 {
		labels := n.Selectable()
		if r := w.Needs.Refuses(labels); r != nil {
			_, why := w.Needs.Match(labels)
			switch {
			case r.Op == placement.OpExists && job.IsMeans(r.Key):
				return RuleHandler, "it " + job.MeansWords(r.Key)
			case r.Key == placement.LabelSlots:
				return RuleSlots, fmt.Sprintf("it has %d slots, and %s is asked for", n.Slots, r)
			case r.Key == placement.LabelNode && r.Op == placement.OpNotIn:
				return RuleAvoid, "the task avoids it"
			case r.Key == placement.LabelNode && r.Op == placement.OpIn:
				return RuleName, "the task is for " + strings.Join(r.Values, ", ")
			}
			return RuleLabel, why
		}
	}
	if !n.Runs(w.Means) {
		return RuleHandler, "it " + job.MeansWords(w.Means)
	}
	return n.standsAside()
}

// standsAside is the rule by which the node takes no new work at all; "" if it takes some.
func (n *Node) standsAside() (Rule, string) {
	switch {
	case n.Takes():
		return "", ""
	case n.State == Draining:
		return RuleDraining, n.Reason
	case n.State == Quarantined:
		return RuleQuarantined, n.Reason
	case n.State == Offline:
		return RuleOffline, n.Reason
	case n.Standing.Order == OrderCordon:
		return RuleCordoned, n.Standing.Words()
	}
	return RuleUnproved, "it has not proved yet that work reaches it"
}

// undo names the command that has a node take work again which an operator, or a quarantine, keeps
// from it; none if that takes its worker.
func (n *Node) undo() []string {
	verb := ""
	switch rule, _ := n.standsAside(); {
	case rule == RuleQuarantined:
		verb = "release"
	case rule == RuleCordoned:
		verb = "uncordon"
	case rule == RuleDraining && !n.Leaving:
		verb = "undrain"
	default:
		return nil
	}
	return []string{fmt.Sprintf("`millrace node %s %s`", verb, n.ID)}
}

// WantOfTask is what a task requires of nodes where it waits at present.
func WantOfTask(t *task.Task) Want {
	queue, needs := t.Asks()
	on, own := t.Route.Node()
	if !own {
		return Want{Queue: queue, Needs: needs, Means: t.Spec.Means()}
	}
	w := Want{Nodes: []string{on}, Means: t.Spec.Means()}
	if t.Spec != nil && slices.Contains(t.Spec.Place.Nodes, on) {
		w = WantOf(t.Spec, "")
	}
	return w
}

// Verdict says whether a node may claim a task and, if not, why.
type Verdict struct {
	// Node is its id.
	Node ID `json:"node"`
	// Rule excludes the node; "" if it may claim the task.
	Rule Rule `json:"rule,omitempty"`
	// Why explains the rule in words.
	Why string `json:"why,omitempty"`
	// Score is the node's score by the preferences of the task.
	Score int `json:"score,omitempty"`
	// Ran says that the task sticks to this node.
	Ran bool `json:"ran,omitempty"`
}

// Eligible judges all nodes. Those that may claim the task come first.
func Eligible(nodes []Node, w Want) []Verdict {
	all := make([]Verdict, len(nodes))
	for i := range nodes {
		rule, why := nodes[i].Excluded(w)
		all[i] = Verdict{Node: nodes[i].ID, Rule: rule, Why: why}
	}
	slices.SortFunc(all, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(min(len(a.Rule), 1), min(len(b.Rule), 1)), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// Choose picks count of the nodes, which all may claim the task, and returns their names and those
// of the rest. It takes them by name. With a label to spread over, it takes one for each value of
// the label in turn, and nodes without the label last.
func Choose(nodes []Node, count int, spread string) (names, spares []string) {
	groups := map[string][]string{}
	var order, turn, without []string
	for i := range nodes {
		value, ok := nodes[i].Labels[spread]
		if spread != "" && !ok {
			without = append(without, string(nodes[i].ID))
			continue
		}
		if _, ok := groups[value]; !ok {
			order = append(order, value)
		}
		groups[value] = append(groups[value], string(nodes[i].ID))
	}
	slices.Sort(order)
	for taken := true; taken; {
		taken = false
		for _, value := range order {
			if group := groups[value]; len(group) > 0 {
				slices.Sort(group)
				turn, groups[value], taken = append(turn, group[0]), group[1:], true
			}
		}
	}
	slices.Sort(without)
	turn = append(turn, without...)
	count = min(max(count, 0), len(turn))
	return turn[:count:count], turn[count:]
}

// Expand finds the children of a parent: its own children, or else some of the nodes as of a
// sequence.
func Expand(t *task.Task, nodes []Node, at uint64) task.Expand {
	place := &t.Spec.Place
	if own, ok := birth.OwnChildren(t); ok {
		return task.Expand{Children: own}
	}
	c := task.Children{AtSeq: at}
	if len(place.Nodes) > 0 { // known or not
		c.Names = place.Nodes
		return task.Expand{Children: c}
	}
	want := WantOf(t.Spec, t.Route.Queue())
	var able []Node
	for i := range nodes {
		if rule, _ := nodes[i].Excluded(want); rule == "" {
			able = append(able, nodes[i])
		}
	}
	count := len(able)
	if place.Count > 0 {
		count = place.Count
	}
	c.Names, c.Spares = Choose(able, count, place.Spread)
	return task.Expand{Children: c}
}
