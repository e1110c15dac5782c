package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/jet"
	"millrace/jet/roles"
	"millrace/node"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/schedule"
	"millrace/task/value"
	"millrace/task/where"
	"millrace/view"
)

// QueueListRequest asks for the queues that somebody serves or in which something waits or
// runs, or for one.
type QueueListRequest struct {
	Queue string `json:"queue,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
	// Rates asks for how much comes and goes, for which the answer looks twice, half a second apart.
	Rates bool `json:"rates,omitempty"`
	// At is a moment of the past: a sequence of the log, or a time; "" is now. What consumers held then is not known.
	At string `json:"at,omitempty"`
}

// QueuePage is some queues, in the order of their names.
type QueuePage struct {
	Queues []QueueView `json:"queues"`
	// Seq is the sequence of the log that the counts by state and the nodes reflect.
	Seq uint64 `json:"seq"`
}

// QueueView is a queue as the service shows it.
type QueueView struct {
	queue.Queue
	// States counts its tasks by state.
	States map[string]int `json:"states"`
	// Waiting counts, by priority, the offers that were not handed out yet, as the server of the log
	// says at this moment; those of tasks that were cancelled since are among them.
	Waiting map[int]int `json:"waiting"`
	// Leased is how many offers are handed out and not done with.
	Leased int `json:"leased"`
	// Oldest is since when the task has been pending that has waited longest.
	Oldest time.Time `json:"oldest,omitzero"`
	// Nodes are those that take new work from it.
	Nodes []string `json:"nodes"`
	// RateState is how its rate stands, and how many wait for that; nil if it has none, or no scheduler answers.
	RateState *quota.CounterState `json:"rate_state,omitempty"`
	// Shut is until when its window is closed, and why; nil if it is open, or if it has none.
	Shut *schedule.Wait `json:"shut,omitempty"`
	// In and Out are how many offers came and were done with in a second; nil if nobody asked.
	In  *float64 `json:"in_per_second,omitempty"`
	Out *float64 `json:"out_per_second,omitempty"`
}

// QueuesOf is the queues of a view at a time, or the one of a name: those that somebody serves, in which tasks are or were, or of which anything
// was said. Sums are those of the same place; rate tells how the rate of a queue stands, nil if that is not known. What consumers
// do is not among it.
func QueuesOf(ctx context.Context, v view.View, sums view.Summed, name string, now time.Time, rate func(counter string) *quota.CounterState) (QueuePage, error) {
	page := QueuePage{Queues: []QueueView{}}
	counts, err := v.Count(ctx, view.Query{Kind: view.Tasks})
	if err != nil {
		return page, err
	}
	page.Seq = counts.Point.Seq
	nodes, err := v.List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return page, err
	}
	told, err := v.List(ctx, view.Query{Kind: view.Queues})
	if err != nil {
		return page, err
	}
	oldest, err := sums.Oldest(ctx)
	if err != nil {
		return page, err
	}
	names := queueNames(&counts, nodes.Nodes, told.Queues)
	there := true
	if name != "" {
		there, names = slices.Contains(names, name), []string{name}
	}
	for _, name := range names {
		if value.ValidName("queue", name) != nil {
			continue // a node's own route
		}
		said, err := view.GetQueue(ctx, v, name)
		if err != nil {
			return page, err
		}
		if !there && said.Head == 0 {
			continue
		}
		q := QueueView{Queue: said, States: map[string]int{}, Waiting: map[int]int{}, Oldest: oldest[name], Nodes: []string{}}
		q.Paused = said.PausedAt(now)
		for state, n := range counts.Of[name] {
			q.States[state.String()] = n
		}
		for i := range nodes.Nodes {
			if nodes.Nodes[i].Serves(name) {
				q.Nodes = append(q.Nodes, string(nodes.Nodes[i].ID))
			}
		}
		if said.Window != "" {
			is, err := v.Get(ctx, view.Definition(definition.Named(definition.DefCalendar, said.Window)))
			if err != nil {
				return page, err
			}
			q.Shut, _ = schedule.Flow(&said, is.Definition, now)
		}
		if said.Rate.Limit > 0 {
			q.RateState = rate(limit.QueueRate(name))
		}
		page.Queues = append(page.Queues, q)
	}
	return page, nil
}

// QueuesThen is [QueuesOf] of a moment of the past.
func QueuesThen(ctx context.Context, v view.Whole, name string, at time.Time) (QueuePage, error) {
	var failed error
	limits := sync.OnceValue(func() *quota.Limiter {
		known, _, err := view.LimiterOf(ctx, v, v)
		failed = err
		return known
	})
	page, err := QueuesOf(ctx, v, v, name, at, func(counter string) *quota.CounterState {
		if known := limits(); known != nil {
			if found, n := known.Told(counter, at, 1, 0); n == 1 {
				return &found[0]
			}
		}
		return nil
	})
	return page, cmp.Or(err, failed)
}

// queueNames are those of the queues of which a view tells anything, in order.
func queueNames(counts *view.Counts, nodes []node.Node, told []queue.Queue) []string {
	names := map[string]bool{}
	for q := range counts.Of {
		names[q] = true
	}
	for i := range told {
		names[told[i].Name] = true
	}
	for i := range nodes {
		if nodes[i].State == node.Retired {
			continue
		}
		for _, q := range nodes[i].Queues {
			names[q] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Queues asks the read model for queues. The error wraps [jet.ErrNoService] if no server answers.
func (c *Client) Queues(ctx context.Context, r QueueListRequest) (QueuePage, error) {
	var page QueuePage
	err := c.store.Ask(ctx, roles.QueueList, r, &page)
	return page, err
}

// Queue reads from the log what operators have said about a queue; nothing is no error.
func (c *Client) Queue(ctx context.Context, name string) (queue.Queue, error) {
	return view.GetQueue(ctx, c.View(), name)
}

// PauseQueue sees to it that nothing of a queue is started: for a while or, if d is 0,
// until somebody resumes it. What runs goes on. It holds when PauseQueue returns.
func (c *Client) PauseQueue(ctx context.Context, name string, d time.Duration, reason string) (queue.Queue, error) {
	return c.tellQueue(ctx, name, queue.PauseFor{For: d, Reason: reason})
}

// ResumeQueue ends a pause. One that is not paused stays as it is.
func (c *Client) ResumeQueue(ctx context.Context, name, reason string) (queue.Queue, error) {
	return c.tellQueue(ctx, name, queue.Resume{Reason: reason})
}

// LimitQueue sets how many tasks of a queue may run at once, how many may wait, how often they may
// start, and in the hours of which calendar; 0 and "" are no bound, and nil leaves a bound as it is. What runs goes on, and what
// waits is under the new bounds. The error says which of them cannot be, if so; it wraps [definitions.ErrNoCalendar] if there is none for the window, and is an
// [*Overtaken] if the queue is another one than was seen.
func (c *Client) LimitQueue(ctx context.Context, name string, bounds queue.Limit) (queue.Queue, error) {
	if w := bounds.Window; w != nil && *w != "" && bounds.Validate() == nil {
		if _, err := c.CalendarAt(ctx, *w, 0); err != nil {
			return queue.Queue{Name: name}, fmt.Errorf("window: %w", err)
		}
	}
	q, err := c.tellQueue(ctx, name, bounds)
	return q, overtaken(err, func(seen uint64) (was, is any, wrong error) {
		records, wrong := c.store.Queue(ctx, name)
		old := slices.DeleteFunc(slices.Clone(records), func(r events.Record) bool { return r.Seq > seen })
		if len(old) == 0 {
			return nil, nil, wrong
		}
		return events.FoldQueue(name, old), events.FoldQueue(name, records), wrong
	})
}

func (c *Client) tellQueue(ctx context.Context, name string, command queue.Command) (queue.Queue, error) {
	if err := value.ValidName("queue", name); err != nil {
		return queue.Queue{Name: name}, Wrong(err)
	}
	q, _, err := c.rec.DoQueue(ctx, name, command)
	if err != nil {
		return q, fmt.Errorf("queue %s: %w", name, err)
	}
	// Also if it held already: who said it may have died before he came to this.
	return q, c.store.KeepQueue(ctx, name)
}

// CancelWaiting ends a task if it waits, and tells whether it did; one that has begun or
// ended is left alone. The error wraps [task.ErrUnknown] if there is none.
func (c *Client) CancelWaiting(ctx context.Context, id task.ID, reason string) (bool, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return false, err
	}
	_, _, err = c.rec.Do(ctx, t, task.CancelWaiting{Reason: reason})
	switch {
	case errors.Is(err, task.ErrEnded), errors.Is(err, task.ErrNotWaiting):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cancel task %s: %w", id, err)
	}
	return true, nil
}

// Prioritize gives a task that waits another priority. The error wraps [task.ErrUnknown],
// [task.ErrEnded] or [task.ErrNotWaiting].
func (c *Client) Prioritize(ctx context.Context, id task.ID, priority int, reason string) (task.Task, error) {
	if err := where.ValidPriority(priority); err != nil {
		return task.Task{ID: id}, Wrong(err)
	}
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	t, _, err = c.rec.Do(ctx, t, task.Prioritize{Priority: priority, Reason: reason})
	if err != nil {
		return t, fmt.Errorf("edit task %s: %w", id, err)
	}
	return t, c.rec.Settle(ctx, &t)
}

// Waiting counts the tasks that wait in a queue of which at most so many may: offers that the
// queue's consumers have not handed out, and what waits for the queue's rate. It is for [desk.Store].
func (c *Client) Waiting(ctx context.Context, name string, most int) (int, error) {
	lanes, err := c.store.QueueState(ctx, name)
	if err == nil && !slices.ContainsFunc(lanes, func(l jet.LaneState) bool { return l.Plain() && l.Queue == name }) {
		// Nobody has served the queue yet, so nothing counts what lies there.
		if err = c.store.OpenQueue(ctx, name); err == nil {
			lanes, err = c.store.QueueState(ctx, name)
		}
	}
	if err != nil {
		return 0, err
	}
	waiting := 0
	for _, l := range lanes {
		waiting += l.Waiting
	}
	q, err := c.rec.LoadQueue(ctx, name)
	if err != nil {
		return 0, err
	}
	held := 0
	if q.Rate.Limit > 0 {
		held = c.underRate(ctx, name)
	}
	if waiting+held >= most {
		// The offers of tasks that were cancelled are among them; the read model knows better, if
		// there is one.
		waiting = min(waiting, c.pending(ctx, name, waiting))
	}
	return waiting + held, nil
}

// underRate is how many wait for the rate of a queue, as far as a scheduler says.
func (c *Client) underRate(ctx context.Context, name string) int {
	page, err := c.Limits(ctx, LimitListRequest{Name: limit.QueueRate(name), Limit: 1})
	if err != nil || len(page.Counters) != 1 {
		return 0
	}
	return page.Counters[0].Waiting
}

// pending is how many tasks of a queue are pending by the read model, or what it is else.
func (c *Client) pending(ctx context.Context, name string, or int) int {
	last, err := c.store.Last(ctx)
	if err != nil {
		return or
	}
	page, err := c.Queues(ctx, QueueListRequest{Queue: name, AtLeast: last})
	if err != nil || len(page.Queues) != 1 {
		return or
	}
	return page.Queues[0].States[task.Pending.String()]
}

// ErrNoQueue: nobody serves the queue, nothing was ever in it, and nobody has said anything about it.
var ErrNoQueue = errors.New("no queue")

// OneQueue is what [Client.Queues] says of one queue.
func (c *Client) OneQueue(ctx context.Context, name string, rates bool) (QueueView, error) {
	page, err := c.Queues(ctx, QueueListRequest{Queue: name, Rates: rates})
	return OneOf(page, name, err)
}

// OneOf is the queue of a page that was asked for one alone; the error wraps [ErrNoQueue] if it has none.
func OneOf(page QueuePage, name string, err error) (QueueView, error) {
	if err != nil {
		return QueueView{}, err
	}
	if len(page.Queues) == 0 {
		return QueueView{}, fmt.Errorf("%w is called %q", ErrNoQueue, name)
	}
	return page.Queues[0], nil
}
