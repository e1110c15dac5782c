package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/submit"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// Model is a scheduler's port to the read model, which may lag behind the log.
type Model interface {
	// Due returns live tasks whose own deadline has passed, at most limit.
	Due(ctx context.Context, now time.Time, limit int) ([]task.ID, error)
	// Queues returns the queues in which tasks are pending.
	Queues(ctx context.Context) ([]string, error)
	// Waiting returns tasks of a queue that have been pending since before a time, with ids after the
	// given one, by id.
	Waiting(ctx context.Context, queue string, before time.Time, after task.ID, limit int) ([]task.ID, error)
	// Unassigned returns tasks of a queue whose [task.Task.AssignBy] has passed, at most limit.
	Unassigned(ctx context.Context, queue string, now time.Time, limit int) ([]task.ID, error)
	// Held returns held tasks with ids after the given one, by id.
	Held(ctx context.Context, after task.ID, limit int) ([]task.ID, error)
	// Known returns the known tasks among the given ones, in any order.
	Known(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Astray returns the tasks that run on a node under another session than this one; without an id
	// those that run on nodes of which there is no fact.
	Astray(ctx context.Context, id node.ID, session string) ([]task.ID, error)
	// Nodes returns all nodes, and the sequence that this reflects.
	Nodes(ctx context.Context) ([]node.Node, uint64, error)
	// Parents returns the parents that have not ended, at most limit.
	Parents(ctx context.Context, limit int) ([]task.ID, error)
	// Spawned returns the children that a task's program has spawned and that have not ended.
	Spawned(ctx context.Context, parent task.ID) ([]task.ID, error)
	// Ends returns the progress of tasks, and the sequence that this reflects; unknown tasks are
	// missing.
	Ends(ctx context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error)
	// Busy tells whether a route has tasks that have not ended.
	Busy(ctx context.Context, route string) (bool, error)
}

// Config sets the scheduler's pace. Zero fields mean the default.
type Config struct {
	// Settings are the bounds for all tasks.
	duties.Settings
	// Sweep is the interval of the search for late tasks. Default 5s.
	Sweep time.Duration
	// Presence is the interval of checks of all nodes, in case the end of a heartbeat was missed.
	// Default 5s.
	Presence time.Duration
	// React is the interval of checks whether nodes came or went. Default 250ms.
	React time.Duration
	// Settling is how long after the start of the scheduler or of its connection missing heartbeats
	// are ignored, because nodes must come back first. Default 5s.
	Settling time.Duration
	// Deliveries reports offers that the server gave up. Default: none.
	Deliveries Deliveries
	// Selectors holds the declarations of selectors' routes, to which the scheduler adds missing
	// ones. Default: none.
	Selectors Selectors
	// Lanes are tidied up like routes of selectors. Laned is the read model that knows which are in
	// use. Default: none.
	Lanes Lanes
	Laned LaneModel
	// Idle is how long an unused lane or selector's route stays. Default 24h, at least [MinIdle].
	Idle time.Duration
	// Schedules are the schedules for whose ticks it makes tasks, Ticks their timers, and Births
	// the port through which it makes the tasks. The errors of Births wrap [birth.ErrNoTask] if no
	// task can be made of what a schedule names. Default: none.
	Schedules Schedules
	Ticks     Ticks
	Births    submit.Store
	// Limits is the read model that knows the tasks under limits. Default: none, and this scheduler
	// admits no such tasks.
	Limits LimitModel
	// Refusing is how many refused tasks it ends concurrently. Default 16.
	Refusing int
	// Peers are the other schedulers. For each task, node or schedule one of them acts first, and
	// the others follow if it does not. Default: there are none.
	Peers Peers
	// Last is the sequence of the last message in the log ([events.Follower]): a scheduler with
	// peers goes first only while its read model has reached that. Default: the read model counts
	// as level.
	Last func(context.Context) (uint64, error)
	// Tell returns what a task has printed last, and a link to it, for handlers of its end. Default: they are
	// told neither.
	Tell func(context.Context, task.ID) (lines []string, link string, err error)
	// Hints notifies nodes at once. Default: they find out by polling.
	Hints events.Hinter
	// Looked is called after each round of a loop: [LoopSweep], [LoopPresence], [LoopReact],
	// [LoopBreaker] or [LoopAdmit]. Default: none.
	Looked func(loop string, began, ended time.Time, err error)
	// Told is called by [Scheduler.Observe] behind each step of a batch, and may take its time: the
	// loops of the scheduler go on meanwhile. Default: none.
	Told func()
	// Flap says when a node comes and goes too often to get work.
	Flap node.FlapPolicy
	// RetireAfter is how long a node may be offline before it is retired ([node.Node.Retires]).
	// Default 0: for ever. Naming knows the tasks that keep a node. Default: none, and no node is
	// retired.
	RetireAfter time.Duration
	Naming      Naming
	// Timed is the read model that knows which tasks wait for timers, and Timers the log that says
	// which have one. Default: none, and this scheduler does not set missing timers.
	Timed  TimerModel
	Timers events.Timers
	// Routes is what the log holds for nodes, to be tidied up. Default: none.
	Routes Routes
	// Now is the clock for deadlines. Default: the method Now of the log, if it has one as package
	// jet's does; else [time.Now].
	Now func() time.Time
	Log *slog.Logger
}

// The loops of a scheduler.
const (
	LoopSweep    = "sweep"
	LoopPresence = "presence"
	LoopReact    = "react"
	LoopBreaker  = "breaker"
	// LoopSchedules finds schedules without a timer, LoopReleases ticks that need not wait any
	// longer.
	LoopSchedules = "schedules"
	LoopReleases  = "releases"
	LoopAdmit     = "admit"
)

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.AckWait, 30*time.Second)
	set(&c.Slack, 3*time.Second)
	set(&c.Sweep, 5*time.Second)
	set(&c.Presence, 5*time.Second)
	set(&c.React, 250*time.Millisecond)
	set(&c.Settling, 5*time.Second)
	set(&c.Look, c.Sweep)
	set(&c.Idle, 24*time.Hour)
	c.Idle = max(c.Idle, MinIdle)
	if c.Refusing == 0 {
		c.Refusing = 16
	}
	if c.Looked == nil {
		c.Looked = func(string, time.Time, time.Time, error) {}
	}
	return c
}

