package whatif

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/queue"
)

// ReadModel is a scheduler's read model in memory: the fold of the records that were added.
type ReadModel struct {
	*view.Memory
	// Asked is called before each answer, and may add records. If it fails, so does the answer.
	// Default: nothing happens.
	Asked func(question string) error
}

var (
	_ scheduler.Model      = (*ReadModel)(nil)
	_ scheduler.TimerModel = (*ReadModel)(nil)
	_ scheduler.LimitModel = (*ReadModel)(nil)
	_ scheduler.Naming     = (*ReadModel)(nil)
)

// NewReadModel returns the model of an empty log.
func NewReadModel() *ReadModel { return &ReadModel{Memory: view.NewMemory()} }

// Step adds the next record of the log, and returns it with its effect.
func (m *ReadModel) Step(r *events.Record) events.Step {
	step := events.Step{Record: r}
	if was := m.Task(r.Fact.Task); was != nil {
		step.Was = events.GlanceAt(was)
	}
	m.Add(r)
	if step.Task = m.Task(r.Fact.Task); step.Task != nil {
		step.Is = events.GlanceAt(step.Task)
	}
	return step
}

func (m *ReadModel) ask(question string) error {
	if m.Asked == nil {
		return nil
	}
	return m.Asked(question)
}

// those lists up to limit tasks for which is holds, by id, as of after the question.
func (m *ReadModel) those(question string, limit int, is func(*task.Task) bool) (ids []task.ID, err error) {
	err = m.ask(question)
	for t := range m.All() {
		if len(ids) == limit {
			break
		}
		if is(t) {
			ids = append(ids, t.ID)
		}
	}
	return ids, err
}

// unbounded is how many tasks a list without a bound has at most.
const unbounded = -1

// Due implements [scheduler.Model].
func (m *ReadModel) Due(_ context.Context, now time.Time, limit int) ([]task.ID, error) {
	return m.those("list tasks due", limit, func(t *task.Task) bool {
		own := duties.Owes(*t, duties.Surroundings{Serving: 1}, duties.Settings{})
		return !own.Look && own.Overdue(now)
	})
}

// Queues implements [scheduler.Model].
func (m *ReadModel) Queues(context.Context) (all []string, err error) {
	err = m.ask("list queues")
	pending := map[string]bool{}
	for t := range m.All() {
		if t.State == task.Pending {
			pending[t.Route.Queue()] = true
		}
	}
	return slices.Sorted(maps.Keys(pending)), err
}

// Waiting implements [scheduler.Model].
func (m *ReadModel) Waiting(_ context.Context, queue string, before time.Time, after task.ID, limit int) ([]task.ID, error) {
	return m.those("list tasks that wait in "+queue, limit, func(t *task.Task) bool {
		return t.State == task.Pending && t.Route.Queue() == queue && t.Since.Before(before) && t.ID > after
	})
}

// Unassigned implements [scheduler.Model].
func (m *ReadModel) Unassigned(_ context.Context, queue string, now time.Time, limit int) ([]task.ID, error) {
	return m.those("list tasks that busy nodes have left in "+queue, limit, func(t *task.Task) bool {
		by := t.AssignBy()
		return t.Route.Queue() == queue && !by.IsZero() && !by.After(now)
	})
}

// Held implements [scheduler.Model].
func (m *ReadModel) Held(_ context.Context, after task.ID, limit int) ([]task.ID, error) {
	return m.those("list held tasks", limit, func(t *task.Task) bool { return t.State == task.Held && t.ID > after })
}

// timed tells whether a task waits for a timer.
func timed(t *task.Task) bool { return t.State == task.Scheduled || t.State == task.Retrying }

// Timed implements [scheduler.TimerModel].
func (m *ReadModel) Timed(_ context.Context, after task.ID, limit int) ([]task.ID, error) {
	return m.those("list tasks that wait for timers", limit, func(t *task.Task) bool { return timed(t) && t.ID > after })
}

// TimedCount implements [scheduler.TimerModel].
func (m *ReadModel) TimedCount(context.Context) (int, error) {
	ids, err := m.those("count tasks that wait for timers", unbounded, timed)
	return len(ids), err
}

