package jet

import (
	"context"
	"time"

	"millrace/jet/pull"
	"millrace/task/definition"
	"millrace/task/queue"
	"millrace/task/schedule"
)

// A queue with a window is closed outside of its hours. Workers ask its lanes for nothing then, so nothing is handed out
// in vain, however much waits there. Each goes by the log's time and by the calendar, so nobody else has to be up. It
// looks when the hour comes, when somebody says something about the queue, and every [windowEvery]. What was on its way rests, and
// the claim asks the window again.

const (
	// windowEvery is how often a worker looks whether the calendar of a queue has changed.
	windowEvery = 5 * time.Second
	// shutRest is for how long an offer rests that was on its way when its queue closed: longer than the server keeps
	// requests that nobody wants any more, which are taken back after two looks of a puller.
	shutRest = 5 * pull.Look
)

// flow is whether a queue flows, by its window. The zero value is that of a queue without one.
type flow struct {
	window string
	shut   bool
	next   *time.Timer // has the worker look again; nil without a window
}

// flowOf looks at the window of a queue.
func (o *offers) flowOf(ctx context.Context, q *queue.Queue) (flow, error) {
	v := flow{window: q.Window}
	if q.Window == "" {
		return v, nil
	}
	is, err := o.store.Definition(ctx, definition.Named(definition.DefCalendar, q.Window))
	if err != nil {
		return v, err
	}
	now := o.store.Now()
	shut, turns := schedule.Flow(q, &is, now)
	if v.shut = shut != nil; v.shut {
		turns = shut.Until
	}
	again := windowEvery
	if !turns.IsZero() {
		again = min(again, turns.Sub(now))
	}
	v.next = time.AfterFunc(again, func() { signal(o.turn) })
	return v, nil
}

// turned notes whether a queue flows.
func (o *offers) turned(queue string, v flow) {
	o.mu.Lock()
	was := o.flows[queue]
	if o.flows[queue] = v; was.next != nil {
		was.next.Stop()
	}
	if was.window == v.window && was.shut == v.shut {
		o.mu.Unlock()
		return
	}
	for _, s := range o.sources {
		if s.home == queue {
			s.window, s.shut = v.window, v.shut
			s.empty = s.empty && v.shut // what opens may have something
		}
	}
	changes := o.remeter()
	o.mu.Unlock()
	apply(changes)
}

// lookNoMore stops the timers by which queues are looked at.
func (o *offers) lookNoMore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range o.flows {
		if v.next != nil {
			v.next.Stop()
		}
	}
}