// Scheduler enforces the deadlines of tasks and nodes. Several may act on one log.
type Scheduler struct {
	cfg   Config
	view  Model
	beats Heartbeats
	rec   *events.Recorder
	log   *slog.Logger
	// accounts tells whether leases have ended.
	accounts *events.Accounts

	watched  atomic.Pointer[time.Time] // when the sweep first looked for unserved queues
	unserved map[string]time.Time      // unserved queues, and since when; owned by the sweep
	idle     map[string]bool           // queues without offers at the last sweep
	unborn   sync.Map                  // of [task.ID]; tasks without a birth, of which it was said
	swept    map[string]task.ID        // up to which task a sweep has examined an unserved route; owned by the sweep
	// missing are tasks whose offer was missing at this sweep, missed those at the one before.
	// Owned by the sweep.
	missing, missed map[task.ID]miss
	turns           *Precedence
	fitness         Fitness
	presence        presence
	watch           watch
	reacting        *Deferred      // tasks affected by a node that came or went
	dead            *inbox[string] // offers that the server gave up, by sequence
	expiring        *Deferred      // unserved tasks, by each scheduler's own observation
	families        *families
	repairs         repairs
	breakers        breakers
	handed          handed
	reactors        []reactor // set once, by New
	needs           *needs
	heldSweep       heldSweep
	timerSweep      timerSweep

	ticks         *tickWatch
	scheduleSweep scheduleSweep
	observed      uint64        // the last sequence that Observe took; its own
	heard         atomic.Uint64 // the highest sequence of the log that it has heard of; see [Scheduler.hear]
	plans         plans
	jobs          jobs
	desk          *submit.Maker
	admitter      *admitter // nil if it does not admit tasks
}

