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
	"millrace/events/jet"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/schedule"
	"millrace/task/value"
)

// QueueListRequest asks for one queue, or for all queues that a worker serves or in which tasks
// wait or run.
type QueueListRequest struct {
	// Queue asks for this queue alone.
	Queue string `json:"queue,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
	// Rates asks for arrival and departure rates; for that the answer measures twice, half a second
	// apart.
	Rates bool `json:"rates,omitempty"`
	// At is a moment of the past: a sequence of the log, or a time; "" is now. What consumers held
	// then is unknown.
	At string `json:"at,omitempty"`
	PageRequest
}

// QueuePage is a page of queues, in the order of their names.
type QueuePage struct {
	// Queues are those of this page.
	Queues []QueueView `json:"queues"`
	// Seq is the sequence of the log that the counts by state and the nodes reflect.
	Seq uint64 `json:"seq"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
	// UnservedNodes are the tasks that wait for one node alone, which does not take them: they belong
	// to no queue. Only the first page of all queues has them.
	UnservedNodes []UnservedNode `json:"unserved_nodes,omitempty"`
}

// UnservedNode is tasks that wait for one node alone, which does not take them.
type UnservedNode struct {
	// Node is its name. No worker need have registered under it.
	Node string `json:"node"`
	node.Unserved
}

// unservedNodes are the tasks that wait for one node each, of all that no node takes.
func unservedNodes(unserved map[string]*node.Unserved) (all []UnservedNode) {
	for _, home := range slices.Sorted(maps.Keys(unserved)) {
		if on, own := placement.NodeOf(home); own {
			all = append(all, UnservedNode{on, *unserved[home]})
		}
	}
	return all
}

// QueueView is a queue as the service shows it.
type QueueView struct {
	queue.Queue
	// States counts its tasks by state.
	States map[string]int `json:"states"`
	// Waiting counts, by priority, the offers that were not delivered yet, as the log's server
	// reports now; tasks that were cancelled since are included.
	Waiting map[int]int `json:"waiting"`
	// Leased is how many offers are delivered and not yet acknowledged.
	Leased int `json:"leased"`
	// Oldest is since when the longest-waiting pending task has been pending.
	Oldest time.Time `json:"oldest,omitzero"`
	// Unserved are those of its tasks that no node takes; nil if there are none, or if it is paused.
	Unserved *node.Unserved `json:"unserved,omitempty"`
	// Nodes are the nodes that take new work from it.
	Nodes []string `json:"nodes"`
	// RateState is the state of its rate, and how many tasks wait for that; nil if it has none, or
	// no scheduler answers.
	RateState *quota.CounterState `json:"rate_state,omitempty"`
	// Shut says until when its window is closed, and why; nil if it is open, or if it has none.
	Shut *schedule.Wait `json:"shut,omitempty"`
	// In and Out are how many offers came and were finished per second; nil if not asked for.
	In  *float64 `json:"in_per_second,omitempty"`
	Out *float64 `json:"out_per_second,omitempty"`
}

