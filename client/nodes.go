package client

import (
	"context"
	"fmt"
	"math"
	"time"

	"millrace/jet/roles"
	"millrace/node"
	"millrace/task"
	"millrace/task/value"
	"millrace/view"
)

// NodeListRequest asks for the nodes.
type NodeListRequest struct {
	AtLeast uint64 `json:"at_least,omitempty"`
	// Bare asks for the nodes alone: not how much they run, nor when they last beat.
	Bare bool `json:"bare,omitempty"`
	// At is a moment of the past: a sequence of the log, or a time; "" is now. When nodes beat then is not known.
	At string `json:"at,omitempty"`
}

// NodePage is all nodes.
type NodePage struct {
	Nodes []NodeView `json:"nodes"`
	Seq   uint64     `json:"seq"`
}

// NodeView is a node as the service shows it.
type NodeView struct {
	node.Node
	// Running is how many tasks it runs, as far as the log knows.
	Running int `json:"running"`
	// Drained is whether an operator has drained it and nothing is left on it.
	Drained bool `json:"drained,omitempty"`
	// MeanSession is how long it was online each time, on the average, and Score
	// its flap score at the moment.
	MeanSession value.Duration `json:"mean_session"`
	Score       float64        `json:"score"`
	// Next is who must act on it.
	Next node.Duty `json:"next"`
	// LastBeat is its last heartbeat; zero if that has run out.
	LastBeat time.Time `json:"last_beat,omitzero"`
	// Silent is whether that is so old that State holds no longer; see [node.Node.Silent].
	Silent bool `json:"silent,omitempty"`
}

// Nodes asks the read model for the nodes. The error wraps [jet.ErrNoService]
// if no server answers.
func (c *Client) Nodes(ctx context.Context, r NodeListRequest) (NodePage, error) {
	var page NodePage
	err := c.store.Ask(ctx, roles.NodeList, r, &page)
	return page, err
}

// Runs notes how many tasks the node runs.
func (v *NodeView) Runs(n int) {
	v.Running, v.Drained = n, n == 0 && v.State == node.Draining && v.Standing.Order == node.OrderDrain
}

// ViewNode is a node as it is shown, without what only a server knows.
func ViewNode(n node.Node, now time.Time, s node.Settings) NodeView {
	return NodeView{
		Node: n, MeanSession: value.Duration(n.MeanSession().Truncate(time.Millisecond)),
		Score: math.Round(n.Flap.Now(now)*100) / 100, Next: node.Owes(n, s),
	}
}

// RunsOn is how many tasks a node runs, as far as the log knows.
func RunsOn(ctx context.Context, v view.View, id node.ID) (int, error) {
	c, err := v.Count(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Node: string(id), States: []task.State{task.Running, task.Cancelling}}})
	return c.All(), err
}

// NodesOf is the nodes of a view as they are shown at a time; their heartbeats only if it is the present.
func NodesOf(ctx context.Context, v view.View, now time.Time, s node.Settings) (NodePage, error) {
	all, err := v.List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return NodePage{}, err
	}
	p, present := v.(view.Present)
	var beats map[node.ID]node.Heartbeat
	if present {
		if beats, err = p.Beats(ctx); err != nil {
			return NodePage{}, err
		}
	}
	page := NodePage{Nodes: make([]NodeView, 0, len(all.Nodes)), Seq: all.Point.Seq}
	for _, n := range all.Nodes {
		running, err := RunsOn(ctx, v, n.ID)
		if err != nil {
			return page, err
		}
		shown := ViewNode(n, now, s)
		if shown.Runs(running); present {
			if h := beats[n.ID]; h.Session == n.Session {
				shown.LastBeat = h.At
			}
			shown.Silent = n.Silent(shown.LastBeat, now, s)
		}
		page.Nodes = append(page.Nodes, shown)
	}
	return page, nil
}

// Node reads a node from the log. The error wraps [node.ErrUnknown] if nobody has
// ever registered under this name.
func (c *Client) Node(ctx context.Context, id node.ID) (node.Node, error) {
	return view.GetNode(ctx, c.View(), id)
}

// OrderNode tells a node to serve, to take no new work, or moreover to end or give
// back what runs; grace is how long that may go on, 0 for the worker's own
// setting. It holds until the next order, over restarts of the worker. The
// error wraps [node.ErrUnknown] or [node.ErrRetired].
func (c *Client) OrderNode(ctx context.Context, id node.ID, order node.Order, reason string, grace time.Duration) (node.Node, error) {
	if grace < 0 {
		return node.Node{ID: id}, fmt.Errorf("grace is %v, want none below zero", grace)
	}
	return c.changeNode(ctx, id, node.Change{Order: order, Reason: reason, Grace: value.Duration(grace)})
}

// LabelNode changes labels of a node, whatever its worker says of itself: a value sets
// one, nil removes it. The error is as that of [Client.OrderNode].
func (c *Client) LabelNode(ctx context.Context, id node.ID, labels map[string]*string, reason string) (node.Node, error) {
	return c.changeNode(ctx, id, node.Label{Labels: labels, Reason: reason})
}

// ReleaseNode ends a node's quarantine. The error is as that of [Client.OrderNode].
func (c *Client) ReleaseNode(ctx context.Context, id node.ID, reason string) (node.Node, error) {
	return c.changeNode(ctx, id, node.Release{Reason: reason})
}

// RetireNode says that a node will not come back, and removes what the server
// holds for it besides its facts. The error wraps [node.ErrAlive] while its worker
// beats, else it is as that of [Client.OrderNode]. To do it again is harmless.
func (c *Client) RetireNode(ctx context.Context, id node.ID, reason string) (node.Node, error) {
	n, err := c.changeNode(ctx, id, node.Retire{Reason: reason})
	if err != nil {
		return n, err
	}
	return n, c.store.DropNode(ctx, id)
}

func (c *Client) changeNode(ctx context.Context, id node.ID, command node.Command) (node.Node, error) {
	if err := id.Validate(); err != nil {
		return node.Node{ID: id}, err
	}
	n, _, err := c.rec.DoNode(ctx, id, command)
	return n, err
}

// WaitNode returns a node when it is ready and has been so without a drop for as
// long as stable says, 0 for at once. If ctx ends before that the error wraps
// ctx's, and the node is as it was last seen; [node.Owes] then says what it
// waits for. A node that nobody knows yet may still come. Changed, if not nil, is
// called with the node as it is at first and after every change.
func (c *Client) WaitNode(ctx context.Context, id node.ID, stable time.Duration, changed func(node.Node)) (node.Node, error) {
	n := node.Node{ID: id}
	if err := id.Validate(); err != nil {
		return n, err
	}
	poke := make(chan struct{}, 1)
	stop, err := c.store.WatchNode(id, func() {
		select {
		case poke <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return n, err
	}
	defer stop()
	told := false
	for {
		now, err := c.rec.UpdateNode(ctx, n)
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		if err == nil { // else the server is away: it comes back, or ctx ends
			if changed != nil && (!told || now.Head != n.Head) {
				told = true
				changed(now)
			}
			if n = now; n.Stable(c.Now(), stable) {
				return n, nil
			}
		}
		again := lookAgain
		if n.State == node.Ready {
			again = min(again, max(n.ReadySince.Add(stable).Sub(c.Now()), time.Millisecond))
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-poke:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Ping asks the process of a node for itself, past the log and any server of Millrace. The error
// wraps [presence.ErrNoPong] if none answers before ctx ends.
func (c *Client) Ping(ctx context.Context, id node.ID) (node.Pong, error) {
	return c.store.Ping(ctx, id)
}