// New returns a scheduler that acts on a log, guided by a view.
func New(log events.Log, view Model, beats Heartbeats, cfg Config) *Scheduler {
	cfg = cfg.withDefaults()
	if cfg.Now == nil {
		cfg.Now = time.Now
		if own, ok := log.(interface{ Now() time.Time }); ok {
			cfg.Now = own.Now
		}
	}
	turns := NewPrecedence(events.NewID(cfg.Now()))
	needs, parents := newNeeds(turns.Left()), newFamilies(turns.Left())
	s := &Scheduler{
		turns: turns, reacting: turns.Left(), dead: newInbox[string](turns.Left()), expiring: turns.Left(), breakers: breakers{left: turns.Left()},
		needs: needs, families: parents, reactors: []reactor{needs, parents},
		cfg: cfg, view: view, beats: beats, log: cfg.Log, unserved: map[string]time.Time{}, idle: map[string]bool{}, swept: map[string]task.ID{},
		presence: presence{settled: time.Now().Add(cfg.Settling)},
		accounts: &events.Accounts{Log: log, Beats: beats, Lease: cfg.AckWait},
		rec:      &events.Recorder{Log: log, Actor: events.PartScheduler, Hints: cfg.Hints, Now: cfg.Now, NewID: events.NewID},
	}
	s.ticks = newTickWatch(cfg.Now, turns)
	if cfg.Schedules != nil {
		s.reactors = append(s.reactors, s.ticks)
	}
	s.desk = &submit.Maker{Store: cfg.Births, Rec: s.rec, Nodes: func(ctx context.Context, _ *task.Task) ([]node.Node, uint64, string, error) {
		nodes, at, err := view.Nodes(ctx)
		return nodes, at, "", err
	}}
	s.plans.from, s.plans.following = cfg.Schedules, newFollowing(&s.heard)
	s.jobs.from, s.jobs.following = cfg.Schedules, newFollowing(&s.heard)
	if cfg.Limits != nil {
		s.admitter = newAdmitter(s.rec, &cfg, turns)
		s.reactors = append(s.reactors, s.admitter)
	}
	s.reactors = append(s.reactors, &s.breakers, &s.handed, deadElsewhere{s.dead.left})
	return s
}

// Run enforces deadlines until ctx ends, and then returns nil. It returns an error if it cannot
// listen for dead offers. A caller that sets the pace itself, as the simulation does, calls
// [Scheduler.Sweep], [Scheduler.CheckNodes], [Scheduler.React] and [Scheduler.ReleaseTicks], each one round of a
// loop, and [Scheduler.Fire].
func (s *Scheduler) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { s.every(ctx, LoopSweep, s.cfg.Sweep, s.Sweep); return nil })
	g.Go(func() error { s.every(ctx, LoopPresence, s.cfg.Presence, s.CheckNodes); return nil })
	g.Go(func() error { s.every(ctx, LoopReact, s.cfg.React, s.React); return nil })
	if s.admitter != nil {
		g.Go(func() error {
			hurry(ctx, s.admitter.view, s.admitter.busy, s.admitter.observed.Load, s.admitter.crowded)
			return nil
		})
		g.Go(func() error {
			s.admitter.run(ctx, func(began, ended time.Time, err error) {
				s.fitness.Ends(LoopAdmit, err)
				s.cfg.Looked(LoopAdmit, began, ended, err)
			})
			return nil
		})
	}
	g.Go(func() error { s.every(ctx, LoopBreaker, s.cfg.React, s.judgeBreakers); return nil })
	g.Go(func() error { return s.watchNodes(ctx) })
	g.Go(func() error { return s.reap(ctx) })
	g.Go(func() error { s.followParents(ctx); return nil })
	g.Go(func() error { return s.bury(ctx) })
	g.Go(func() error { s.release(ctx); return nil })
	if view, ok := s.view.(Hurried); ok {
		g.Go(func() error { hurry(ctx, view, s.needs.busy, s.needs.observed.Load, s.needs.crowded); return nil })
	}
	g.Go(func() error { return s.handleFires(ctx) })
	g.Go(func() error { return s.meet(ctx) })
	if s.cfg.Peers != nil {
		g.Go(func() error { s.keepLevel(ctx); return nil })
	}
	return g.Wait()
}

// Repairs counts, by kind, the steps that another component should have taken; a missing kind is 0.
func (s *Scheduler) Repairs() map[Repair]int { return s.repairs.all() }

