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
	// LabelImages is set if it runs images, and LabelRuntime, followed by one of [Runtimes], if it
	// does so by that program.
	LabelImages  = "runs/images"
	LabelRuntime = "runs/"
)

// IsMeans tells whether a label tells what a node can run.
func IsMeans(label string) bool {
	return label == LabelCommands || label == LabelImages || strings.HasPrefix(label, LabelHandler) || slices.Contains(Runtimes, strings.TrimPrefix(label, LabelRuntime))
}

// Means returns the label that a node must have to run tasks of the spec; "" if any node can, or
// none has to.
func (s *Spec) Means() string {
	switch {
	case s == nil || s.Parental() && !s.Place.fans():
		return ""
	case s.Run != nil && s.Run.Runtime != "":
		return LabelRuntime + s.Run.Runtime
	case s.Run != nil && s.Run.Image != "":
		return LabelImages
	case s.Run != nil:
		return LabelCommands
	case s.Handler != "":
		return LabelHandler + s.Handler
	}
	return ""
}

// HasMeans says in words that a node has a label that [Spec.Means] returned.
func HasMeans(label string) string {
	if name, handler := strings.CutPrefix(label, LabelHandler); handler {
		return fmt.Sprintf("has the handler %q", name)
	}
	return "runs " + runsWhat(label)
}

// MeansWords says in words that a node lacks a label that [Spec.Means] returned.
func MeansWords(label string) string {
	if name, handler := strings.CutPrefix(label, LabelHandler); handler {
		return fmt.Sprintf("has no handler %q", name)
	}
	return "runs no " + runsWhat(label)
}

func runsWhat(label string) string {
	what := strings.TrimPrefix(label, LabelRuntime)
	if slices.Contains(Runtimes, what) {
		return "images by " + what
	}
	return what
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
		switch means := IsMeans(r.Key); {
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
