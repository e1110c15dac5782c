package client

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/node"
	"millrace/task/value"
)

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
	return c.store.Ping(ctx, id)
}
