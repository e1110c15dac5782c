package answers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task/node"
	"millrace/task/value"
)

func (s *Service) nodes(ctx context.Context, r client.NodeListRequest) (is client.NodePage, err error) {
	if err := validPage(&r.PageRequest); err != nil {
		return is, err
	}
	if err := s.await(ctx, r.AtLeast, 0); err != nil {
		return is, err
	}
	v, now, err := s.sight(ctx, r.At)
	switch {
	case err != nil:
	case r.At != "":
		is, err = client.NodesOf(ctx, v, nil, now, s.Nodes, &r)
	default:
		is, err = client.NodesOf(ctx, v, s.Model, now, s.Nodes, &r)
	}
	return is, err
}

// nodeRequest names a node, and says why something is done to it.
type nodeRequest struct {
	// ID is the node's. Reason says why, for the log.
	ID     node.ID `json:"id"`
	Reason string  `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
}

func (r *nodeRequest) check() error { return r.ID.Validate() }

// drainRequest names a node to drain.
type drainRequest struct {
	// ID is the node's. Reason says why, for the log.
	ID     node.ID `json:"id"`
	Reason string  `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
	// Grace is how long running tasks may go on after a drain. Default: the worker's own setting.
	Grace value.Duration `json:"grace,omitempty" flag:"grace" zero:"1ms" usage:"how long running tasks may go on (default the worker's own setting; 0 ends them at once)"`
	// Stable has no effect: earlier versions took it here, too.
	Stable value.Duration `json:"stable,omitempty" least:"0" hidden:"true"`
}

func (r *drainRequest) check() error { return r.ID.Validate() }

// awaitedNode names a node to wait for.
type awaitedNode struct {
	// ID is the node's.
	ID node.ID `json:"id"`
	// Stable is how long it must have been ready. Default: no time.
	Stable value.Duration `json:"stable,omitempty" least:"0"`
}

func (r *awaitedNode) check() error { return r.ID.Validate() }

// pastNode names a node, and a moment of the past.
type pastNode struct {
	// ID is the node's.
	ID node.ID `json:"id"`
	// At is a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
}

func (r *pastNode) check() error { return r.ID.Validate() }

// nodeIn returns a node as a view has it; no view has heartbeats.
func (s *Service) nodeIn(ctx context.Context, in view.View, now time.Time, n node.Node) (client.NodeView, error) {
	v := client.ViewNode(n, now, s.Nodes)
	running, err := client.RunsOn(ctx, in, n.ID)
	if err == nil {
		v.Runs(running)
	}
	return v, err
}

// viewNode returns a node as it is now. In a command, which has no read model, it is what the log says.
func (s *Service) viewNode(ctx context.Context, n node.Node) (client.NodeView, error) {
	if s.Model == nil {
		return client.ViewNode(n, s.now(), s.Nodes), nil
	}
	v, err := s.nodeIn(ctx, s.view(), s.now(), n)
	if err != nil {
		return v, err
	}
	h, beats, err := s.Client.Store().Beating(ctx, n.ID)
	if beats && h.Session == n.Session {
		v.LastBeat, v.Machine = h.At, h.Machine
	}
	v.Silent = err == nil && n.Silent(v.LastBeat, s.now(), s.Nodes)
	return v, errors.Join(err, v.FindKeeper(ctx, s.Model))
}

func (s *Service) node(ctx context.Context, r pastNode) (client.NodeView, error) {
	v, now, err := s.sight(ctx, r.At)
	if err != nil {
		return client.NodeView{}, err
	}
	n, err := view.GetNode(ctx, v, r.ID)
	switch {
	case err != nil:
		return client.NodeView{}, err
	case r.At != "":
		return s.nodeIn(ctx, v, now, n)
	}
	return s.viewNode(ctx, n)
}

// waitAnswer tells whether the awaited state was reached.
type waitAnswer struct {
	client.NodeView
	// Met tells whether the node is ready, and has been for long enough.
	Met bool `json:"met"`
}

