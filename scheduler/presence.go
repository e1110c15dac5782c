package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

// Heartbeats is the port to the nodes' heartbeats.
type Heartbeats interface {
	// Alive lists the heartbeats that have not expired. It may lag a little.
	Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error)
	// Beating returns a node's heartbeat, and false if it has expired. It does not lag.
	Beating(ctx context.Context, id node.ID) (node.Heartbeat, bool, error)
	// Pulses read a node's heartbeat with the server's times.
	events.Pulses
	// WatchBeats calls gone for each node whose heartbeat expires or is removed, as it happens,
	// until ctx ends. Last is when the heartbeat was stored that has expired, zero if it was removed.
	// WatchBeats calls lost at the start, and whenever some may have been missed since.
	WatchBeats(ctx context.Context, gone func(id node.ID, last time.Time), lost func()) error
}

// Routes is the port to what the log holds for nodes besides their facts. The log itself removes
// unused routes after a while.
type Routes interface {
	// DropNode removes at once what the log holds for a node that was retired at a time; nothing if it has
	// sent a heartbeat since, for then it has begun anew. Repeating it is harmless and costs little.
	DropNode(ctx context.Context, id node.ID, retired time.Time) error
}

// Naming is the port to the tasks that name nodes.
type Naming interface {
	// Naming returns a task that has not ended and names the node ([task.Work.Names]); "" if there is
	// none.
	Naming(ctx context.Context, id node.ID) (task.ID, error)
}

// presence is the scheduler's memory of heartbeats.
type presence struct {
	mu sync.Mutex
	// settled is when a missing heartbeat begins to count. Guarded by mu.
	settled time.Time
	// watched is since when the rounds of CheckNodes have seen the heartbeats without a gap, and round
	// is the last of them. forgot is the last one that looked for nodes to retire. Guarded by mu: two
	// rounds can meet.
	watched, round, forgot time.Time
	// traceless is since when nothing has come from nodes that have neither a heartbeat nor the trace
	// of one, as far as is known. Guarded by mu.
	traceless map[node.ID]time.Time
}

// trace records whether a node has neither a heartbeat nor the trace of one, and returns since when;
// zero if it has one, or if that is new. Last is when the last one was stored that this process
// followed, zero if it followed none.
func (p *presence) trace(id node.ID, pulse *node.Pulse, last time.Time) (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !pulse.Stored.IsZero() {
		delete(p.traceless, id)
		return since
	}
	since, known := p.traceless[id]
	if known && last.IsZero() {
		return since
	}
	if p.traceless == nil {
		p.traceless = map[node.ID]time.Time{}
	}
	if p.traceless[id] = last; last.IsZero() {
		p.traceless[id] = pulse.Now
	}
	return last
}

// traced records that a node has a heartbeat.
func (p *presence) traced(id node.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.traceless, id)
}

// unsettle gives nodes time to come back: this scheduler has just come up, and the same cause may
// have kept the nodes away.
func (p *presence) unsettle(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = time.Now().Add(d)
}

func (p *presence) calm() (bool, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(p.settled), p.settled
}

// lastBeat is a heartbeat that has ended: whose, and when it was stored; zero if the node took it back.
type lastBeat struct {
	node   node.ID
	stored time.Time
}

// watchNodes acts on heartbeats as they expire, until ctx ends. CheckNodes finds those that it
// misses.
func (s *Scheduler) watchNodes(ctx context.Context) error {
	gone := make(chan lastBeat, 1024)
	look := make(chan struct{}, 1)
	watching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { stop(); <-ended }()
	go func() {
		defer close(ended)
		s.watchBeats(watching, gone, look)
	}()
	var again <-chan time.Time // when to check nodes that were silent too early
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look:
		case <-again:
		case beat := <-gone:
			if calm, _ := s.presence.calm(); calm {
				if s.turns.First(string(beat.node)) {
					s.silent(ctx, beat)
				} else {
					again = time.After(Patience + HereEvery) // by then it is known whether the scheduler that goes first lives
				}
				continue
			}
		}
		if calm, at := s.presence.calm(); !calm {
			again = time.After(time.Until(at))
			continue
		}
		again = nil
		if err := s.CheckNodes(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("scheduler cannot look at the nodes; the sweep tries again", "error", err)
		}
	}
}

// watchBeats passes on the nodes whose heartbeats end, until ctx ends; look if there may be others.
func (s *Scheduler) watchBeats(ctx context.Context, gone chan<- lastBeat, look chan struct{}) {
	pause := time.Second / 2
	repeat(ctx, func() time.Duration {
		err := s.beats.WatchBeats(ctx, func(id node.ID, last time.Time) {
			select {
			case gone <- lastBeat{id, last}:
			default: // very many at once: one check of all nodes costs less
				Poke(look)
			}
		}, func() {
			s.presence.unsettle(s.cfg.Settling)
			Poke(look)
		})
		if ctx.Err() == nil {
			s.log.Warn("heartbeats cannot be watched; trying again, and looking at all of them meanwhile", "error", err)
		}
		pause = min(2*pause, 10*time.Second)
		return pause
	})
}