// Coming implements [scheduler.TimerModel].
func (m *ReadModel) Coming(_ context.Context, from, until time.Time) ([]task.ID, error) {
	return m.those("list tasks that are due soon", unbounded, func(t *task.Task) bool {
		return timed(t) && t.Due.After(from) && !t.Due.After(until)
	})
}

// Known implements [scheduler.Model].
func (m *ReadModel) Known(_ context.Context, ids []task.ID) (known []task.Task, err error) {
	err = m.ask("look at tasks")
	for _, id := range ids {
		if t := m.Task(id); t != nil {
			known = append(known, *t)
		}
	}
	return known, err
}

// Since is what [scheduler.Forget] asks for.
func (m *ReadModel) Since(_ context.Context, ids []task.ID, seq uint64) (later map[task.ID]bool, unknown []task.ID, err error) {
	later, err = map[task.ID]bool{}, m.ask("look when tasks changed")
	for _, id := range ids {
		if t := m.Task(id); t == nil {
			unknown = append(unknown, id)
		} else if t.Seq >= seq {
			later[id] = true
		}
	}
	return later, unknown, err
}

// Astray implements [scheduler.Model].
func (m *ReadModel) Astray(ctx context.Context, id node.ID, session string) ([]task.ID, error) {
	if id == "" {
		return m.ofUnknown(ctx)
	}
	return m.those("list tasks on "+string(id), unbounded, func(t *task.Task) bool {
		return t.Live() && t.Node == string(id) && t.Session != session
	})
}

// ofUnknown lists the tasks that run on nodes of which there is no fact, as of the question before.
func (m *ReadModel) ofUnknown(ctx context.Context) (ids []task.ID, err error) {
	page, err := m.List(ctx, view.Query{Kind: view.Nodes})
	for t := range m.All() {
		if t.Live() && t.Node != "" && !slices.ContainsFunc(page.Nodes, func(n node.Node) bool { return string(n.ID) == t.Node }) {
			ids = append(ids, t.ID)
		}
	}
	return ids, err
}

// Parents implements [scheduler.Model].
func (m *ReadModel) Parents(_ context.Context, limit int) ([]task.ID, error) {
	return m.those("list parents", limit, func(t *task.Task) bool { return t.Live() && t.Epoch == 0 })
}

// Spawned implements [scheduler.Model].
func (m *ReadModel) Spawned(_ context.Context, parent task.ID) ([]task.ID, error) {
	return m.those("list children", unbounded, func(t *task.Task) bool { return t.Parent == parent && !t.State.Terminal() })
}

// Ends implements [scheduler.Model].
func (m *ReadModel) Ends(_ context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	err := m.ask("look at states")
	ends := map[task.ID]task.End{}
	for _, id := range ids {
		if t := m.Task(id); t != nil {
			ends[id] = task.EndOf(t)
		}
	}
	return ends, m.Seq(), err
}

// Busy implements [scheduler.Model].
func (m *ReadModel) Busy(_ context.Context, route string) (bool, error) {
	ids, err := m.those("look whether "+route+" is in use", 1, func(t *task.Task) bool { return t.Route.Queue() == route && !t.State.Terminal() })
	return len(ids) > 0, err
}

// Naming implements [scheduler.Naming].
func (m *ReadModel) Naming(_ context.Context, id node.ID) (task.ID, error) {
	ids, err := m.those("look who names "+string(id), 1, func(t *task.Task) bool { return t.Names(string(id)) && !t.State.Terminal() })
	return append(ids, "")[0], err
}

// Nodes implements [scheduler.Model].
func (m *ReadModel) Nodes(ctx context.Context) ([]node.Node, uint64, error) {
	err := m.ask("list nodes")
	page, wrong := m.List(ctx, view.Query{Kind: view.Nodes})
	return page.Nodes, m.Seq(), errors.Join(err, wrong)
}

// SaidOfQueues implements [scheduler.LimitModel].
func (m *ReadModel) SaidOfQueues(ctx context.Context) ([]queue.Queue, error) {
	page, err := m.List(ctx, view.Query{Kind: view.Queues})
	return page.Queues, err
}

// Wait implements [scheduler.LimitModel]. It does not wait: the next look is soon enough.
func (m *ReadModel) Wait(context.Context, uint64) error { return nil }
