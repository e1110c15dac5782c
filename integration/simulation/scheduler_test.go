package simulation

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/history/whatif"
	views "millrace/projections/view"
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
func (r remains) DropNode(ctx context.Context, id node.ID, retired time.Time) error {
	return r.actor.call(&call{kind: write, op: "remove what is left of " + string(id), do: func() error {
		if is, err := r.actor.h.mem.Pulse(ctx, id); err != nil || is.Beat.Session != "" && is.Stored.After(retired) {
			return err
		}
		return r.actor.h.mem.Forget(ctx, id)
	}})
}

// startScheduler begins a scheduler as two actors, for it has two loops: one
// sweeps, the other watches the nodes.
func (h *history) startScheduler(name string, mortal bool) {
	loop := func(name string, every time.Duration, look func(*scheduler.Scheduler, context.Context) error) {
		h.start(name, mortal, func(a *actor) {
			v := h.view(a)
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
	*whatif.ReadModel
	h     *history
	actor *actor
	// losses is how often the log had lost messages when the model was made.
	losses int
	// again is called when it is made again.
	again func()
	// hears is called with what it has folded; nil if nobody hears.
	hears func(*events.Record)
}

func (h *history) view(a *actor) *view {
	v := &view{ReadModel: whatif.NewReadModel(), h: h, actor: a}
	v.Asked = v.ask
	return v
}

// ask stops the actor and then catches up, perhaps not wholly.
func (v *view) ask(op string) error {
	return v.actor.call(&call{kind: read, op: op, do: func() error {
		if v.losses != v.h.lost.times {
			if v.losses, v.Memory = v.h.lost.times, views.NewMemory(); v.again != nil {
				v.again()
			}
		}
		behind := v.h.records[v.Seq():]
		if len(behind) > 0 && !v.h.calm && (v.h.rng.IntN(4) == 0 || v.h.variant.crowded) {
			behind = behind[:v.h.rng.IntN(len(behind))]
		}
		for i := range behind {
			v.Add(&behind[i])
			if v.hears != nil {
				v.hears(&behind[i])
			}
		}
		return nil
	}})
}

// Naming tells of tasks that name a node. Careless histories do not look.
func (v *view) Naming(ctx context.Context, id node.ID) (task.ID, error) {
	named, err := v.ReadModel.Naming(ctx, id)
	v.actor.keep[id] = v.h.keepers(v, id)
	if v.h.variant.careless {
		return "", err
	}
	return named, err
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
