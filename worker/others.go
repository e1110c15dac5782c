package worker

import (
	"context"
	"sync"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// leaves tells whether this node leaves a task to others: it failed here last,
// the task's policy is to avoid that, and another node could take it.
func (p *Protocol) leaves(ctx context.Context, t *task.Task) bool {
	until, ok := t.Shuns(string(p.Node))
	return ok && p.Recorder.Now().Before(until) && p.Others != nil && p.Others(ctx, *t)
}

// restFor is how long an offer that is left to others rests, so that it does
// not go round as fast as messages travel: within [task.AvoidWait] it is handed out
// a dozen times. Each time whoever asks may get it, so one other node that is free gets
// it but for once in thousands; and of fifty deliveries enough are left.
func restFor(deliveries int) time.Duration {
	return min(20*time.Millisecond<<min(max(deliveries-1, 0), 7), 2*time.Second)
}

// othersFresh is how long an answer about other nodes is good for.
const othersFresh = 2 * time.Second

// others knows which queues are served by other nodes. It asks only when a task
// is to be left to them, and remembers the answers for a moment.
type others struct {
	log   *events.Recorder
	alive func(context.Context) (map[node.ID]node.Heartbeat, error)
	self  node.ID

	mu    sync.Mutex
	known map[string]answer // guarded by mu; by the queue part of the route
}

type answer struct {
	served bool
	at     time.Time
}

// serve tells whether another node that beats takes new work of the task's kind: from its
// queue, or chosen by its selector. If that cannot be found out it says no, and the
// task starts here rather than nowhere.
func (o *others) serve(ctx context.Context, t task.Task) bool {
	queue := t.Route.Queue()
	now := o.log.Now()
	o.mu.Lock()
	a, ok := o.known[queue]
	o.mu.Unlock()
	if ok && now.Sub(a.at) < othersFresh {
		return a.served
	}
	a = answer{o.look(ctx, node.WantOfTask(&t)), now}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[string]answer{}
	}
	o.known[queue] = a
	return a.served
}

func (o *others) look(ctx context.Context, want node.Want) bool {
	alive, err := o.alive(ctx)
	if err != nil {
		return false
	}
	for id, beat := range alive {
		if id == o.self {
			continue
		}
		n, err := o.log.LoadNode(ctx, id)
		if err == nil && n.Session == beat.Session {
			if rule, _ := n.Excluded(want); rule == "" {
				return true
			}
		}
	}
	return false
}
