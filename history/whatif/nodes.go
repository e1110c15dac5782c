package whatif

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/schedule"
	"millrace/task/value"
	"millrace/worker/claim"
)

// worker is a node, with the rules by which its worker claims.
type worker struct {
	node.Node
	*claim.Protocol
	busy int // slots
}

// worker is a node, which gets no task before the log knows it.
func (s *Simulation) worker(id node.ID) *worker {
	if w := s.nodes[id]; w != nil {
		return w
	}
	w := &worker{}
	s.nodes[id] = w
	w.Protocol = &claim.Protocol{
		Recorder: s.rec,
		Node:     id,
		Labels:   func() (map[string]string, uint64) { return w.Selectable(), w.Head },
	}
	return w
}

// attempt is one that runs.
type attempt struct {
	task  task.Task // when it began
	on    *worker
	offer *events.Offer
}

// offer is an offer that a node may fetch, for one turn of a task.
type offer struct {
	task       *followed
	record     events.Record
	turn       uint64
	route      placement.Route
	deliveries int
}

// stale tells whether there is nothing to claim by the offer any more.
func (o *offer) stale() bool {
	k := o.task
	return k.lane != o || k.State != task.Pending || !k.Offered || k.Turn != o.turn || k.Route != o.route
}

// tried is how many tasks of a route are examined that no node with a free slot may run.
const tried = 64

// dispatch makes nodes fetch tasks for their free slots: of the highest priority first, then those
// that have waited longest.
func (s *Simulation) dispatch() {
	routes := slices.SortedFunc(maps.Keys(s.lanes), func(a, b placement.Route) int {
		return cmp.Or(b.Priority()-a.Priority(), cmp.Compare(a, b))
	})
	for _, route := range routes {
		lane := s.lanes[route]
		for i := 0; i < len(lane) && i < tried; {
			if !s.fetched(lane[i]) {
				i++
				continue
			}
			copy(lane[1:i+1], lane[:i])
			lane = lane[1:]
		}
		if s.lanes[route] = lane; len(lane) == 0 {
			delete(s.lanes, route)
		}
	}
}

// fetched tells whether an offer leaves its lane: because a node fetches it, or for good.
func (s *Simulation) fetched(o *offer) bool {
	if o.stale() {
		return true
	}
	k := o.task
	if s.shut(k.Task) {
		return false
	}
	on := s.choose(k.Task)
	if on == nil {
		return false
	}
	k.starting = true
	s.seize(on, k.Task)
	cost := *k.Task
	s.At(s.now.Add(s.cfg.Handover), func() {
		k.starting = false
		s.free(on, &cost)
		s.start(o, on)
	})
	return true
}

// shut tells whether the queue of a task lets none start now.
func (s *Simulation) shut(t *task.Task) bool {
	q, known := s.queues[t.QueueName()]
	if !known {
		return false
	}
	if q.PausedAt(s.now) != nil || q.Limit > 0 && s.running[q.Name] >= q.Limit {
		return true
	}
	wait, _, err := schedule.Flow(q.Valve, s.now, func(calendar string) (task.Definition, error) {
		return s.log.Definition(background, task.Named(task.DefCalendar, calendar))
	})
	if err == nil && wait != nil {
		s.wake(wait.Until)
	}
	return wait != nil
}

// choose chooses a node with free slots for a task: that of [SimulationConfig.On], else the one with the most;
// nil if there is none.
func (s *Simulation) choose(t *task.Task) (best *worker) {
	had := node.ID("")
	if s.cfg.On != nil {
		had = s.cfg.On(t)
	}
	want := node.WantOfTask(t)
	for id, w := range s.nodes {
		if w.Slots-w.busy < t.Spec.Cost() {
			continue
		}
		if own, is := t.Route.Node(); is && own != string(id) {
			continue
		}
		if rule, _ := w.Excluded(want); rule != "" {
			continue
		}
		if id == had {
			return w
		}
		if best == nil || cmp.Or(cmp.Compare(w.Slots-w.busy, best.Slots-best.busy), cmp.Compare(best.ID, id)) > 0 {
			best = w
		}
	}
	return best
}

// seize takes the slots for a task, and free gives them back.
func (s *Simulation) seize(on *worker, t *task.Task) {
	on.busy += t.Spec.Cost()
	s.running[t.QueueName()]++
}

func (s *Simulation) free(on *worker, t *task.Task) {
	on.busy -= t.Spec.Cost()
	s.running[t.QueueName()]--
}

// start makes a node claim the task of an offer.
func (s *Simulation) start(o *offer, on *worker) {
	k := o.task
	if o.stale() {
		s.owe(k, 0)
		return
	}
	if !on.Takes() {
		s.back(o, 0)
		return
	}
	o.deliveries++
	q := s.queues[k.QueueName()]
	is := &events.Offer{Record: o.record, Deliveries: o.deliveries, Rate: queue.RateOf(&q), Valve: q.Valve, Lease: lease{s: s, o: o}}
	on.Protocol.Session = on.Node.Session
	var t task.Task
	switch mine, err := on.Claim(background, is, &t); {
	case err != nil:
		s.back(o, s.cfg.Settings.AckWait<<min(o.deliveries, 16)) // and ever later: it may never succeed
	case mine:
		s.observe()
		s.run(k, on, is)
	}
}

// back puts an offer back into its lane, after a while.
func (s *Simulation) back(o *offer, wait time.Duration) {
	if wait == 0 {
		lane := s.lanes[o.route]
		s.lanes[o.route] = slices.Insert(lane, 0, o)
		return
	}
	s.At(s.now.Add(wait), func() { s.back(o, 0) })
	s.owe(o.task, 0)
}

// run lets an attempt run that has begun.
func (s *Simulation) run(k *followed, on *worker, is *events.Offer) {
	a := &attempt{*k.Task, on, is}
	k.attempt = a
	s.seize(on, k.Task)
	took, ends := s.cfg.Runs(k.Task)
	at := k.StartedAt.Add(took)
	if until := k.RunUntil(); !until.IsZero() && at.After(until) {
		at, ends = until, task.Fail{Epoch: k.Epoch, Class: value.Timeout, Message: "its run timeout has passed"}
	}
	s.At(at, func() {
		if k.attempt == a {
			s.End(k.ID, ends)
		}
	})
}

// lease is the lease of an offer that a node has fetched. It lasts.
type lease struct {
	events.Lease // nil: a claim and a report call nothing else
	s            *Simulation
	o            *offer
}

// Ack implements [events.Lease].
func (lease) Ack() error { return nil }

// Return implements [events.Lease].
func (l lease) Return() error { return l.Rest(time.Millisecond << min(l.o.deliveries, 10)) }

// Rest implements [events.Lease].
func (l lease) Rest(d time.Duration) error {
	l.s.back(l.o, d)
	return nil
}

// beats are the heartbeats of nodes: all beat that are not offline.
type beats struct {
	scheduler.Heartbeats // nil: nothing else is asked
	s                    *Simulation
}

// Beating implements [scheduler.Heartbeats].
func (b beats) Beating(_ context.Context, id node.ID) (node.Heartbeat, bool, error) {
	if w := b.s.nodes[id]; w != nil && w.Alive() {
		return node.Heartbeat{Session: w.Node.Session}, true, nil
	}
	return node.Heartbeat{}, false, nil
}

// Pulse implements [events.Pulses].
func (b beats) Pulse(context.Context, node.ID) (node.Pulse, error) {
	return node.Pulse{Now: b.s.now}, nil
}
