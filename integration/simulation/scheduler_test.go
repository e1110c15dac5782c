package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
)

// bounds are those of an installation that does not wait for ever for nodes.
var bounds = duties.Settings{StartDeadline: 2 * time.Minute, AckWait: ackWait, Slack: 3 * time.Second}

// bounds are those of a history.
func (h *history) bounds() duties.Settings {
	s := bounds
	if h.patient() {
		s.StartDeadline = 0
	}
	return s
}

// patient tells whether tasks wait for ever for nodes.
func (h *history) patient() bool { return h.variant.patient || h.variant.retiring }

// retireAfter is how long a node may be offline in a history in which such nodes retire.
const retireAfter = time.Second

// remains are what the log holds for nodes, to a scheduler that retires them: their heartbeats.
type remains struct{ actor *actor }

// DropNode removes them.
func (r remains) DropNode(ctx context.Context, id node.ID) error {
	return r.actor.call(&call{kind: write, op: "remove what is left of " + string(id), do: func() error { return r.actor.h.mem.Forget(ctx, id) }})
}

// startScheduler begins a scheduler as two actors, for it has two loops: one
// sweeps, the other watches the nodes.
func (h *history) startScheduler(name string, mortal bool) {
	loop := func(name string, every time.Duration, look func(*scheduler.Scheduler, context.Context) error) {
		h.start(name, mortal, func(a *actor) {
			v := &view{h: h, actor: a, fold: newFold()}
			cfg := scheduler.Config{Settings: h.bounds(), Settling: round, Flap: node.FlapPolicy{Limit: -1}, Timed: v, Timers: &port{h.mem, a}, Now: a.now}
			if h.variant.retiring {
				cfg.RetireAfter, cfg.Naming, cfg.Routes = retireAfter, v, remains{a}
			}
			s := scheduler.New(h.log(a), v, beats{a}, cfg)
			h.schedulers = append(h.schedulers, s)
			for {
				a.turn("waits", h.in(every))
				a.setClock(false)
				_ = look(s, context.Background()) // the next look tries again
			}
		})
	}
	loop(name, 3*time.Second, (*scheduler.Scheduler).Sweep)
	loop(name+"-nodes", time.Second, func(s *scheduler.Scheduler, ctx context.Context) error {
		return errors.Join(s.CheckNodes(ctx), s.React(ctx))
	})
}

// fold is what a read model would hold.
type fold struct {
	seq   uint64
	tasks map[task.ID]task.Task
	nodes map[node.ID]node.Node
}

func newFold() fold { return fold{tasks: map[task.ID]task.Task{}, nodes: map[node.ID]node.Node{}} }

func (f *fold) add(r *events.Record) {
	f.seq = r.Seq
	switch {
	case r.Fact.Task != "":
		t, ok := f.tasks[r.Fact.Task]
		if !ok {
			t.ID = r.Fact.Task
		}
		f.tasks[r.Fact.Task] = task.Evolve(t, r.Task())
	case r.Kind == events.KindNode:
		n, ok := f.nodes[r.Fact.Node]
		if !ok {
			n.ID = r.Fact.Node
		}
		f.nodes[r.Fact.Node] = node.Evolve(n, r.Node())
	}
}

// view is a read model that lags behind the log by a random number of records.
type view struct {
	h     *history
	actor *actor
	fold  fold
	// losses is how often the log had lost messages when the model was made.
	losses int
	// again is called when it is made again.
	again func()
}

var (
	_ scheduler.Model      = (*view)(nil)
	_ scheduler.TimerModel = (*view)(nil)
)

// ask stops the actor and then catches up, perhaps not wholly.
func (v *view) ask(op string) error {
	return v.actor.call(&call{kind: read, op: op, do: func() error {
		if v.losses != v.h.lost.times {
			if v.losses, v.fold = v.h.lost.times, newFold(); v.again != nil {
				v.again()
			}
		}
		behind := v.h.records[v.fold.seq:]
		if len(behind) > 0 && !v.h.calm && (v.h.rng.IntN(4) == 0 || v.h.variant.crowded) {
			behind = behind[:v.h.rng.IntN(len(behind))]
		}
		for i := range behind {
			v.fold.add(&behind[i])
		}
		return nil
	}})
}

// those lists up to limit tasks for which is holds, in a fixed order.
func (v *view) those(limit int, is func(*task.Task) bool) []task.ID {
	var ids []task.ID
	for _, id := range slices.Sorted(maps.Keys(v.fold.tasks)) {
		if t := v.fold.tasks[id]; is(&t) && len(ids) < limit {
			ids = append(ids, id)
		}
	}
	return ids
}

func (v *view) Due(_ context.Context, now time.Time, limit int) ([]task.ID, error) {
	err := v.ask("list tasks due")
	return v.those(limit, func(t *task.Task) bool {
		own := duties.Owes(*t, duties.Surroundings{Serving: 1}, duties.Settings{})
		return !own.Look && own.Overdue(now)
	}), err
}

func (v *view) Queues(context.Context) ([]string, error) {
	err := v.ask("list queues")
	pending := map[string]bool{}
	for _, t := range v.fold.tasks {
		if t.State == task.Pending {
			pending[t.Route.Queue()] = true
		}
	}
	return slices.Sorted(maps.Keys(pending)), err
}

