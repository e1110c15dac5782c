package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/testkit"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
)

// load is a kind of work that causes schedulers many requests.
type load struct {
	name  string
	ready func(*testing.T, *crowd) // before any scheduler is killed; nil for none
	give  func(*testing.T, *crowd)
	looks int // by the two others, because a child has ended and its parent needs nothing yet
}

func (l *load) begin(t *testing.T, n int, met Peers, cuts ...func(*Scheduler)) *crowd {
	c := newCrowd(t, n, met, cuts...)
	if l.ready != nil {
		l.ready(t, c)
		pass(Patience)
	}
	return c
}

var loads = []load{
	{name: "lost", give: func(t *testing.T, c *crowd) {
		for range 40 {
			c.claim(t, c.submit(t, job.Spec{}), "n2")
		}
		c.setBeat("n2", node.Heartbeat{})
		close(c.silent)
	}},
	{name: "steps", give: steps},
	{name: "slow steps", ready: func(_ *testing.T, c *crowd) { c.pace = 3 * Patience }, give: steps, looks: 2 * 2 * 40},
	{name: "included nodes", ready: func(t *testing.T, c *crowd) {
		for range 40 {
			c.asked(t, job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll, Late: job.LateInclude}})
		}
	}, give: func(t *testing.T, c *crowd) {
		c.join(t, "n3")
		pass(Patience + Patience/2)
		parents, err := c.Parents(t.Context(), batch)
		for _, id := range parents {
			if names := c.task(t, id).Children.Names; len(names) != 3 {
				t.Errorf("a parent has children on %q, and not on n3", names)
			}
		}
		if err != nil || len(parents) != 40 {
			t.Errorf("%d parents, %v", len(parents), err)
		}
	}},
	{name: "children", give: func(t *testing.T, c *crowd) {
		for range 40 {
			c.asked(t, job.Spec{Handler: "x", Place: job.Place{Mode: job.PlaceAll}})
		}
	}},
	{name: "limits", give: func(t *testing.T, c *crowd) {
		for n := range 480 { // enough rounds to take longer than Patience
			c.submitLimited(t, n, job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: fmt.Sprint("/", n%6)}}})
		}
	}},
}

func steps(t *testing.T, c *crowd) {
	for range 40 {
		c.asked(t, job.Spec{Steps: []job.Step{handled("c", job.StepNeed{Step: "b"}), handled("b", job.StepNeed{Step: "a"}), handled("a")}})
	}
}

// Three schedulers that know of each other cost the log as much as one.
func TestThreeCostWhatOneDoes(t *testing.T) {
	more := 0 // the cost of three that do not know of each other
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			cost := func(n int, met Peers) (c counts) {
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, n, met)
					before := w.log.counts()
					l.give(t, w)
					if took := w.work(t); took > forever {
						t.Error("not all tasks have ended")
					}
					pass(2 * GoesLast * Patience)
					c = w.log.counts().less(before)
					noRepairs(t, w.all)
				})
				return c
			}
			one, strangers, three := cost(1, nil), cost(3, nil), cost(3, &peers{})
			t.Logf("one: %+v; three that do not know of each other: %+v; that do: %+v", one, strangers, three)
			if three.refused > 0 || three.writes > one.writes+one.writes/20 || three.reads > one.reads+one.reads/4 || three.looks > one.looks+one.looks/10+l.looks {
				t.Errorf("three schedulers cost %+v, and one costs %+v", three, one)
			}
			more += strangers.reads + strangers.refused - one.reads
		})
	}
	if more < 300 {
		t.Errorf("three that do not know of each other cost %d reads and refused facts more: this shows nothing", more)
	}
}

// The work of a killed scheduler is done by others within a bounded time.
func TestSchedulersAreKilled(t *testing.T) {
	for _, l := range testkit.Size(loads[:2], loads) {
		t.Run(l.name, func(t *testing.T) {
			after := func(killed int) (took time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, 3, &peers{})
					for _, stop := range w.stop[:killed] {
						stop()
					}
					l.give(t, w)
					took = w.work(t)
					noRepairs(t, w.all)
				})
				return took
			}
			none := after(0)
			for killed := 1; killed <= 2; killed++ {
				took := after(killed)
				t.Logf("with %d of 3 schedulers killed it took %v, with none %v", killed, took, none)
				if late := took - none; late > time.Duration(killed)*Patience+Patience/2 {
					t.Errorf("with %d of 3 schedulers killed all was %v late", killed, late)
				}
			}
		})
	}
}

// These tests detect a scheduler without one of its reactors: its work takes too long, or the sweep
// repairs it.
func TestNoReactionMayBeMissing(t *testing.T) {
	deaf := func(to func(*Scheduler) reactor) func(*Scheduler) {
		return func(s *Scheduler) {
			s.reactors = slices.DeleteFunc(s.reactors, func(r reactor) bool { return r == to(s) })
		}
	}
	for work, cuts := range map[string]map[string]func(*Scheduler){
		"steps":    {"what others need has ended": deaf(func(s *Scheduler) reactor { return s.needs })},
		"children": {"children have ended": deaf(func(s *Scheduler) reactor { return s.families })},
		"lost": {
			"a node is silent": func(s *Scheduler) { s.beats = unheard{s.beats} },
			"a node has gone":  func(s *Scheduler) { s.cfg.React = time.Hour },
		},
	} {
		for name, cut := range cuts {
			t.Run(name, func(t *testing.T) {
				l := &loads[slices.IndexFunc(loads, func(l load) bool { return l.name == work })]
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, 1, nil, cut)
					l.give(t, w)
					took := w.work(t)
					if repairs := w.all[0].Repairs(); took < Patience && len(repairs) == 0 {
						t.Errorf("nobody misses it: all is done after %v", took)
					}
				})
			})
		}
	}
}
