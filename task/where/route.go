package where

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/task/value"
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
// checked by [value.ValidName], which knows no sign.
func ValidQueue(queue string) error {
	if queue != "" && queue[0] == nodeSign {
		return value.ValidName("node", queue[1:])
	}
	if IsSelectorQueue(queue) {
		return value.ValidName("selector", queue[1:])
	}
	return value.ValidName("queue", queue)
}

// ValidPriority refuses a priority that is out of bounds.
func ValidPriority(p int) error {
	if p < MinPriority || p > MaxPriority {
		return fmt.Errorf("priority is %d, want %d to %d (the larger the more urgent)", p, MinPriority, MaxPriority)
	}
	return nil
}

// At is the route with another priority.
func (r Route) At(priority int) Route {
	if node, own := r.Node(); own {
		return NodeRoute(node, priority)
	}
	return QueueRoute(r.Queue(), priority)
}

// Asked is what a route of a selector asks of nodes: the meaning of its hash. A task bears it where it
// does not follow from its spec: it was moved to nodes that can run it, or that it prefers to others.
type Asked struct {
	// Queue must be served; "" asks for no queue, as the names of nodes do.
	Queue string `json:"queue,omitempty"`
	// Needs must choose the node's labels.
	Needs Selector `json:"needs,omitempty"`
}

// Route is the route of those nodes at a priority.
func (a *Asked) Route(priority int) Route { return SelectorRoute(a.Queue, a.Needs, priority) }

// with is what is asked, and more.
func (a Asked) With(more ...Requirement) *Asked {
	return &Asked{a.Queue, append(a.Needs[:len(a.Needs):len(a.Needs)], more...)}
}

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