// repaired counts a repair, and logs it. Every such log line has the field repair.
func (s *Scheduler) repaired(kind Repair, what string, about ...any) {
	s.repairs.add(kind)
	s.log.Warn(what, append([]any{"repair", string(kind)}, about...)...)
}

// repeat calls do until ctx ends, and again after the wait that it returns.
func repeat(ctx context.Context, do func() (wait time.Duration)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(do()):
		}
	}
}

func (s *Scheduler) every(ctx context.Context, loop string, d time.Duration, do func(context.Context) error) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		s.fitness.Begins(loop)
		err := do(ctx)
		s.fitness.Ends(loop, err)
		s.cfg.Looked(loop, began, time.Now(), err)
		if err != nil && ctx.Err() == nil && !failing {
			s.log.Warn("scheduler cannot look; trying again", "error", err)
		}
		failing = err != nil
	}
}

// batch is how many tasks of one kind a sweep handles.
const batch = 1000

// Sweep checks once for late tasks and records what follows.
func (s *Scheduler) Sweep(ctx context.Context) error {
	now := s.rec.Now()
	s.missed, s.missing = s.missing, map[task.ID]miss{}
	nodes, at, err := s.view.Nodes(ctx)
	if err != nil {
		return err
	}
	world := s.world(nodes, at)
	for q, since := range s.unserved {
		world.Unserved(q, since)
	}
	due, err := s.view.Due(ctx, now, batch)
	if err != nil {
		return err
	}
	errs := []error{s.enforceAll(ctx, due, world, true)}
	for _, n := range nodes {
		errs = append(errs, s.sweepNode(ctx, n.ID, world, true))
	}
	// A log that has lost its last messages may have an attempt of a worker, and nothing of its node.
	errs = append(errs, s.sweepNode(ctx, "", world, true))
	errs = append(errs, s.sweepQueues(ctx, now, world), s.sweepLanes(ctx), s.sweepSelectors(ctx), s.sweepHeld(ctx), s.sweepTimers(ctx, now), s.sweepParents(ctx))
	return errors.Join(errs...)
}

// sweepNode examines tasks that run under ended sessions of a node; without an id, those of unknown nodes.
func (s *Scheduler) sweepNode(ctx context.Context, id node.ID, w *Roster, sweeping bool) error {
	ids, err := s.view.Astray(ctx, id, liveSession(w, id))
	return errors.Join(err, s.enforceAll(ctx, ids, w, sweeping))
}

// liveSession is the session of a node that has not ended, "" if there is none.
func liveSession(w *Roster, id node.ID) string {
	if n := w.Node(id); n.State != node.Offline && n.State != node.Retired {
		return n.Session
	}
	return ""
}

// Watched is since when all present schedulers have watched queues without nodes. Before this one's
// first sweep that is now.
func (s *Scheduler) Watched() time.Time {
	now, since := s.rec.Now(), s.began()
	for _, name := range s.turns.Others() {
		if id, err := ulid.ParseStrict(name); err == nil { // else something else has announced itself
			since = value.Later(since, ulid.Time(id.Time()))
		}
	}
	if since.After(now) {
		return now
	}
	return since
}

// began is since when this scheduler has watched them.
func (s *Scheduler) began() time.Time {
	if own := s.watched.Load(); own != nil {
		return *own
	}
	return s.rec.Now()
}

