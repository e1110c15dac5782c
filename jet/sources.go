package jet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/task"
)

// source is a consumer from which offers come.
type source struct {
	lane task.Lane
	home string    // the queue whose limit holds for it: its own, or that of its selector; "" for a node's own route
	own  *ownRoute // nil for lanes that others serve, too
	pace pace      // of requests there
	pull *puller   // waits there
	ask  *asker    // asks for what is there; nil for a node's own route
	// empty is whether it had nothing when that was last known, until again, when it is to be asked
	// all the same. Guarded by offers.mu.
	empty bool
	again time.Time
	// metered is whether its queue has a limit and several lanes. Guarded by offers.mu.
	metered bool
	rate    task.QueueRate // of its queue. Guarded by offers.mu.
	// window is that of its queue, "" for none, and shut is whether that is closed. Guarded by offers.mu.
	window  string
	shut    bool
	removed bool // its consumer was, for nobody uses the lane. Guarded by offers.mu.
}

// pullAtOnce is how many offers are worth a request while others are on their
// way. Measured with 256 slots: 1 costs a tenth of the rate, above 64 the
// pipeline runs dry.
const pullAtOnce = 32

func (o *offers) serveLane(ctx context.Context, l task.Lane) (*source, error) {
	home := l.Queue
	if task.IsSelectorQueue(home) {
		d, known, err := o.store.selectorOf(ctx, home)
		switch {
		case err != nil:
			return nil, fmt.Errorf("serve %s: %w", l.Queue, err)
		case !known:
			return nil, fmt.Errorf("serve %s: nobody has declared it yet", l.Queue)
		}
		home = d.Queue
	}
	return o.serve(ctx, &source{lane: l, home: home, pace: workerPace}, laneConsumer(l), func(ctx context.Context) (bool, error) { return o.store.ensureLane(ctx, l, false) })
}

// serveOwn serves the node's own route.
func (o *offers) serveOwn(ctx context.Context) (*source, error) {
	return o.serve(ctx, &source{lane: o.own.lane, own: o.own, pace: workerPace}, nodeConsumer(o.own.node), o.own.ensure)
}

// serve begins to pull from the consumer of a source, which ensure makes.
func (o *offers) serve(ctx context.Context, src *source, name string, ensure func(context.Context) (bool, error)) (*source, error) {
	if _, err := ensure(ctx); err != nil {
		return nil, err
	}
	revive := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		switch made, err := ensure(ctx); { // if it fails, the puller comes again
		case made && err == nil:
			o.interrupted("the consumer " + name + " was lost and has been made again")
		case errors.Is(err, errRemoved):
			o.mu.Lock()
			src.removed = true
			o.mu.Unlock()
			o.lookAgain()
		}
	}
	// Before anything can come: what comes first may be here before newPuller has returned.
	pulled := make(chan struct{})
	take := func(m *nats.Msg) bool { <-pulled; return o.take(src, false, m) }
	if src.own != nil {
		take = func(m *nats.Msg) bool { <-pulled; return o.takeOwn(m) }
	}
	p, err := newPuller(o.store.nc, LogStream, name, src.pace, pullAtOnce, take, revive)
	if err != nil {
		return nil, err
	}
	src.pull = p
	if src.own != nil {
		src.own.pull = p
	} else {
		src.ask = &asker{nc: o.store.nc, subject: p.subject,
			take: func(m *nats.Msg) bool { return o.take(src, true, m) }, bare: func(silent bool) { o.bare(src, silent) }, gone: p.gone}
	}
	o.mu.Lock()
	first := len(o.sources) == 0
	v := o.flows[src.home]
	src.rate, src.window, src.shut = o.rates[src.home], v.window, v.shut
	o.sources, o.pullers = append(slices.Clip(o.sources), src), append(slices.Clip(o.pullers), p)
	do := o.remeter()
	o.mu.Unlock()
	close(pulled)
	do()
	if first { // all of them share the connection
		p.mu.Lock()
		p.returned = func() {
			o.interrupted("the connection came back")
			o.lookAgain()
			o.askAgain()
		}
		p.mu.Unlock()
	}
	return src, nil
}

// Also implements [events.Offers].
func (o *offers) Also(ctx context.Context, queues []string) error {
	o.also.Lock() // one change at a time
	defer o.also.Unlock()
	var errs []error
	kept := map[string]*nats.Subscription{}
	for _, queue := range queues {
		heard := o.more[queue]
		if heard == nil {
			var err error
			if heard, err = o.store.nc.Subscribe(lanesPrefix+queue, func(*nats.Msg) { o.lookAgain() }); err == nil {
				_, err = o.serveLane(ctx, task.Lane{Queue: queue, Priority: task.DefaultPriority})
			}
			if err != nil {
				errs = append(errs, err)
				unheard(heard)
				continue
			}
		}
		kept[queue] = heard
	}
	for queue, heard := range o.more {
		if kept[queue] == nil {
			unheard(heard)
			o.dropQueue(queue)
		}
	}
	o.more = kept
	o.lookAgain() // they may have other lanes, and one that was removed may be used again
	return errors.Join(errs...)
}

func unheard(sub *nats.Subscription) {
	if sub != nil {
		_ = sub.Unsubscribe() // fails only if the connection is gone
	}
}