// silent records that a node fell silent, if the log agrees.
func (s *Scheduler) silent(ctx context.Context, beat lastBeat) {
	is := node.Node{ID: beat.node}
	nodes, _, err := s.view.Nodes(ctx)
	for i := range nodes {
		if nodes[i].ID == is.ID {
			is = nodes[i]
		}
	}
	if err == nil {
		is, err = s.latest(ctx, is)
	}
	if err == nil {
		err = s.vanished(ctx, &is, beat.stored)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("a node fell silent and that cannot be recorded now; the sweep tries again", "error", err, "node", string(beat.node))
	}
}

// latest is a node of the read model by all that the log says of it now. A node that has come and gone
// often has facts in all parts of the log.
func (s *Scheduler) latest(ctx context.Context, n node.Node) (node.Node, error) {
	now, err := s.rec.UpdateNode(ctx, events.KnownNode{Node: n})
	return now.Node, err
}

// vanished records that a node is offline if it has no heartbeat now. A heartbeat of another
// session proves nothing: a suspended process may have woken up and overwritten that of its
// successor. Last is when the last heartbeat was stored that this process followed, zero if it
// followed none.
func (s *Scheduler) vanished(ctx context.Context, n *node.Node, last time.Time) error {
	if !n.Alive() {
		return nil
	}
	pulse, err := s.beats.Pulse(ctx, n.ID)
	if err != nil {
		return err
	}
	since := s.presence.trace(n.ID, &pulse, last)
	if !since.IsZero() && since.Before(pulse.Made) {
		since = pulse.Made // the nodes could not beat while the bucket was away
	}
	if !n.Vanished(pulse, since) {
		return nil
	}
	by := task.By{Lease: &task.LeaseBy{At: pulse.Now, Beat: pulse.Stored, RanOut: pulse.RanOut}, Since: since}
	_, event, err := s.rec.DoNodeFrom(ctx, *n, node.Judged{Command: node.Vanish{Session: n.Session, Reason: node.RanOut}, By: by})
	if event != nil {
		s.log.Warn("node is offline: its heartbeat ran out", "node", string(n.ID))
	}
	return err
}

// CheckNodes checks all nodes once: for expired heartbeats that were not acted on, and for nodes to
// quarantine or release. Any number of goroutines and schedulers may do so at once.
func (s *Scheduler) CheckNodes(ctx context.Context) error {
	alive, err := s.beats.Alive(ctx)
	if err != nil {
		// Nodes that beat through the same server could not reach it either.
		s.presence.unsettle(s.cfg.Settling)
		return err
	}
	nodes, _, err := s.view.Nodes(ctx)
	if err != nil {
		return err
	}
	calm, _ := s.presence.calm()
	now := s.rec.Now()
	judges := s.turns.First("quarantines") // of all nodes, because each is judged together with the others
	var errs []error
	for i := range nodes {
		n := &nodes[i]
		switch h, ok := alive[n.ID]; {
		case ok && h.Session == n.Session:
			s.presence.traced(n.ID)
		case calm && n.Alive() && s.turns.First(string(n.ID)):
			errs = append(errs, s.vanished(ctx, n, time.Time{}))
		}
		judge := node.Judge{At: now, Policy: s.cfg.Flap, Alone: n.Settled(now) && n.Alone(nodes)}
		if event, _ := node.Decide(*n, judge); event == nil || !judges {
			continue
		}
		after, event, err := s.rec.DoNodeFrom(ctx, *n, judge)
		if errs = append(errs, err); err == nil {
			*n = after // the next one is judged together with it
		}
		switch e := event.(type) {
		case node.WasQuarantined:
			s.log.Warn("node is quarantined: "+e.Reason, "node", string(n.ID), "until", e.Until)
		case node.WasReleased:
			s.log.Info("node is released: "+e.Reason, "node", string(n.ID))
		}
	}
	return errors.Join(append(errs, s.forget(ctx, nodes, alive, now))...)
}

// How long a scheduler must have seen the heartbeats before it retires nodes that are offline, and how
// long it may have missed them meanwhile: after an outage, and when a machine wakes, workers may be on
// their way back.
const (
	retireWatch = 10 * time.Minute
	retireGap   = time.Minute
)

// retireEvery is how often it looks for such nodes.
const retireEvery = time.Minute

