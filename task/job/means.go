package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"millrace/task/placement"
)

// Labels that tell what a node can run. They override labels that the operator gave under these
// names.
const (
	// LabelHandler, followed by a name, is a handler that the node's program has registered.
	LabelHandler = "handler/"
	// LabelCommands is set if the node runs commands.
	LabelCommands = "runs/commands"
)

// Means returns the label that a node must have to run tasks of the spec; "" if any node can, or
// none has to.
func (s *Spec) Means() string {
	switch {
	case s == nil || s.Parental() && !s.Place.fans():
		return ""
	case s.Run != nil:
		return LabelCommands
	case s.Handler != "":
		return LabelHandler + s.Handler
	}
	return ""
}

// HasMeans says in words that a node has a label that [Spec.Means] returned.
func HasMeans(label string) string {
	if label == LabelCommands {
		return "runs commands"
	}
	return fmt.Sprintf("has the handler %q", label[len(LabelHandler):])
}

// MeansWords says in words that a node lacks a label that [Spec.Means] returned.
func MeansWords(label string) string {
	if label == LabelCommands {
		return "runs no commands"
	}
	return fmt.Sprintf("has no handler %q", label[len(LabelHandler):])
}

// NamedNeeds are the needs of a task for nodes with these names.
func NamedNeeds(nodes []string, s *Spec) placement.Selector {
	return append(placement.Selector{{Key: placement.LabelNode, Op: placement.OpIn, Values: nodes}}, s.Room()...)
}

// NeedWords says in words what a worker does that a task needs: it serves a queue, "" for any, and
// meets requirements.
func NeedWords(queue string, needs placement.Selector) string {
	var parts, has []string
	if queue != "" {
		parts = append(parts, fmt.Sprintf("serves queue %q", queue))
	}
	order := func(a, b placement.Requirement) int { return cmp.Compare(a.String(), b.String()) }
	for _, r := range slices.SortedFunc(slices.Values(needs), order) { // one route, one text
		names := strings.Join(slices.Sorted(slices.Values(r.Values)), " or ")
		switch means := r.Key == LabelCommands || strings.HasPrefix(r.Key, LabelHandler); {
		case means && r.Op == placement.OpExists:
			parts = append(parts, HasMeans(r.Key))
		case r.Key == placement.LabelNode && r.Op == placement.OpIn:
			parts = append(parts, "runs as node "+names)
		case r.Key == placement.LabelNode && r.Op == placement.OpNotIn:
			parts = append(parts, "runs under another name than "+names)
		default:
			has = append(has, r.String())
		}
	}
	if len(has) > 0 {
		parts = append(parts, "has "+strings.Join(has, ", "))
	}
	return strings.Join(parts, " and ")
}
