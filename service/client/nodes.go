package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// NodeListRequest asks for the nodes.
type NodeListRequest struct {
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
	// Bare asks for the nodes alone: without their load and their last heartbeats.
	Bare bool `json:"bare,omitempty"`
	// At is a moment of the past: a sequence of the log, or a time; "" is now. Heartbeats of the
	// past are unknown.
	At string `json:"at,omitempty"`
	PageRequest
}

// NodePage is a page of nodes.
type NodePage struct {
	// Nodes are in the order of their ids. Seq is the sequence of the log that the page reflects.
	Nodes []NodeView `json:"nodes"`
	Seq   uint64     `json:"seq"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
	// Unserved are the tasks that wait for one node alone, which does not take them: it may never have
	// registered. Only the first page has them, and none of the past.
	Unserved []UnservedNode `json:"unserved,omitempty"`
}

// NodeView is a node as the service shows it.
type NodeView struct {
	node.Node
	// Running is how many tasks it runs, as far as the log knows.
	Running int `json:"running"`
	// Drained tells whether an operator has drained it and it has nothing left to run.
	Drained bool `json:"drained,omitempty"`
	// MeanSession is the mean duration of its sessions, and Score its current flap score.
	MeanSession value.Duration `json:"mean_session"`
	Score       float64        `json:"score"`
	// Next says who must act on it.
	Next node.Duty `json:"next"`
	// LastBeat is its last heartbeat; zero if that has expired.
	LastBeat time.Time `json:"last_beat,omitzero"`
	// Machine is what that heartbeat says of its machine; zero if it does not.
	Machine node.Machine `json:"machine,omitzero"`
	// Silent tells whether that is so old that State no longer holds; see [node.Node.Silent].
	Silent bool `json:"silent,omitempty"`
	// KeptBy is a task that has not ended and names the node, while the node is offline: it does not
	// retire by itself before all such tasks have ended. "" if there is none, and for the past.
	KeptBy task.ID `json:"kept_by,omitempty"`
}

// Nodes asks the read model for nodes: for all, if the request has no limit. The error wraps
// [jet.ErrNoService] if no server answers.
func (c *Client) Nodes(ctx context.Context, r NodeListRequest) (list NodePage, err error) {
	err = r.pages(func() (string, error) {
		var page NodePage
		err := c.ask(ctx, rights.NodeList, r, &page)
		list = NodePage{Nodes: joined(list.Nodes, page.Nodes), Seq: page.Seq, Next: page.Next, Unserved: append(list.Unserved, page.Unserved...)}
		return page.Next, err
	})
	return list, err
}

// Runs records how many tasks the node runs.
func (v *NodeView) Runs(n int) {
	v.Running, v.Drained = n, n == 0 && v.State == node.Draining && v.Standing.Order == node.OrderDrain
}

// FindKeeper finds out which task keeps an offline node from retiring. Sums are those of the present, else
// nothing is known.
func (v *NodeView) FindKeeper(ctx context.Context, sums view.Summed) (err error) {
	routed, present := sums.(node.Routed)
	if !present || v.State != node.Offline {
		return nil
	}
	if v.KeptBy, err = routed.Naming(ctx, v.ID); v.KeptBy != "" && !v.Next.By.IsZero() && v.Next.Who == node.Operator {
		v.Next.By, v.Next.Else = time.Time{}, fmt.Sprintf("it stays offline, and does not retire by itself: task %s names it", v.KeptBy)
	}
	return err
}

// ViewNode returns a node as it is shown, without what only a server knows.
func ViewNode(n node.Node, now time.Time, s node.Settings) NodeView {
	return NodeView{
		Node: n, MeanSession: value.Duration(n.MeanSession().Truncate(time.Millisecond)),
		Score: math.Round(n.Flap.Now(now)*100) / 100, Next: node.Owes(n, s),
	}
}

// RunsOn returns how many tasks a node runs, as far as the log knows.
func RunsOn(ctx context.Context, v view.View, id node.ID) (int, error) {
	c, err := v.Count(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Node: string(id), States: []task.State{task.Running, task.Cancelling}}})
	return c.All(), err
}

func nodeKey(n *node.Node) string { return string(n.ID) }

// Key is by what lists are in order.
func (v *NodeView) Key() string { return nodeKey(&v.Node) }

// NodesOf returns the nodes of a view as they are shown at a time, with heartbeats only for the
// present. The request chooses a page of them; without a limit all. Bare nodes have neither
// heartbeats nor what they run. sums are of the same place in the log, nil for none.
func NodesOf(ctx context.Context, v view.View, sums view.Summed, now time.Time, s node.Settings, r *NodeListRequest) (page NodePage, err error) {
	all, err := v.List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return NodePage{}, err
	}
	page.Seq = all.Point.Seq
	if routed, present := sums.(node.Routed); present && !r.Bare && r.Cursor == "" {
		routes, err := routed.PendingRoutes(ctx)
		if err != nil {
			return page, err
		}
		page.Unserved = unservedNodes(node.UnservedOf(routes, all.Nodes, nil, now))
	}
	if all.Nodes, page.Next, err = view.Section(all.Nodes, nodeKey, r.Limit, r.Cursor); err != nil {
		return page, err
	}
	page.Nodes = make([]NodeView, 0, len(all.Nodes))
	if r.Bare {
		for _, n := range all.Nodes {
			page.Nodes = append(page.Nodes, ViewNode(n, now, s))
		}
		return page, nil
	}
	p, present := v.(view.Present)
	var beats map[node.ID]node.Heartbeat
	if present {
		if beats, err = p.Beats(ctx); err != nil {
			return NodePage{}, err
		}
	}
	for _, n := range all.Nodes {
		running, err := RunsOn(ctx, v, n.ID)
		if err != nil {
			return page, err
		}
		shown := ViewNode(n, now, s)
		if shown.Runs(running); present {
			if h := beats[n.ID]; h.Session == n.Session {
				shown.LastBeat, shown.Machine = h.At, h.Machine
			}
			shown.Silent = n.Silent(shown.LastBeat, now, s)
		}
		if err := shown.FindKeeper(ctx, sums); err != nil {
			return page, err
		}
		page.Nodes = append(page.Nodes, shown)
	}
	return page, nil
}

// Node reads a node from the log. The error wraps [node.ErrUnknown] if no node has ever registered
// under this name.
func (c *Client) Node(ctx context.Context, id node.ID) (node.Node, error) {
	return view.GetNode(ctx, c.View(), id)
}

// OrderNode orders a node to serve, to take no new work, or also to end or give back what runs;
// grace is how long running tasks may go on, 0 for the worker's own setting. The order holds until
// the next one, also after restarts of the worker. The error wraps [node.ErrUnknown] or
// [node.ErrRetired].
func (c *Client) OrderNode(ctx context.Context, id node.ID, order node.Order, reason string, grace time.Duration) (node.Node, error) {
	if grace < 0 {
		return node.Node{ID: id}, fmt.Errorf("grace is %v, want none below zero", grace)
	}
	return c.changeNode(ctx, id, node.Change{Order: order, Reason: reason, Grace: value.Duration(grace)})
}

// LabelNode changes labels of a node, overriding its worker's settings: a value sets one, nil
// removes it. The error is as that of [Client.OrderNode].
func (c *Client) LabelNode(ctx context.Context, id node.ID, labels map[string]*string, reason string) (node.Node, error) {
	return c.changeNode(ctx, id, node.Label{Labels: labels, Reason: reason})
}

// ReleaseNode ends a node's quarantine. The error is as that of [Client.OrderNode].
func (c *Client) ReleaseNode(ctx context.Context, id node.ID, reason string) (node.Node, error) {
	return c.changeNode(ctx, id, node.Release{Reason: reason})
}

// RetireNode declares that a node will not come back, and removes what the server holds for it
// besides its facts. The error wraps [node.ErrAlive] while its worker sends heartbeats; else it is
// as that of [Client.OrderNode]. It is idempotent.
func (c *Client) RetireNode(ctx context.Context, id node.ID, reason string) (node.Node, error) {
	n, err := c.changeNode(ctx, id, node.Retire{Reason: reason})
	if err != nil {
		return n, err
	}
	return n, c.store.DropNode(ctx, id, n.Since)
}

func (c *Client) changeNode(ctx context.Context, id node.ID, command node.Command) (node.Node, error) {
	if err := id.Validate(); err != nil {
		return node.Node{ID: id}, err
	}
	n, _, err := c.rec.DoNode(ctx, id, command)
	return n, err
}

// ExpectNode makes a node known before a worker has its name, so that it can be given orders: it is
// offline. One that is known and not retired stays as it is.
func (c *Client) ExpectNode(ctx context.Context, id node.ID, reason string) error {
	n, err := c.rec.LoadNode(ctx, id)
	if err != nil || n.State != node.Unknown && n.State != node.Retired {
		return err
	}
	const session = "expected"
	if _, err := c.changeNode(ctx, id, node.Register{Session: session}); err != nil {
		return err
	}
	_, err = c.changeNode(ctx, id, node.Leave{Session: session, Reason: reason})
	return err
}

// WaitNode returns a node when it has been ready without interruption for stable; 0 means at once.
// If ctx ends before, the error wraps ctx's, and the node is as last seen; [node.Owes] then says
// what it waits for. An unknown node may still come. changed, if not nil, is called with the node
// at first and after every change.
func (c *Client) WaitNode(ctx context.Context, id node.ID, stable time.Duration, changed func(node.Node)) (node.Node, error) {
	n := node.Node{ID: id}
	if err := id.Validate(); err != nil {
		return n, err
	}
	if c.role != "" {
		return c.waitNodeAsked(ctx, id, stable, changed)
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
	told, known := false, events.UnreadNode(id)
	for {
		now, err := c.rec.UpdateNode(ctx, known)
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		if errors.Is(err, node.ErrUnknown) { // the log has lost what was known
			told = false
			now, err = c.rec.UpdateNode(ctx, events.UnreadNode(id))
		}
		if err == nil { // else the server is away: it comes back, or ctx ends
			if changed != nil && (!told || now.Head != n.Head) {
				told = true
				changed(now.Node)
			}
			if known, n = now, now.Node; n.Stable(c.Now(), stable) {
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
		case <-c.store.Gone():
			timer.Stop()
			return n, c.store.WhyGone()
		case <-poke:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Expected returns the nodes of a page that should have a process: those that are neither offline nor
// retired.
func (p *NodePage) Expected() (ids []node.ID) {
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.State != node.Offline && n.State != node.Retired {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// pingsAtOnce is how many nodes are asked concurrently.
const pingsAtOnce = 64

// Pinged is what the process of a node has answered.
type Pinged struct {
	// Node is the node's id.
	Node node.ID `json:"node"`
	*node.Pong
	// Took is how long the answer took; Error says why there is none.
	Took  value.Duration `json:"took,omitempty"`
	Error string         `json:"error,omitempty"`
}

// Key is by what lists are in order.
func (p *Pinged) Key() string { return string(p.Node) }

// PingAll asks the processes of nodes about themselves, each for so long at most.
func (c *Client) PingAll(ctx context.Context, ids []node.ID, patience time.Duration) []Pinged {
	all := make([]Pinged, len(ids))
	var g errgroup.Group
	g.SetLimit(pingsAtOnce)
	for i, id := range ids {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			began := time.Now()
			pong, err := c.Ping(ctx, id)
			if all[i].Node = id; err != nil {
				all[i].Error = err.Error()
				return nil
			}
			all[i].Pong, all[i].Took = &pong, value.Duration(time.Since(began).Round(time.Microsecond))
			return nil
		})
	}
	_ = g.Wait() // it has no errors
	return all
}

// Ping asks the process of a node about itself, without the log or any server of Millrace. The
// error wraps [presence.ErrNoPong] if none answers before ctx ends.
func (c *Client) Ping(ctx context.Context, id node.ID) (node.Pong, error) {
	if c.role == "" {
		return c.store.Ping(ctx, id)
	}
	var is struct {
		Nodes []Pinged `json:"nodes"`
	}
	err := c.ask(ctx, rights.NodePing, struct {
		ID node.ID `json:"id"`
	}{id}, &is)
	switch {
	case err != nil || len(is.Nodes) != 1:
		return node.Pong{}, err
	case is.Nodes[0].Pong == nil:
		return node.Pong{}, errors.New(is.Nodes[0].Error)
	}
	return *is.Nodes[0].Pong, nil
}
