package jet

import (
	"context"
	"time"

	"millrace/events/jet/pubsub"
	"millrace/task"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// readSettings reads the operators' settings of the worker's queues. Their rates and windows hold for
// everything that their lanes deliver from now on: they are read before the first offer is asked
// for, again soon after a change, and at the latest after [lanesEvery].
func (o *offers) readSettings(ctx context.Context) (map[string]queue.Queue, error) {
	said := make(map[string]queue.Queue, len(o.queues))
	for _, name := range o.queues {
		q, err := o.store.queue(ctx, name)
		if err != nil {
			return nil, err
		}
		v, err := o.flowOf(ctx, &q)
		if err != nil {
			return nil, err
		}
		said[name] = q
		o.setRate(name, queue.RateOf(&q))
		o.setFlow(name, v)
	}
	return said, nil
}

// setRate records the rate of a queue; the zero value means none.
func (o *offers) setRate(name string, r queue.Rate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rates == nil {
		o.rates = map[string]queue.Rate{}
	}
	o.rates[name] = r
	for _, s := range o.sources {
		if s.home == name {
			s.rate = r
		}
	}
}

// A queue with a window is closed outside its hours. Then workers do not ask its lanes, so the
// server delivers nothing in vain, however much waits there. Each worker decides by the log's time
// and the calendar, so it depends on no other process. It checks when the hour comes, when an
// operator changes the queue, and every [windowEvery]. Offers that were on their way rest, and the
// claim checks the window again.

const (
	// windowEvery is how often a worker checks whether the calendar of a queue has changed.
	windowEvery = 5 * time.Second
	// shutRest is how long an offer rests that was on its way when its queue closed: longer than
	// the server keeps withdrawn requests, which a puller takes back after two looks.
	shutRest = 5 * pubsub.Look
)

// flow is whether a queue's valve is open. The zero value belongs to a queue that is always open.
type flow struct {
	valve queue.Valve
	shut  bool
	next  *time.Timer // makes the worker check again; nil if the valve is always open
}

// flowOf checks the valve of a queue.
func (o *offers) flowOf(ctx context.Context, q *queue.Queue) (flow, error) {
	v := flow{valve: q.Valve}
	if v.valve.Always() {
		return v, nil
	}
	shut, turns, err := schedule.Flow(v.valve, o.store.Now(), func(calendar string) (task.Definition, error) {
		return o.store.Definition(ctx, task.Named(task.DefCalendar, calendar))
	})
	if err != nil {
		return v, err
	}
	if v.shut = shut != nil; v.shut {
		turns = shut.Until
	}
	again := windowEvery
	if !turns.IsZero() {
		again = min(again, turns.Sub(o.store.Now()))
	}
	v.next = time.AfterFunc(again, func() { signal(o.reread) })
	return v, nil
}

// setFlow records whether the valve of a queue is open.
func (o *offers) setFlow(queue string, v flow) {
	o.mu.Lock()
	was := o.flows[queue]
	if o.flows[queue] = v; was.next != nil {
		was.next.Stop()
	}
	if was.valve == v.valve && was.shut == v.shut {
		o.mu.Unlock()
		return
	}
	for _, s := range o.sources {
		if s.home == queue {
			s.valve, s.shut = v.valve, v.shut
			s.empty = s.empty && v.shut // a lane that opens may have offers
		}
	}
	changes := o.remeter()
	o.mu.Unlock()
	apply(changes)
}

// stopFlows stops the timers of the queues' valves.
func (o *offers) stopFlows() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range o.flows {
		if v.next != nil {
			v.next.Stop()
		}
	}
}