// sweepQueues examines unserved queues.
func (s *Scheduler) sweepQueues(ctx context.Context, now time.Time, w *Roster) error {
	s.watched.CompareAndSwap(nil, &now)
	queues, err := s.view.Queues(ctx)
	if err != nil {
		return err
	}
	unserved := map[string]time.Time{}
	for _, q := range queues {
		if err := s.learn(ctx, q, now, w); err != nil {
			return err
		}
		if err := s.sweepQueue(ctx, w.Home(q), w); err != nil {
			return err
		}
		if w.Serving(q) > 0 {
			ids, err := s.view.Unassigned(ctx, q, now, batch)
			if err := errors.Join(err, s.enforceAll(ctx, ids, w, true), s.sweepIdle(ctx, q, now)); err != nil {
				return err
			}
			continue
		}
		// This scheduler's own observation counts, because after a general outage workers may be on
		// their way back.
		since, ok := s.unserved[q]
		if !ok {
			since = now
		}
		unserved[q] = since
		w.Unserved(q, since)
		if _, own := placement.QueueRoute(q, placement.DefaultPriority).Node(); own {
			if err := s.sweepRoute(ctx, q, now, w, true); err != nil {
				return err
			}
			continue
		}
		missed := w.Missed(q)
		if placement.IsSelectorQueue(q) && missed >= s.cfg.Slack { // the nodes may have been read before the task
			if err := s.sweepRoute(ctx, q, now, w, true); err != nil {
				return err
			}
			continue
		}
		if s.cfg.StartDeadline == 0 || missed < s.cfg.StartDeadline {
			continue
		}
		ids, err := s.view.Waiting(ctx, q, now.Add(-s.cfg.StartDeadline), "", batch)
		if err := errors.Join(err, s.enforceSome(ctx, ids, w, true, s.expiring.Mine)); err != nil {
			return err
		}
	}
	s.unserved = unserved
	return nil
}

// sweepRoute examines tasks that wait on the route of a node that takes no work. Most of them may wait
// for ever, so a sweep begins behind the last one that the sweep before has examined.
func (s *Scheduler) sweepRoute(ctx context.Context, queue string, now time.Time, w *Roster, sweeping bool) error {
	after := task.ID("")
	if sweeping {
		after = s.swept[queue]
	}
	ids, err := s.view.Waiting(ctx, queue, now, after, batch)
	if sweeping {
		if delete(s.swept, queue); err == nil && len(ids) == batch {
			s.swept[queue] = ids[batch-1]
		}
	}
	return errors.Join(err, s.enforceAll(ctx, ids, w, sweeping))
}

// enforceAll examines those of some tasks with which this scheduler goes first. Outside the sweep
// it learns of a change only once, so it keeps the others until their schedulers have had their
// time; see [Scheduler.enforceLate].
func (s *Scheduler) enforceAll(ctx context.Context, ids []task.ID, w *Roster, sweeping bool) error {
	mine := s.reacting.Mine
	if sweeping {
		mine = s.turns.First
	}
	return s.enforceSome(ctx, ids, w, sweeping, mine)
}

// enforceSome examines the tasks among ids that are this scheduler's.
func (s *Scheduler) enforceSome(ctx context.Context, ids []task.ID, w *Roster, sweeping bool, mine func(string) bool) error {
	for _, id := range ids {
		if !mine(string(id)) {
			continue
		}
		if err := s.enforce(ctx, id, w, sweeping); err != nil {
			return err
		}
	}
	return nil
}

// miss is an offer found missing by a sweep: for which turn, and since when.
type miss struct {
	turn  uint64
	since time.Time
}

// missedLong tells whether the task's offer has been missing for as long as a timer may take. One
// check is not enough: after an outage of the server, the sweep that waited for it may run before
// the overdue timers have fired.
func (s *Scheduler) missedLong(t *task.Task, now time.Time) bool {
	m, ok := s.missed[t.ID]
	if !ok || m.turn != t.Turn {
		m = miss{t.Turn, now}
	}
	s.missing[t.ID] = m
	return now.Sub(m.since) >= s.cfg.Slack
}

