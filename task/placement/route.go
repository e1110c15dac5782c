package placement

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/task/value"
)

// Bounds of priorities; larger is more urgent.
const (
	MinPriority     = 1
	DefaultPriority = 5
	MaxPriority     = 10
)

// DefaultQueue is the queue of a job that sets none.
const DefaultQueue = "default"

// Route says where an offer goes: "<queue>.<priority>", for example "default.5";
// "@<node>.<priority>" for exactly one node; or "~<hash>.<priority>" for the nodes of a queue that
// a selector chooses. Facts, subjects and the command line spell it the same. A queue's name never
// begins with a sign, so it cannot be mistaken for a node.
type Route string

// nodeSign begins the routes of nodes, selectorSign those of selectors.
const (
	nodeSign     = '@'
	selectorSign = '~'
)

// QueueRoute is the route of a queue at a priority.
func QueueRoute(queue string, priority int) Route {
	if queue == DefaultQueue && priority == DefaultPriority {
		return "default.5" // the most frequent route, without allocation
	}
	return Route(queue + "." + strconv.Itoa(priority))
}

// NodeRoute is the route of one node at a priority.
func NodeRoute(node string, priority int) Route {
	return Route(NodeQueue(node) + "." + strconv.Itoa(priority))
}

// NodeQueue takes the place of a queue in a node's route. The worker that pulls from it gets the
// offers meant for that node.
func NodeQueue(node string) string { return string(nodeSign) + node }

// Node returns the node of a node's route; false for any other route.
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

// SelectorQueue takes the place of a queue in such a route. It is the same for all selectors with
// the same requirements.
func SelectorQueue(queue string, s Selector) string { return string(selectorSign) + hashed(queue, s) }

// Selected tells whether it is the route of a selector.
func (r Route) Selected() bool { return IsSelectorQueue(string(r)) }

// IsSelectorQueue tells whether a queue part has the form of [SelectorQueue].
func IsSelectorQueue(queue string) bool { return queue != "" && queue[0] == selectorSign }

// Queue returns the queue's name, or the form of [NodeQueue] or [SelectorQueue].
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

// Validate refuses a route that is not of the three forms, or whose priority is out of bounds.
func (r Route) Validate() error {
	queue, text, ok := strings.Cut(string(r), ".")
	if !ok {
		return fmt.Errorf("route %q: want <queue>.<priority>, for example %s", string(r), QueueRoute(DefaultQueue, DefaultPriority))
	}
	if err := ValidQueue(queue); err != nil {
		return err
	}
	// Only one spelling is valid: "default.05" would be another subject, from which no worker
	// pulls.
	if p, err := strconv.Atoi(text); err != nil || p < MinPriority || p > MaxPriority || strconv.Itoa(p) != text {
		return fmt.Errorf("route %q: the priority is %q, want %d to %d", string(r), text, MinPriority, MaxPriority)
	}
	return nil
}

// ValidQueue refuses an invalid queue part of a route: it accepts a queue's name and the forms of
// [NodeQueue] and [SelectorQueue]. Use [value.ValidName] for names that users give to queues: it
// accepts no sign.
func ValidQueue(queue string) error {
	if queue != "" && queue[0] == nodeSign {
		return value.ValidName("node", queue[1:])
	}
	if IsSelectorQueue(queue) {
		return value.ValidName("selector", queue[1:])
	}
	return value.ValidName("queue", queue)
}

// ValidPriority refuses a priority out of bounds.
func ValidPriority(p int) error {
	if p < MinPriority || p > MaxPriority {
		return fmt.Errorf("priority is %d, want %d to %d (the larger the more urgent)", p, MinPriority, MaxPriority)
	}
	return nil
}

// At returns the route with another priority.
func (r Route) At(priority int) Route {
	if node, own := r.Node(); own {
		return NodeRoute(node, priority)
	}
	return QueueRoute(r.Queue(), priority)
}

// Asked is what a selector's route requires of nodes: the meaning of its hash. A task stores it
// where it does not follow from the spec, because the task was moved to nodes that can run it or
// that it prefers.
type Asked struct {
	// Queue must be served; "" requires no queue, as for named nodes.
	Queue string `json:"queue,omitempty" redact:"keep"`
	// Needs must match the node's labels.
	Needs Selector `json:"needs,omitempty"`
}

// Route is the route of those nodes at a priority.
func (a *Asked) Route(priority int) Route { return SelectorRoute(a.Queue, a.Needs, priority) }

// With returns the requirements together with more.
func (a Asked) With(more ...Requirement) *Asked {
	return &Asked{a.Queue, append(a.Needs[:len(a.Needs):len(a.Needs)], more...)}
}

// Declaration gives the meaning of a selector's route, so that nodes can find out which of these
// routes they match. It follows from any task that was offered there, so it is not a fact of its
// own. The component that places an offer on such a route declares the route first.
type Declaration struct {
	// Queue is the queue that a node must serve, besides matching Needs.
	Queue string   `json:"queue"`
	Needs Selector `json:"needs"`
	// From is a sequence before which the route has no offers.
	From uint64 `json:"from"`
	// At is when it was last declared, within about an hour.
	At time.Time `json:"at"`
	// By is who declared it first: the actor of a birth. "" if a scheduler did for a task that waits.
	By string `json:"by,omitempty"`
	// Unserved says that it is of the queue itself, in which no worker has served when the first task
	// was submitted. Nodes need not know it: it only counts.
	Unserved bool `json:"unserved,omitempty"`
}

// Route is the queue part of the declared route.
func (d Declaration) Route() string {
	if d.Unserved {
		return d.Queue
	}
	return SelectorQueue(d.Queue, d.Needs)
}

// Mark is the name of the declaration.
func (d Declaration) Mark() string {
	if d.Unserved {
		return hashed("queue "+d.Queue, nil)
	}
	return hashed(d.Queue, d.Needs)
}