// dropQueue pulls no more from any lane of a queue.
func (o *offers) dropQueue(queue string) {
	o.mu.Lock()
	sources := o.sources
	o.mu.Unlock()
	for _, src := range sources {
		if src.lane.Queue == queue {
			o.drop(src)
		}
	}
}

// drop pulls no more from a source. What it brought is handed out or goes back.
func (o *offers) drop(src *source) {
	o.mu.Lock()
	o.sources = slices.DeleteFunc(slices.Clone(o.sources), func(s *source) bool { return s == src })
	o.pullers = slices.DeleteFunc(slices.Clone(o.pullers), func(p *puller) bool { return p == src.pull })
	do := o.remeter()
	o.mu.Unlock()
	do()
	o.bare(src, false) // whoever asks there asks elsewhere
	src.ask.close()
	src.pull.drain()
}

// lanesEvery is how often a worker looks whether a queue of its own has got another
// lane of which it was not told.
const lanesEvery = time.Minute

// lookAfter is how long after a look that failed it looks again.
const lookAfter = time.Second

// firstLook is how long the first look may take before a worker begins all the same.
const firstLook = time.Second

// watchLanes serves the lanes that queues have, now and whenever there is another.
func (o *offers) watchLanes(ctx, looking context.Context) error {
	if len(o.queues) == 0 {
		return nil
	}
	var subs []*nats.Subscription
	for _, q := range o.queues {
		sub, err := o.store.nc.Subscribe(lanesPrefix+q, func(*nats.Msg) { o.lookAgain() })
		if err != nil {
			return fmt.Errorf("watch the lanes of queue %s: %w", q, err)
		}
		subs = append(subs, sub)
	}
	stop := func() {
		for _, sub := range subs {
			unheard(sub)
		}
	}
	first, cancel := context.WithTimeout(ctx, firstLook)
	_ = o.findLanes(first) // who may not look serves the plain lanes; who may looks again
	cancel()
	o.watch.Go(func() {
		defer stop()
		tick := time.NewTicker(lanesEvery)
		defer tick.Stop()
		for {
			o.mu.Lock()
			metering := o.metering
			o.mu.Unlock()
			var due <-chan time.Time
			if metering {
				due = time.After(meterNudge)
			}
			select {
			case <-o.closed:
				return
			case <-due:
				o.nudge()
				continue
			case <-o.turn:
				ctx, cancel := context.WithTimeout(looking, readTimeout)
				if _, err := o.hear(ctx); err != nil {
					time.AfterFunc(lookAfter, func() { signal(o.turn) })
				}
				cancel()
				continue
			case <-o.look:
			case <-tick.C:
			}
			ctx, cancel := context.WithTimeout(looking, readTimeout)
			if o.findLanes(ctx) != nil {
				time.AfterFunc(lookAfter, o.lookAgain) // what was said may not come again for a minute
			}
			cancel()
		}
	})
	return nil
}

func (o *offers) lookAgain() { signal(o.look) }

// signal puts a word into a channel that holds one, unless there is one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// findLanes serves the lanes that are not served yet.
func (o *offers) findLanes(ctx context.Context) error {
	o.also.Lock() // a queue that is dropped meanwhile has no lanes any more
	defer o.also.Unlock()
	said, err := o.hear(ctx) // also for who may not look for lanes
	if err != nil {
		return err
	}
	o.dropRemoved()
	queues := slices.AppendSeq(slices.Clone(o.queues), maps.Keys(o.more))
	lanes, err := o.store.lanesOf(ctx, queues...)
	if err == nil {
		err = o.tellLanes(ctx, lanes)
	}
	if err != nil {
		return err
	}
	for _, name := range o.queues {
		q, several := said[name], false
		if q.Limit > 0 {
			lanes, err := o.store.under(ctx, name)
			if err != nil {
				return err
			}
			several = len(lanes) > 1
		}
		o.limit(name, q.Limit, several)
	}
	for _, l := range lanes {
		o.mu.Lock()
		known := slices.ContainsFunc(o.sources, func(s *source) bool { return s.lane == l })
		o.mu.Unlock()
		if known {
			continue
		}
		if _, err := o.serveLane(ctx, l); err != nil && !errors.Is(err, errRemoved) {
			return err
		}
	}
	return nil
}

// tellLanes says anew of the lanes that are served here that they are used, if that is lost: then they are not among those that
// are said to be. A removed one is not either, and of that there is a word.
func (o *offers) tellLanes(ctx context.Context, said []task.Lane) error {
	o.mu.Lock()
	sources := o.sources
	o.mu.Unlock()
	for _, src := range sources {
		if !special(src.lane) || slices.Contains(said, src.lane) {
			continue
		}
		if err := o.store.tellLane(ctx, src.lane); err != nil {
			return err
		}
	}
	return nil
}

// dropRemoved pulls no more from lanes that were removed.
func (o *offers) dropRemoved() {
	o.mu.Lock()
	var removed []*source
	for _, s := range o.sources {
		if s.removed {
			removed = append(removed, s)
		}
	}
	o.mu.Unlock()
	for _, s := range removed {
		o.drop(s)
	}
}