// retires records a round that has seen the heartbeats, and tells whether it looks for nodes to
// retire: such rounds have come without a gap for long enough, and the last look is a while ago.
func (p *presence) retires(now time.Time, after time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gap := now.Sub(p.round); gap < 0 || gap > retireGap {
		p.watched = now
	}
	p.round = now
	if now.Sub(p.watched) < min(after, retireWatch) || now.Sub(p.forgot) < min(after, retireEvery) {
		return false
	}
	p.forgot = now
	return true
}

// forget retires the nodes that have been offline for [Config.RetireAfter], except those that a task
// which has not ended names. A round in a while does so: it asks for the tasks of each such node.
func (s *Scheduler) forget(ctx context.Context, nodes []node.Node, alive map[node.ID]node.Heartbeat, now time.Time) error {
	if s.cfg.RetireAfter == 0 || s.cfg.Naming == nil || !s.presence.retires(now, s.cfg.RetireAfter) {
		return nil
	}
	var errs []error
	for i := range nodes {
		n, forget := nodes[i], node.Forget{At: now, After: s.cfg.RetireAfter}
		if _, beats := alive[n.ID]; beats || !s.turns.First(string(n.ID)) {
			continue
		}
		if event, _ := node.Decide(n, forget); event == nil {
			continue
		}
		by, err := s.cfg.Naming.Naming(ctx, n.ID)
		if err == nil && by == "" {
			err = s.retire(ctx, n, forget)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// retire records that a node is retired, if it still is as it was read, and removes what the log holds
// for it besides its facts.
func (s *Scheduler) retire(ctx context.Context, n node.Node, forget node.Forget) error {
	after, event, err := s.rec.DoNodeFrom(ctx, n, forget)
	if err != nil || event == nil {
		return err
	}
	s.log.Info("node is retired: "+after.Reason, "node", string(n.ID))
	if s.cfg.Routes == nil {
		return nil
	}
	return s.cfg.Routes.DropNode(ctx, n.ID, after.Since)
}

// reapFor is how long after the retirement of a node the reaper removes its remains. The process
// that retires a node removes them first. The log itself removes whatever is left a day after its
// last use, including the remains of a node that never registered.
const reapFor = 24*time.Hour + reapEvery

// reapNodes removes what the log still holds for nodes that were retired recently.
func (s *Scheduler) reapNodes(ctx context.Context) error {
	nodes, _, err := s.view.Nodes(ctx)
	errs := []error{err}
	since := s.rec.Now().Add(-reapFor)
	for i := range nodes {
		if n := &nodes[i]; n.State != node.Retired || n.Since.Before(since) {
			continue
		}
		n, err := s.latest(ctx, nodes[i])
		if err == nil && n.State == node.Retired { // otherwise it has begun anew
			err = s.cfg.Routes.DropNode(ctx, n.ID, n.Since)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reap node %s: %w", nodes[i].ID, err))
		}
	}
	return errors.Join(errs...)
}

// reapEvery is the interval of the reaper after its first run, which is at once.
const reapEvery = time.Hour

func (s *Scheduler) reap(ctx context.Context) error {
	if s.cfg.Routes == nil {
		return nil
	}
	repeat(ctx, func() time.Duration {
		err := errors.Join(s.reapNodes(ctx), s.reapSelectors(ctx), s.reapLanes(ctx))
		if err == nil || ctx.Err() != nil {
			return reapEvery
		}
		s.log.Warn("what is left of retired nodes and unused lanes cannot be removed now; trying again in a minute", "error", err)
		return time.Minute
	})
	return nil
}

// Roster is a scheduler's view of the nodes at one check.
type Roster struct {
	*node.Fleet
	// beating are heartbeats that were read after the known facts of their nodes.
	beating map[node.ID]node.Heartbeat
}

func (s *Scheduler) world(nodes []node.Node, at uint64) *Roster {
	return &Roster{node.NewFleet(nodes, at, s.rec.Now()), map[node.ID]node.Heartbeat{}}
}

// know adds a node that was read just now.
func (w *Roster) know(n node.Node) {
	w.Freshen(n)
	delete(w.beating, n.ID)
}

// beats tells whether the session that runs the task beats although the facts of its node say that
// it has ended. The recorder of that may have been slow: the session has beaten since, and may have
// claimed the task since. Call it only after those facts are known. A session that beats soon
// records that it is online.
func (w *Roster) beats(ctx context.Context, heartbeats Heartbeats, t *task.Task) (bool, error) {
	id := node.ID(t.Node)
	h, asked := w.beating[id]
	if !asked {
		var err error
		if h, _, err = heartbeats.Beating(ctx, id); err != nil {
			return false, err
		}
		w.beating[id] = h
	}
	return h.Session == t.Session, nil
}
