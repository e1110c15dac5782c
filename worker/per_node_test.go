package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"millrace/node"
	"millrace/task"
	"millrace/worker"
)

// gauge counts what runs at once, by node.
type gauge struct {
	mu        sync.Mutex
	now, most map[string]int // guarded by mu
}

func (g *gauge) run(of string, d time.Duration) {
	g.mu.Lock()
	g.now[of]++
	g.most[of] = max(g.most[of], g.now[of])
	g.mu.Unlock()
	wait(d)
	g.mu.Lock()
	g.now[of]--
	g.mu.Unlock()
}

// A node runs no more tasks than per_node lets it, whatever slots are free; the others start on other nodes, or later, and what
// stands under no such bound is not held up by them.
func TestPerNode(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []string
		per   task.PerNodes
		tasks int
		most  int // on each node
		each  time.Duration
		takes time.Duration // all of them, at most
	}{
		"one of four slots":         {[]string{"a"}, task.PerNodes{{Max: 1}}, 5, 1, 10 * time.Second, 55 * time.Second},
		"two of four slots":         {[]string{"a"}, task.PerNodes{{Max: 2}}, 6, 2, 10 * time.Second, 34 * time.Second},
		"one on each of two nodes":  {[]string{"a", "b"}, task.PerNodes{{Max: 1}}, 6, 1, 10 * time.Second, 34 * time.Second},
		"many that end at once":     {[]string{"a", "b"}, task.PerNodes{{Max: 1}}, 40, 1, time.Millisecond, 20 * time.Second},
		"several bounds":            {[]string{"a"}, task.PerNodes{{Max: 3}, {Max: 1, Key: "/k"}}, 3, 1, 10 * time.Second, 33 * time.Second},
		"more than there are slots": {[]string{"a"}, task.PerNodes{{Max: 9}}, 8, 4, 10 * time.Second, 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				g := gauge{now: map[string]int{}, most: map[string]int{}}
				var ids []task.ID
				for range c.tasks {
					ids = append(ids, w.submit(task.Spec{PerNode: c.per}))
				}
				free := w.submit(task.Spec{Handler: "free"})
				for _, name := range c.nodes {
					w.start(worker.Config{Node: node.ID(name), Slots: 4}, map[string]worker.Handler{
						"h":    func(context.Context, task.Task) error { g.run(name, c.each); return nil },
						"free": func(context.Context, task.Task) error { return nil },
					})
				}
				pass(time.Second)
				if c.most < 4 {
					w.wantState(w.task(free), task.Finished, "")
				}
				pass(c.takes - time.Second)
				for _, id := range ids {
					w.wantState(w.task(id), task.Finished, "")
				}
				for _, name := range c.nodes {
					if most := g.most[name]; most > c.most || most < c.most && c.each > time.Second {
						t.Errorf("node %s ran %d at once, want %d", name, most, c.most)
					}
				}
			})
		})
	}
}