// enforce reads one task from the log and records its duty's command if that is overdue. In a
// sweep, steps that another component should have taken count as repairs.
func (s *Scheduler) enforce(ctx context.Context, id task.ID, w *Roster, sweeping bool) error {
	t, err := s.rec.Load(ctx, id)
	if errors.Is(err, task.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.Spec == nil { // neither a birth nor an offer: nobody can run it, so nothing is owed
		if _, said := s.unborn.LoadOrStore(id, true); !said {
			s.log.Warn("a task has facts and no birth, as after a loss of the log's last messages; it is ignored, and `millrace verify` names the facts", "task", string(id), "state", t.State.String())
		}
		return nil
	}
	now := s.rec.Now()
	duty, by, err := s.duty(ctx, &t, w)
	if err != nil || duty.Look || !duty.Overdue(now) {
		return err
	}
	kind := Repair("")
	if sweeping {
		kind = kindOf(&t, &duty, now.Sub(duty.By) > s.cfg.Slack+s.cfg.Sweep)
	}
	if duty.Command == nil {
		// The offer that should have come by itself.
		if _, missing := task.NextOffer(&t); !missing || sweeping && !s.missedLong(&t, now) {
			return nil
		}
		s.repaired(kind, "overdue: "+duty.What+"; the sweep does it", "task", string(id), "state", t.State.String(), "by", duty.By)
		return s.rec.Settle(ctx, &t)
	}
	ctx, done := lasting(ctx)
	defer done()
	event, err := s.obey(ctx, &t, duty.Command, by, w)
	switch {
	case errors.Is(err, task.ErrLeased), errors.Is(err, task.ErrMovedOn):
		return nil // and the task is examined again
	case errors.Is(err, task.ErrEnded), errors.Is(err, task.ErrFenced), errors.Is(err, task.ErrNotWaiting),
		errors.Is(err, task.ErrElsewhere), errors.Is(err, task.ErrNotHeld):
		return nil // another scheduler was faster
	case err != nil:
		return fmt.Errorf("task %s is overdue: %w", id, err)
	}
	if event != nil {
		about := []any{"task", string(id), "fact", string(events.TypeOf(event)), "duty", duty.What}
		if kind != "" {
			s.repaired(kind, "did what was due", about...)
		} else {
			s.log.Info("did what was due", about...)
		}
	}
	return s.rec.Settle(ctx, &t)
}

// owedTime is how long a scheduler that stops goes on with what it has begun.
const owedTime = 2 * time.Second

// lasting returns a context for a command and what it owes, which is a second write. It outlives the
// stop of the scheduler: else what is owed would wait for a sweep. If the scheduler has stopped
// already, nothing begins.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(owedTime, cancel)
		context.AfterFunc(longer, func() { late.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// duty returns the duty of a task, and what it was judged by. Before a node counts as gone, it reads
// from the log what may have become of that node since. Before nodes count as missing, it reads
// whether the queue is paused.
func (s *Scheduler) duty(ctx context.Context, t *task.Task, w *Roster) (duties.Duty, task.By, error) {
	around := w.Around(t)
	if t.State == task.Pending && (around.Serving == 0 || !t.AssignBy().IsZero()) {
		if _, err := s.tell(ctx, w.Home(t.Route.Queue()), w); err != nil {
			return duties.Duty{}, task.By{}, err
		}
		around = w.Around(t)
	}
	if id := w.Doubted(t, around); id != "" {
		// The world may be older than the task: a node that came back may have claimed it since.
		records, err := s.rec.Log.Node(ctx, id, 0)
		if err != nil {
			return duties.Duty{}, task.By{}, fmt.Errorf("read node %s: %w", id, err)
		}
		w.know(events.FoldNode(id, records))
		around = w.Around(t)
	}
	by := w.By(t, around, s.cfg.Settings)
	if !around.NodeGone.IsZero() {
		beats, err := w.beats(ctx, s.beats, t)
		if err != nil {
			return duties.Duty{}, by, err
		}
		if by.Beats = beats; beats {
			around.NodeGone = time.Time{}
		}
	}
	if t.State == task.Pending && t.Route.Selected() && around.Serving == 0 && around.Unserved.IsZero() {
		return duties.Duty{}, by, nil // only the check of all queues knows for how long
	}
	rules := s.cfg.Settings
	rules.Watched = s.began()
	return duties.Owes(*t, around, rules), by, nil
}

// obey records what follows from the command of a duty, on the chain as it was read. A command that
// takes the task from its node gets the log's account of the lease.
func (s *Scheduler) obey(ctx context.Context, t *task.Task, c task.Command, by task.By, w *Roster) (task.Event, error) {
	if lose, ok := c.(task.Lose); ok && !by.Beats && w.Accounted(t, w.Around(t)) {
		account, err := s.accounts.Of(ctx, t)
		if err != nil {
			return nil, err
		}
		lose.Account = &account
		c = lose
	}
	return s.rec.Move(ctx, t, task.Judged{Command: task.Unmoved{Command: c, Head: t.Head}, By: by})
}
