package view

import (
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// FactFilter selects facts of the log. A fact must match all fields that are set.
type FactFilter struct {
	// Types are the types of the facts; "task", "attempt" and "node" stand for all types that begin
	// so. Default: any.
	Types []string `json:"types,omitempty"`
	// Task is the task of the facts.
	Task task.ID `json:"task,omitempty"`
	// Node is the node that they are about, name, or come from.
	Node string `json:"node,omitempty"`
	// Queue is the queue that they are about, or that of their task.
	Queue string `json:"queue,omitempty"`
}

// Trace chooses facts by those properties that an index knows. A fact must match all fields that
// are set.
type Trace struct {
	Types []string // as in a [FactFilter]
	Node  string
	// Queue, Job and Schedule are those that the fact is about, or of its task.
	Queue, Job, Schedule string
	Actor                string
	// OldestFirst turns the order round.
	OldestFirst bool
}

// OfType tells whether the trace chooses facts of a type, if they match in all other fields.
func (t *Trace) OfType(is events.Type) bool {
	return len(t.Types) == 0 || slices.ContainsFunc(t.Types, func(asked string) bool { return ofType(asked, is) })
}

// FactTraits are the properties of a record that a [FactFilter] checks.
type FactTraits struct {
	Type  events.Type // "" if it is not a fact
	Task  task.ID
	Node  string
	Actor string
	Queue string
}

// TraitsOf returns the properties of a record. Queue is the queue of its task; "" if unknown, or if
// it has no task.
func TraitsOf(r *events.Record, queue string) FactTraits {
	if !r.IsFact() {
		return FactTraits{}
	}
	if queue == "" {
		queue = r.Fact.Queue
	}
	return FactTraits{r.Fact.Type, r.Fact.Task, FactNode(r), r.Fact.Actor, queue}
}

// FactNode is the node that a fact names; "" for none.
func FactNode(r *events.Record) string {
	switch e := r.Fact.Event.(type) {
	case task.AttemptStarted:
		return e.Node
	case task.AttemptAdopted:
		return e.Node
	case task.AttemptLate:
		return e.Node
	case task.Throttled:
		return e.Node
	}
	return string(r.Fact.Node)
}

// TypeNames lists all types of facts.
func TypeNames() []string {
	names := make([]string, len(events.Types))
	for i, t := range events.Types {
		names[i] = string(t)
	}
	return names
}

// Validate refuses an invalid filter. The error wraps [ErrQuery].
func (f *FactFilter) Validate() error {
	for _, t := range f.Types {
		if !slices.ContainsFunc(events.Types, func(known events.Type) bool { return ofType(t, known) }) {
			return fmt.Errorf("%w: there is no type %q; there are %s", ErrQuery, t, strings.Join(TypeNames(), ", "))
		}
	}
	if f.Task != "" {
		if _, err := task.ParseID(string(f.Task)); err != nil {
			return fmt.Errorf("%w: %w", ErrQuery, err)
		}
	}
	if f.Node != "" {
		if err := node.ID(f.Node).Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrQuery, err)
		}
	}
	if f.Queue != "" {
		if err := value.ValidName("queue", f.Queue); err != nil {
			return fmt.Errorf("%w: %w", ErrQuery, err)
		}
	}
	return nil
}

// Chooses tells whether the filter excludes any fact.
func (f *FactFilter) Chooses() bool {
	return len(f.Types) > 0 || f.Task != "" || f.Node != "" || f.Queue != ""
}

// Wants tells whether the filter selects a record.
func (f *FactFilter) Wants(is *FactTraits) bool {
	switch {
	case !f.Chooses():
		return true
	case is.Type == "",
		f.Task != "" && is.Task != f.Task,
		f.Node != "" && is.Node != f.Node && is.Actor != f.Node,
		f.Queue != "" && is.Queue != f.Queue:
		return false
	}
	t := Trace{Types: f.Types}
	return t.OfType(is.Type)
}

// ofType tells whether a type is the requested one, or of the requested kind.
func ofType(asked string, t events.Type) bool {
	return asked == string(t) || strings.HasPrefix(string(t), asked+".")
}