// QueuesOf returns the queues of a view at a time: those that a worker serves, that have or had
// tasks, or for which an operator has set anything. The request chooses one of them, or a page;
// without a limit all. sums are of the same place in the log; rate returns the state of a queue's
// rate, nil if unknown. It knows nothing of consumers.
func QueuesOf(ctx context.Context, v view.View, sums view.Summed, r *QueueListRequest, now time.Time, rate func(counter string) *quota.CounterState) (QueuePage, error) {
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
	routed, present := sums.(node.Routed)
	var routes []node.Route
	if present {
		if routes, err = routed.PendingRoutes(ctx); err != nil {
			return page, err
		}
	} else {
		for name, of := range counts.Of {
			if n := of[task.Pending]; n > 0 && !placement.IsSelectorQueue(name) {
				first := task.Task{State: task.Pending, Work: task.Work{Route: placement.QueueRoute(name, placement.DefaultPriority)}}
				routes = append(routes, node.Route{Home: name, Tasks: n, Oldest: oldest[name], First: first})
			}
		}
	}
	unserved := node.UnservedOf(routes, nodes.Nodes, told.Queues, now)
	if r.Queue == "" && r.Cursor == "" {
		page.UnservedNodes = unservedNodes(unserved)
	}
	names := queueNames(&counts, nodes.Nodes, told.Queues)
	there := true
	if r.Queue != "" {
		there, names = slices.Contains(names, r.Queue), []string{r.Queue}
	} else if names, page.Next, err = view.Section(names, func(name *string) string { return *name }, r.Limit, r.Cursor); err != nil {
		return page, err
	}
	for _, name := range names {
		said, err := view.GetQueue(ctx, v, name)
		if err != nil {
			return page, err
		}
		if !there && said.Head == 0 {
			continue
		}
		q := QueueView{Queue: said, States: map[string]int{}, Waiting: map[int]int{}, Oldest: oldest[name], Nodes: []string{}}
		q.Paused, q.Unserved = said.PausedAt(now), unserved[name]
		for state, n := range counts.Of[name] {
			q.States[state.String()] = n
		}
		for i := range nodes.Nodes {
			if nodes.Nodes[i].Serves(name) {
				q.Nodes = append(q.Nodes, string(nodes.Nodes[i].ID))
			}
		}
		if q.Shut, err = view.Flow(ctx, v, said.Valve, now); err != nil {
			return page, err
		}
		if said.Rate.Limit > 0 {
			q.RateState = rate(limit.QueueRate(name))
		}
		page.Queues = append(page.Queues, q)
	}
	return page, nil
}

// QueuesThen is [QueuesOf] for a moment of the past.
func QueuesThen(ctx context.Context, v view.Whole, r *QueueListRequest, at time.Time) (QueuePage, error) {
	var failed error
	limits := sync.OnceValue(func() *quota.Limiter {
		known, _, err := view.LimiterOf(ctx, v, v)
		failed = err
		return known
	})
	page, err := QueuesOf(ctx, v, v, r, at, func(counter string) *quota.CounterState {
		if known := limits(); known != nil {
			if found := known.Told(counter, at, 0); len(found) == 1 {
				return &found[0]
			}
		}
		return nil
	})
	return page, cmp.Or(err, failed)
}

