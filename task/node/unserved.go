package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// Routed knows on which routes tasks wait.
type Routed interface {
	// PendingRoutes lists the routes on which tasks are pending.
	PendingRoutes(ctx context.Context) ([]Route, error)
	// Naming returns a task that has not ended and names the node ([task.Work.Names]); "" if there is
	// none. While there is one the node does not retire by itself.
	Naming(ctx context.Context, id ID) (task.ID, error)
}

// Unserved is tasks of a queue that wait and that no node takes.
type Unserved struct {
	// Tasks is how many they are. Since is when the first of them came, or when the last node stopped
	// taking them.
	Tasks int       `json:"tasks"`
	Since time.Time `json:"since"`
	// Why says in words why no node takes them: for each kind of them, the one that has waited longest
	// first, at most three.
	Why string `json:"why"`
}

// mostWhys is how many reasons are named why no node takes the tasks of a queue.
const mostWhys = 3

// UnservedOf returns the tasks that no node takes, by the names of their queues. Those for one node
// alone are under [ID.Queue]. Said are the operators' settings of queues: a paused one misses no node.
func UnservedOf(routes []Route, nodes []Node, said []queue.Queue, now time.Time) map[string]*Unserved {
	kinds, w := map[string][]Unserved{}, NewFleet(nodes, 0, now)
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
		kinds[r.Home] = append(kinds[r.Home], Unserved{r.Tasks, since, s.NoNode})
	}
	all := map[string]*Unserved{}
	for home, of := range kinds {
		slices.SortStableFunc(of, func(a, b Unserved) int { return a.Since.Compare(b.Since) })
		is, whys := &Unserved{Since: of[0].Since}, []string(nil)
		for _, kind := range of {
			if is.Tasks += kind.Tasks; !slices.Contains(whys, kind.Why) {
				whys = append(whys, kind.Why)
			}
		}
		if more := len(whys) - mostWhys; more > 0 {
			whys = append(whys[:mostWhys], fmt.Sprintf("and %d more reasons", more))
		}
		is.Why = strings.Join(whys, "; ")
		all[home] = is
	}
	return all
}
