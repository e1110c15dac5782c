package job

import (
	"fmt"

	"millrace/task/where"
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
func NamedNeeds(nodes []string, s *Spec) where.Selector {
	return append(where.Selector{{Key: where.LabelNode, Op: where.OpIn, Values: nodes}}, s.Room()...)
}