// queueNames returns the names of all queues that a view mentions, in order.
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
	for name := range names {
		if value.ValidName("queue", name) != nil {
			delete(names, name) // a node's own route
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Key is by what lists are in order.
func (v *QueueView) Key() string { return v.Name }

// Queues asks the read model for queues: for all, if the request has no limit. The error wraps
// [jet.ErrNoService] if no server answers, and [ErrNoQueue] if there is no queue of the request's
// name.
func (c *Client) Queues(ctx context.Context, r QueueListRequest) (list QueuePage, err error) {
	err = r.pages(func() (string, error) {
		var page QueuePage
		err := c.ask(ctx, rights.QueueList, r, &page)
		list = QueuePage{Queues: joined(list.Queues, page.Queues), Seq: page.Seq, Next: page.Next, UnservedNodes: append(list.UnservedNodes, page.UnservedNodes...)}
		return page.Next, err
	})
	var refused *jet.ServiceError
	if errors.As(err, &refused) && refused.Code == "404" {
		_, err = OneOf(QueuePage{}, r.Queue, nil)
	}
	return list, err
}

// Queue reads an operator's settings of a queue from the log; none is no error.
func (c *Client) Queue(ctx context.Context, name string) (queue.Queue, error) {
	return view.GetQueue(ctx, c.View(), name)
}

// PauseQueue keeps the tasks of a queue from starting: for d or, if d is 0, until the queue is
// resumed. Running tasks go on. The pause is in force when PauseQueue returns.
func (c *Client) PauseQueue(ctx context.Context, name string, d time.Duration, reason string) (queue.Queue, error) {
	return c.tellQueue(ctx, name, queue.PauseFor{For: d, Reason: reason})
}

// ResumeQueue ends a pause. A queue that is not paused stays as it is.
func (c *Client) ResumeQueue(ctx context.Context, name, reason string) (queue.Queue, error) {
	return c.tellQueue(ctx, name, queue.Resume{Reason: reason})
}

// LimitQueue sets how many tasks of a queue may run at one time, how many may wait, how often they
// may start, in the hours of which calendar, and who is told of them; 0 and "" mean no bound, and nil leaves
// a bound as it is. Running tasks go on; the new bounds apply to waiting ones. The error names a bound that is
// not valid; it wraps [definitions.ErrNoCalendar] if the window's calendar does not exist, and is
// an [*Overtaken] if the queue has changed since it was seen.
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
	// Do it even if nothing changed: the process that set it may have died before this.
	return q, c.store.KeepQueue(ctx, name)
}

// CancelWaiting cancels a task if it waits, and tells whether it did; a started or ended task is
// left alone. The error wraps [task.ErrUnknown] if there is none.
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

// Prioritize gives a waiting task another priority. The error wraps [task.ErrUnknown],
// [task.ErrEnded] or [task.ErrNotWaiting].
func (c *Client) Prioritize(ctx context.Context, id task.ID, priority int, reason string) (task.Task, error) {
	if err := placement.ValidPriority(priority); err != nil {
		return task.Task{ID: id}, Wrong(err)
	}
	return c.Change(ctx, "edit", id, task.Prioritize{Priority: priority, Reason: reason})
}

// ErrNoQueue: no worker serves the queue, it never had a task, and no operator has set anything for
// it.
var ErrNoQueue = errors.New("no queue")

// OneQueue is [Client.Queues] for one queue.
func (c *Client) OneQueue(ctx context.Context, name string, rates bool) (QueueView, error) {
	page, err := c.Queues(ctx, QueueListRequest{Queue: name, Rates: rates})
	return OneOf(page, name, err)
}

// OneOf returns the queue of a page that was requested for one alone; the error wraps [ErrNoQueue]
// if the page is empty.
func OneOf(page QueuePage, name string, err error) (QueueView, error) {
	if err != nil {
		return QueueView{}, err
	}
	if len(page.Queues) == 0 {
		return QueueView{}, fmt.Errorf("%w is called %q", ErrNoQueue, name)
	}
	return page.Queues[0], nil
}

// LimitListRequest asks for the limits that apply to tasks.
type LimitListRequest struct {
	// Name names one counter; "" means all.
	Name string `json:"name,omitempty"`
	// Task asks where a task waits before its limits, and for nothing else.
	Task task.ID `json:"task,omitempty"`
	// Limit is how many counters are returned, those with the most waiting tasks first: 1 to 1000,
	// default 50.
	Limit int `json:"limit,omitempty"`
	// Cursor is the Next of the previous page. A limit for which another number of tasks waits since
	// then may be missing, or come twice.
	Cursor string `json:"cursor,omitempty"`
	// Holders is how many of the tasks that hold each limit are returned: 0 to 1000, default 0.
	Holders int `json:"holders,omitempty"`
	// At is a moment of the past: a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
}

// LimitPage is what a scheduler knows of limits.
type LimitPage struct {
	// Counters are the limits and their state.
	Counters []quota.CounterState `json:"counters"`
	// All is how many counters there are.
	All int `json:"all"`
	// Standing is where the requested task waits; nil if it waits for no limit.
	Standing *quota.Standing `json:"standing,omitempty"`
	// Seq is a sequence of the log that the page reflects.
	Seq uint64 `json:"seq"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

// LimitsOf answers a request from the limits of a view at a time.
func LimitsOf(ctx context.Context, v view.View, sums view.Summed, r LimitListRequest, now time.Time) (LimitPage, error) {
	page := LimitPage{Counters: []quota.CounterState{}}
	known, seq, err := view.LimiterOf(ctx, v, sums)
	if err != nil {
		return page, err
	}
	counters := known.Told(r.Name, now, r.Holders)
	err = page.Take(counters, &r)
	page.Seq = seq
	return page, err
}

// Take makes the page that a request chooses from all counters, which are in the order of
// [quota.Limiter.Told].
func (p *LimitPage) Take(all []quota.CounterState, r *LimitListRequest) error {
	some, next, err := view.Section(all, (*quota.CounterState).Key, r.Limit, r.Cursor)
	p.Counters, p.All, p.Next = append([]quota.CounterState{}, some...), len(all), next
	return err
}

// Limits asks a scheduler for limits. The error wraps [jet.ErrNoService] if no server answers.
func (c *Client) Limits(ctx context.Context, r LimitListRequest) (LimitPage, error) {
	var page LimitPage
	err := c.ask(ctx, rights.LimitList, r, &page)
	return page, err
}
