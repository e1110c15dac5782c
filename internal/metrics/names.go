package metrics

import (
	"strings"
	"sync"

	"millrace/task/placement"
)

// Caps of names in labels. Further names are counted under [Other], or [OtherNode] for a node's own
// route.
const (
	MaxQueues = 100
	MaxNodes  = 200
)

// Names that many share.
const (
	Other     = "other"
	OtherNode = "other nodes"
)

// Names bounds the number of different names in a label: the first ones are kept, all others share
// one. Safe for concurrent use.
type Names struct {
	mu    sync.Mutex
	known map[string]struct{} // guarded by mu
	max   int
	other string
}

// NewNames returns a set of at most most names beside the shared one.
func NewNames(most int, other string) *Names {
	return &Names{known: map[string]struct{}{}, max: most, other: other}
}

// Of returns the name under which name is counted.
func (n *Names) Of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[name]; ok {
		return name
	}
	if len(n.known) >= n.max {
		return n.other
	}
	name = strings.Clone(name) // it may be part of a message
	n.known[name] = struct{}{}
	return name
}

// Queues bounds the names of queues and, separately, of nodes' own routes, which begin with '@'.
type Queues struct{ queues, routes *Names }

// NewQueues returns an empty set with the caps of this package.
func NewQueues() *Queues {
	return &Queues{NewNames(MaxQueues, Other), NewNames(MaxNodes, OtherNode)}
}

// Of returns the name under which a queue or route is counted: "node w3" for the own route of node
// w3.
func (q *Queues) Of(name string) string {
	if on, own := placement.NodeOf(name); own {
		return q.routes.Of(NodeQueue(on))
	}
	return q.queues.Of(name)
}

// NodeQueue is the name under which tasks that wait for one node are counted. It contains a space,
// so no queue has it.
func NodeQueue(node string) string { return "node " + node }

// shared tells whether several names are counted under this one.
func shared(name string) bool { return name == Other || name == OtherNode }
