package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/worker"
	"millrace/worker/claim"
)

// gauge counts the tasks running at one time, by node.
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

// A node runs no more tasks than per_node allows, however many slots are free. The others start on
// other nodes, or later, and they do not hold up tasks without such a bound.
func TestPerNode(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []string
		per   limit.PerNodes
		tasks int
		most  int // on each node
		each  time.Duration
		takes time.Duration // all of them, at most
	}{
		"one of four slots":         {[]string{"a"}, limit.PerNodes{{Max: 1}}, 5, 1, 10 * time.Second, 55 * time.Second},
		"two of four slots":         {[]string{"a"}, limit.PerNodes{{Max: 2}}, 6, 2, 10 * time.Second, 34 * time.Second},
		"one on each of two nodes":  {[]string{"a", "b"}, limit.PerNodes{{Max: 1}}, 6, 1, 10 * time.Second, 34 * time.Second},
		"many that end at once":     {[]string{"a", "b"}, limit.PerNodes{{Max: 1}}, 40, 1, time.Millisecond, 20 * time.Second},
		"several bounds":            {[]string{"a"}, limit.PerNodes{{Max: 3}, {Max: 1, Key: "/k"}}, 3, 1, 10 * time.Second, 33 * time.Second},
		"more than there are slots": {[]string{"a"}, limit.PerNodes{{Max: 9}}, 8, 4, 10 * time.Second, 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				g := gauge{now: map[string]int{}, most: map[string]int{}}
				var ids []task.ID
				for range c.tasks {
					ids = append(ids, w.submit(job.Spec{PerNode: c.per}))
				}
				free := w.submit(job.Spec{Handler: "free"})
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

// A node that has no place for a task does not take it over either, though the offer looks as if it
// waited.
func TestCrowdedNodesTakeNothingOver(t *testing.T) {
	inBubble(t, func(w *world) {
		spec := job.Spec{Place: job.Place{Nodes: []string{"a"}}, PerNode: limit.PerNodes{{Max: 1, Key: "/k"}}}
		lost, runs := w.submit(spec), w.submit(spec)
		offers, _ := w.log.Offers(w.Context(), []string{placement.NodeQueue("a")})
		try := offers.(*events.MemoryOffers).Try
		protocol := func(session string) *claim.Protocol {
			return &claim.Protocol{Recorder: w.rec, Node: "a", Session: session, Accounts: &events.Accounts{Log: w.log, Beats: w.log, Lease: ackWait}}
		}
		claim := func(p *claim.Protocol, o *events.Offer, want task.ID) (k task.Task, mine bool) {
			t.Helper()
			if o == nil || o.Fact.Task != want {
				t.Fatalf("the offer is %+v, want one of %s", o, want)
			}
			mine, err := p.Claim(w.Context(), o, &k)
			if err != nil {
				t.Fatal(err)
			}
			return k, mine
		}
		if _, mine := claim(protocol("before"), try(), lost); !mine {
			t.Fatal("not claimed")
		}
		p := protocol("s")
		k, mine := claim(p, try(), runs)
		if !mine {
			t.Fatal("not claimed")
		}
		pass(time.Minute) // the leases run out, and the server has lost its count of deliveries
		again := try()
		again.Deliveries = 1
		if is, mine := claim(p, again, lost); mine {
			t.Errorf("the node runs two, one of which it has taken over: %+v", is)
		}
		p.Vacate(&k)
		for pass(time.Minute); ; {
			o := try()
			if o.Fact.Task != lost {
				continue
			}
			if is, mine := claim(p, o, lost); !mine || is.Losses != 1 {
				t.Errorf("where there is a place it is not taken over: %+v, %v", is, mine)
			}
			return
		}
	})
}
