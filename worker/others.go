package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
)

// othersFresh is how long an answer about other nodes stays valid.
const othersFresh = 2 * time.Second

// others knows the other nodes. It asks the log only on demand, and remembers the answers for a
// moment.
type others struct {
	log   *events.Recorder
	alive func(context.Context) (map[node.ID]node.Heartbeat, error)
	self  node.ID

	mu    sync.Mutex
	beats map[node.ID]node.Heartbeat // guarded by mu
	asked time.Time                  // guarded by mu; when the beats were read
	known map[node.ID]knownNode      // guarded by mu
}

type knownNode struct {
	events.KnownNode
	at time.Time
}

// peers implements [claim.Preferring.Peers].
func (o *others) peers(ctx context.Context, t *task.Task, only string) []duties.Peer {
	nodes, err := o.all(ctx, only)
	if err != nil {
		return nil
	}
	want := node.WantOfTask(t)
	var list []duties.Peer
	for _, n := range nodes {
		if rule, _ := n.Excluded(want); rule == "" {
			list = append(list, duties.Peer{Node: string(n.ID), Labels: n.Selectable(), At: n.Head})
		}
	}
	return list
}

// alone tells whether this node is the only one that serves one of its queues; false if that cannot
// be found out.
func (o *others) alone(ctx context.Context, n *node.Node) bool {
	nodes, err := o.all(ctx, "")
	return err == nil && n.Alone(nodes)
}

// all returns the other nodes that send heartbeats; if only is not "", at most the node of that
// name.
func (o *others) all(ctx context.Context, only string) ([]node.Node, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.log.Now()
	if o.beats == nil || now.Sub(o.asked) >= othersFresh {
		beats, err := o.alive(ctx)
		if err != nil {
			return nil, err
		}
		o.beats, o.asked = beats, now
	}
	var nodes []node.Node
	for id, beat := range o.beats {
		if id == o.self || only != "" && string(id) != only {
			continue
		}
		n, err := o.node(ctx, id, now)
		if err != nil {
			return nil, err
		}
		if n.Session == beat.Session {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// node reads a node's present state, if the last reading is old. The caller holds o.mu.
func (o *others) node(ctx context.Context, id node.ID, now time.Time) (node.Node, error) {
	was, ok := o.known[id]
	if ok && now.Sub(was.at) < othersFresh {
		return was.Node, nil
	}
	if !ok {
		was.KnownNode = events.UnreadNode(id)
	}
	n, err := o.log.UpdateNode(ctx, was.KnownNode)
	if errors.Is(err, node.ErrUnknown) { // the log has lost what was known
		n, err = o.log.UpdateNode(ctx, events.UnreadNode(id))
	}
	if err != nil {
		return n.Node, err
	}
	if o.known == nil {
		o.known = map[node.ID]knownNode{}
	}
	o.known[id] = knownNode{n, now}
	return n.Node, nil
}