func (v *view) Waiting(_ context.Context, queue string, before time.Time, after task.ID, limit int) ([]task.ID, error) {
	err := v.ask("list tasks that wait in " + queue)
	return v.those(limit, func(t *task.Task) bool {
		return t.State == task.Pending && t.Route.Queue() == queue && t.Since.Before(before) && t.ID > after
	}), err
}

func (v *view) Unassigned(_ context.Context, queue string, now time.Time, limit int) ([]task.ID, error) {
	err := v.ask("list tasks that busy nodes have left in " + queue)
	return v.those(limit, func(t *task.Task) bool {
		by := t.AssignBy()
		return t.Route.Queue() == queue && !by.IsZero() && !by.After(now)
	}), err
}

func (v *view) Held(_ context.Context, after task.ID, limit int) ([]task.ID, error) {
	err := v.ask("list held tasks")
	return v.those(limit, func(t *task.Task) bool { return t.State == task.Held && t.ID > after }), err
}

func timed(t *task.Task) bool { return t.State == task.Scheduled || t.State == task.Retrying }

func (v *view) Timed(_ context.Context, after task.ID, limit int) ([]task.ID, error) {
	err := v.ask("list tasks that wait for timers")
	return v.those(limit, func(t *task.Task) bool { return timed(t) && t.ID > after }), err
}

func (v *view) TimedCount(context.Context) (int, error) {
	err := v.ask("count tasks that wait for timers")
	return len(v.those(len(v.fold.tasks), timed)), err
}

func (v *view) Coming(_ context.Context, from, until time.Time) ([]task.ID, error) {
	err := v.ask("list tasks that are due soon")
	return v.those(len(v.fold.tasks), func(t *task.Task) bool {
		return timed(t) && t.Due.After(from) && !t.Due.After(until)
	}), err
}

func (v *view) Known(_ context.Context, ids []task.ID) ([]task.Task, error) {
	err := v.ask("look at tasks")
	var known []task.Task
	for _, id := range ids {
		if t, ok := v.fold.tasks[id]; ok {
			known = append(known, t)
		}
	}
	return known, err
}

func (v *view) Astray(_ context.Context, id node.ID, session string) ([]task.ID, error) {
	err := v.ask("list tasks on " + string(id))
	return v.those(len(v.fold.tasks), func(t *task.Task) bool { return t.Live() && t.Node == string(id) && t.Session != session }), err
}

func (v *view) Parents(_ context.Context, limit int) ([]task.ID, error) {
	err := v.ask("list parents")
	return v.those(limit, func(t *task.Task) bool { return t.Live() && t.Epoch == 0 }), err
}

func (v *view) Spawned(_ context.Context, parent task.ID) ([]task.ID, error) {
	err := v.ask("list children")
	return v.those(len(v.fold.tasks), func(t *task.Task) bool { return t.Parent == parent && !t.State.Terminal() }), err
}

func (v *view) Ends(_ context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	err := v.ask("look at states")
	ends := map[task.ID]task.End{}
	for _, id := range ids {
		if t, ok := v.fold.tasks[id]; ok {
			ends[id] = task.EndOf(&t)
		}
	}
	return ends, v.fold.seq, err
}

func (v *view) Busy(_ context.Context, route string) (bool, error) {
	err := v.ask("look whether " + route + " is in use")
	return len(v.those(1, func(t *task.Task) bool { return t.Route.Queue() == route && !t.State.Terminal() })) > 0, err
}

func (v *view) Naming(_ context.Context, id node.ID) (task.ID, error) {
	err := v.ask("look who names " + string(id))
	if v.h.variant.careless {
		return "", err
	}
	return append(v.those(1, func(t *task.Task) bool { return t.Names(string(id)) && !t.State.Terminal() }), "")[0], err
}

func (v *view) Nodes(context.Context) ([]node.Node, uint64, error) {
	err := v.ask("list nodes")
	var nodes []node.Node
	for _, id := range slices.Sorted(maps.Keys(v.fold.nodes)) {
		nodes = append(nodes, v.fold.nodes[id])
	}
	return nodes, v.fold.seq, err
}

// beats are the heartbeats of a history, as one scheduler sees them.
type beats struct{ actor *actor }

// Beating asks for one of them.
func (b beats) Beating(ctx context.Context, id node.ID) (node.Heartbeat, bool, error) {
	alive, err := b.Alive(ctx)
	h, ok := alive[id]
	return h, ok, err
}

// Pulse reads one with the times of the log.
func (b beats) Pulse(ctx context.Context, id node.ID) (node.Pulse, error) {
	return (&port{b.actor.h.mem, b.actor}).Pulse(ctx, id)
}

// WatchBeats is not part of a history: its schedulers look when it is their turn.
func (b beats) WatchBeats(context.Context, func(node.ID, time.Time), func()) error { return nil }

func (b beats) Alive(ctx context.Context) (alive map[node.ID]node.Heartbeat, err error) {
	err = b.actor.call(&call{kind: read, op: "list heartbeats", do: func() (err error) {
		alive, err = b.actor.h.mem.Alive(ctx)
		return err
	}})
	return alive, err
}
