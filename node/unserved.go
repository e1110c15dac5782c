package node

import (
	"context"
	"time"

	"millrace/task"
	"millrace/task/queue"
	"millrace/task/value"
)

// Route is a route on which tasks are pending: of a queue, of one node, or of nodes of a kind.
type Route struct {
	// Home is the queue in which they wait, as [task.Task.QueueName] names it. Tasks is how many they
	// are, and Oldest since when one of them has been pending.
	Home   string
	Tasks  int
	Oldest time.Time
	// First is one of them.
	First task.Task
}

// Routed lists the routes on which tasks are pending.
type Routed interface {
	PendingRoutes(ctx context.Context) ([]Route, error)
}

// Unserved is tasks of a queue that wait and that no node takes.
type Unserved struct {
	// Tasks is how many they are. Since is when the first of them came, or when the last node stopped
	// taking them.
	Tasks int       `json:"tasks"`
	Since time.Time `json:"since"`
	// Why says in words why no node takes them.
	Why string `json:"why"`
}

// UnservedOf returns the tasks that no node takes, by the names of their queues. Why is that of the
// tasks that have waited longest. Said are the operators' settings of queues: a paused one misses no
// node.
func UnservedOf(routes []Route, nodes []Node, said []queue.Queue, now time.Time) map[string]*Unserved {
	all, w := map[string]*Unserved{}, NewWorld(nodes, 0, now)
	for i := range said {
		w.Tell(said[i])
	}
	for i := range routes {
		r := &routes[i]
		s := w.Around(&r.First)
		if s.NoNode == "" {
			continue
		}
		since, want := value.Later(r.Oldest, s.Unserved), WantOfTask(&r.First)
		for i := range nodes { // until when the last node that could claim them took work
			if rule, _ := nodes[i].Excluded(want); rule.Passing() {
				since = value.Later(since, nodes[i].TakesSince())
			}
		}
		is := all[r.Home]
		if is == nil {
			is = &Unserved{}
			all[r.Home] = is
		}
		if is.Tasks += r.Tasks; is.Why == "" || since.Before(is.Since) {
			is.Since, is.Why = since, s.NoNode
		}
	}
	return all
}