func (s *Service) waitNode(ctx context.Context, r awaitedNode) (waitAnswer, error) {
	var n node.Node
	err := waits(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, watchFor)
		defer cancel()
		n, err = s.Client.WaitNode(ctx, r.ID, r.Stable.Std(), nil)
		return err
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return waitAnswer{}, err
	}
	v, viewed := s.viewNode(ctx, n)
	return waitAnswer{v, err == nil}, viewed
}

// pingRequest names a node, or none for all that should answer.
type pingRequest struct {
	// ID is the node's. Default: all nodes that are not offline by the log.
	ID node.ID `json:"id,omitempty"`
	// Timeout is how long each node may take to answer: at most 10s, default 2s.
	Timeout value.Duration `json:"timeout,omitempty"`
	client.PageRequest
}

// Bounds of a ping.
const (
	pingFor     = value.Duration(2 * time.Second)
	pingLongest = value.Duration(10 * time.Second)
)

func (r *pingRequest) check() error {
	if r.Timeout == 0 {
		r.Timeout = pingFor
	}
	if r.Timeout < 0 || r.Timeout > pingLongest {
		return fmt.Errorf("timeout is %v, want more than 0 and at most %v", r.Timeout, pingLongest)
	}
	if r.ID == "" {
		return validPage(&r.PageRequest)
	}
	return r.ID.Validate()
}

// pingPage is the answers of nodes.
type pingPage struct {
	// Nodes are in the order of their ids, and Answered is how many of them have answered.
	Nodes    []client.Pinged `json:"nodes"`
	Answered int             `json:"answered"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

func (s *Service) ping(ctx context.Context, r pingRequest) (is pingPage, err error) {
	ids := []node.ID{r.ID}
	if r.ID != "" {
		_, err = view.GetNode(ctx, s.view(), r.ID)
	} else {
		var page client.NodePage
		page, err = client.NodesOf(ctx, s.view(), s.Model, s.now(), s.Nodes, &client.NodeListRequest{Bare: true, PageRequest: r.PageRequest})
		ids, is.Next = page.Expected(), page.Next
	}
	if err != nil {
		return is, err
	}
	err = waits(ctx, func(ctx context.Context) error {
		is.Nodes = s.Client.PingAll(ctx, ids, r.Timeout.Std())
		return ctx.Err()
	})
	for i := range is.Nodes {
		if is.Nodes[i].Pong != nil {
			is.Answered++
		}
	}
	return is, err
}

// changing returns the function of an endpoint that changes a node.
func changing(do func(c *client.Client, ctx context.Context, id node.ID, reason string) (node.Node, error)) func(*Service, context.Context, nodeRequest) (client.NodeView, error) {
	return func(s *Service, ctx context.Context, r nodeRequest) (client.NodeView, error) {
		n, err := do(s.Client, ctx, r.ID, r.Reason)
		if err != nil {
			return client.NodeView{}, err
		}
		return s.viewNode(ctx, n)
	}
}

// order returns the function of an endpoint that gives nodes an order.
func order(o node.Order) func(*Service, context.Context, nodeRequest) (client.NodeView, error) {
	return func(s *Service, ctx context.Context, r nodeRequest) (client.NodeView, error) {
		return s.order(ctx, o, drainRequest{ID: r.ID, Reason: r.Reason})
	}
}

func (s *Service) drain(ctx context.Context, r drainRequest) (client.NodeView, error) {
	return s.order(ctx, node.OrderDrain, r)
}

func (s *Service) order(ctx context.Context, o node.Order, r drainRequest) (client.NodeView, error) {
	n, err := s.Client.OrderNode(ctx, r.ID, o, r.Reason, r.Grace.Std())
	if err != nil {
		return client.NodeView{}, err
	}
	return s.viewNode(ctx, n)
}
