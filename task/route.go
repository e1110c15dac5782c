package task

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of priorities; the larger one is the more urgent.
const (
	MinPriority     = 1
	DefaultPriority = 5
	MaxPriority     = 10
)

// DefaultQueue is the queue of a job that names none.
const DefaultQueue = "default"

// Route says where an offer goes: "<queue>.<priority>", for example
// "default.5", or "@<node>.<priority>" for one node and nobody else, or
// "~<hash>.<priority>" for those nodes of a queue that a selector chooses. It is
// spelled the same in facts, in subjects and on the command line. A queue's name
// never begins with a sign, so no queue is taken for a node.
type Route string

// nodeSign begins the routes of nodes, selectorSign those of selectors.
const (
	nodeSign     = '@'
	selectorSign = '~'
)

// QueueRoute is the route of a queue at a priority.
func QueueRoute(queue string, priority int) Route {
	if queue == DefaultQueue && priority == DefaultPriority {
		return "default.5" // what nearly every task takes, without allocation
	}
	return Route(queue + "." + strconv.Itoa(priority))
}

// NodeRoute is the route of one node at a priority.
func NodeRoute(node string, priority int) Route {
	return Route(NodeQueue(node) + "." + strconv.Itoa(priority))
}

// NodeQueue is what stands in a node's route in place of a queue: who pulls it
// gets what is meant for that node.
func NodeQueue(node string) string { return string(nodeSign) + node }

// Node is the node whose route it is; the second result is false for a queue's.
func (r Route) Node() (string, bool) {
	return NodeOf(r.Queue())
}

// NodeOf is the reverse of [NodeQueue]; the second result is false for a queue's name.
func NodeOf(queue string) (string, bool) {
	if queue == "" || queue[0] != nodeSign {
		return "", false
	}
	return queue[1:], true
}

// SelectorRoute is the route of the nodes of a queue that a selector chooses.
func SelectorRoute(queue string, s Selector, priority int) Route {
	return Route(SelectorQueue(queue, s) + "." + strconv.Itoa(priority))
}

// SelectorQueue is what stands in such a route in place of a queue. It is the same
// for all selectors with the same requirements.
func SelectorQueue(queue string, s Selector) string { return string(selectorSign) + hashed(queue, s) }

// Selected tells whether it is the route of a selector.
func (r Route) Selected() bool { return IsSelectorQueue(string(r)) }

// IsSelectorQueue tells whether a queue part is one that [SelectorQueue] returns.
func IsSelectorQueue(queue string) bool { return queue != "" && queue[0] == selectorSign }

// Queue is the queue's name, or what [NodeQueue] says of a node or [SelectorQueue]
// of a selector.
func (r Route) Queue() string {
	name, _, _ := strings.Cut(string(r), ".")
	return name
}

// Priority is the last part of the route, or [DefaultPriority] if that is no number.
func (r Route) Priority() int {
	_, text, _ := strings.Cut(string(r), ".")
	p, err := strconv.Atoi(text)
	if err != nil {
		return DefaultPriority
	}
	return p
}

// Validate refuses a route that is not a queue's or node's and a priority in bounds.
func (r Route) Validate() error {
	queue, text, ok := strings.Cut(string(r), ".")
	if !ok {
		return fmt.Errorf("route %q: want <queue>.<priority>, for example %s", string(r), QueueRoute(DefaultQueue, DefaultPriority))
	}
	if err := ValidQueue(queue); err != nil {
		return err
	}
	// Only one spelling, for "default.05" is another subject, which nobody pulls.
	if p, err := strconv.Atoi(text); err != nil || p < MinPriority || p > MaxPriority || strconv.Itoa(p) != text {
		return fmt.Errorf("route %q: the priority is %q, want %d to %d", string(r), text, MinPriority, MaxPriority)
	}
	return nil
}

// ValidQueue refuses what can be no part of a route before its priority: neither
// a queue's name nor what [NodeQueue] or [SelectorQueue] returns. Names that users give to queues are
// checked by [ValidName], which knows no sign.
func ValidQueue(queue string) error {
	if queue != "" && queue[0] == nodeSign {
		return ValidName("node", queue[1:])
	}
	if IsSelectorQueue(queue) {
		return ValidName("selector", queue[1:])
	}
	return ValidName("queue", queue)
}

// ValidName refuses a name (of a queue, a job or a node; what says which) that
// cannot be one token of a subject: 1 to 64 letters, digits, _ or -, not
// beginning with -.
func ValidName(what, s string) error {
	if !isName(s) {
		return fmt.Errorf("%s name %q: want 1 to 64 letters, digits, '_' or '-', not beginning with '-'", what, s)
	}
	return nil
}

// isName is by hand because each offer that is read or written asks.
func isName(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
