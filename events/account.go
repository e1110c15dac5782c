package events

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/task"
	"millrace/task/node"
)

// Heartbeats keeps the heartbeats of nodes. Heartbeats are not facts: they expire.
type Heartbeats interface {
	// Beat stores the heartbeat of a node in place of the one before. The heartbeat expires after
	// ttl, rounded up to whole seconds, unless another one comes. Beat returns once it is stored.
	// An error that wraps [ErrConflict] means that the heartbeat was not stored, because this
	// process's last one has expired or another process has stored one; the next call stores it
	// nevertheless. After any other error it may or may not be stored.
	Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error
	// Forget removes the heartbeat of a node at once.
	Forget(ctx context.Context, id node.ID) error
	Pulses
}

// Pulses reads heartbeats with the server's times.
type Pulses interface {
	// Pulse returns the server's state of a node's heartbeat. It includes everything stored before
	// the call.
	Pulse(ctx context.Context, id node.ID) (node.Pulse, error)
}

// Accounts collects the log's evidence about the leases of live attempts. Safe for concurrent use.
type Accounts struct {
	// Log has the facts. Beats has the heartbeats.
	Log   Reader
	Beats Pulses
	// Lease is the length of a lease, counted from when the log last heard of the attempt.
	Lease time.Duration

	mu sync.Mutex
	// nodes are the nodes as last read. Their times are when the server stored the facts, not those
	// of the writers' clocks. Guarded by mu.
	nodes map[node.ID]KnownNode
}

// Of returns the account of the live attempt of t. It reads the facts of the node, then the node's
// heartbeat, then the history of the task.
func (a *Accounts) Of(ctx context.Context, t *task.Task) (task.Account, error) {
	account, err := a.of(ctx, t)
	if err != nil {
		err = fmt.Errorf("account of the lease of task %s: %w", t.ID, err)
	}
	return account, err
}

func (a *Accounts) of(ctx context.Context, t *task.Task) (task.Account, error) {
	known, err := a.node(ctx, node.ID(t.Node)) // first, because the heartbeat may show that it is outdated
	if err != nil {
		return task.Account{}, err
	}
	n := known.Node
	if n.Session != t.Session && n.Before.Session != t.Session {
		// A node state holds the ends of its last two sessions; of earlier sessions it only tells
		// that they ended before these. A node that restarts again and again would thus keep
		// postponing the end.
		if n, err = a.succeeded(ctx, n, t.Session); err != nil {
			return task.Account{}, err
		}
	}
	pulse, err := a.Beats.Pulse(ctx, n.ID)
	if err != nil {
		return task.Account{}, err
	}
	records, err := a.Log.Task(ctx, t.ID)
	if err != nil {
		return task.Account{}, err
	}
	return n.Account(t, claimed(t, records), pulse, a.Lease), nil
}

// node reads the facts of a node since the last read.
func (a *Accounts) node(ctx context.Context, id node.ID) (KnownNode, error) {
	a.mu.Lock()
	n, ok := a.nodes[id]
	a.mu.Unlock()
	if !ok {
		n = UnreadNode(id)
	}
	records, err := n.since(ctx, a.Log)
	if errors.Is(err, node.ErrUnknown) { // the log has lost what was known
		a.mu.Lock()
		delete(a.nodes, id)
		a.mu.Unlock()
		n = UnreadNode(id)
		records, err = n.since(ctx, a.Log)
	}
	if err != nil {
		return n, err
	}
	for i := range records {
		n.evolve(stored(&records[i]), records[i].Fact.ID)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes == nil {
		a.nodes = map[node.ID]KnownNode{}
	}
	if n.Head > a.nodes[id].Head {
		a.nodes[id] = n
	}
	return n, nil
}

// succeeded returns the node as it was when the next session had replaced the given one, or as it
// is now if the log does not show that.
func (a *Accounts) succeeded(ctx context.Context, now node.Node, session string) (node.Node, error) {
	records, err := a.Log.Node(ctx, now.ID, 0)
	n := node.Node{ID: now.ID}
	for i := range records {
		n = node.Evolve(n, stored(&records[i]))
		if n.Before.Session == session {
			return n, err
		}
	}
	return now, err
}

// stored is a fact about a node with the server's time instead of its writer's.
func stored(r *Record) node.Recorded {
	at := r.Node()
	at.At = r.Stored
	if e, ok := at.Event.(node.Carried); ok {
		e.Fold = e.Stored
		at.Event = e
	}
	return at
}

// claimed is when the server stored that the session of t's live attempt claimed or adopted it.
func claimed(t *task.Task, records []Record) (at time.Time) {
	for i := range records {
		r := &records[i]
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			if r.Seq == t.Epoch {
				at = r.Stored
			}
		case task.AttemptAdopted:
			if e.Epoch == t.Epoch && r.Kind == KindChain {
				at = r.Stored
			}
		}
	}
	return at
}
