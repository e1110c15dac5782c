package jet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/task/placement"
	"millrace/task/queue"
)

// source is a consumer from which offers come. The routes of queues, selectors and nodes are of one
// kind. They differ in how the consumer is made and made again, which the maker knows, in whose
// limit, rate and window hold for it, and in how far it is read ahead.
type source struct {
	maker
	lane     placement.Lane
	consumer string      // its name
	pace     pubsub.Pace // of its requests
	// The queue whose limit, rate and window hold for it: its own, or its selector's; "" for none.
	home string
	// ahead is how many offers are read ahead if this node is the only reader; 0 if there are
	// others, for then it asks only for what slots wait for.
	ahead int
	pull  *pubsub.Puller // waits for offers
	ask   *pubsub.Asker  // asks for offers that exist

	// offers.mu guards all that follows.

	stock
	pulled   int // offers that the puller was asked for, and has not brought
	asked    int // the same for the asker
	here     int // how many wait for this source alone
	checking int // those of them not asked for until the queue's count is known
	// empty tells whether it had no offers when last known. It holds until again, when the source
	// is asked anyway.
	empty   bool
	again   time.Time
	metered bool        // whether its queue has a limit and several lanes
	rate    queue.Rate  // of its queue
	valve   queue.Valve // of its queue
	shut    bool        // whether that is shut
	removed bool        // its consumer was removed, since the lane was unused
}

// maker makes the consumer of a source, and recognises offers that come from it again.
type maker interface {
	// ensure makes the consumer if there is none, or if there is another one under its name. It
	// returns what it did in words, "" for nothing. If the consumer was removed on purpose the error
	// wraps errRemoved.
	ensure(ctx context.Context) (made string, err error)
	// track says what to do with an offer that has arrived.
	track(o *events.Offer) arrival
}

// arrival is what to do with an offer that has arrived.
type arrival int

const (
	fresh     arrival = iota // hand it out
	reclaimed                // the node runs it, and has recovered its lease
	renewed                  // the node has it in stock, and its lease had expired
	stale                    // the node has finished it
)

// shared makes a durable consumer from which many nodes read. All that it delivers is handed out.
type shared func(context.Context) (made string, err error)

func (ensure shared) ensure(ctx context.Context) (string, error) { return ensure(ctx) }

func (shared) track(*events.Offer) arrival { return fresh }

// brought records that the puller, or with asked the asker, has brought an offer, and tells whether
// it had been asked for one.
func (s *source) brought(asked bool) bool {
	told := &s.pulled
	if asked {
		told = &s.asked
	}
	if *told == 0 {
		return false
	}
	*told--
	return true
}

// serve begins to pull from a lane.
func (o *offers) serve(ctx context.Context, l placement.Lane) error {
	if o.own != nil && l == o.own.lane {
		return o.begin(ctx, o.own.source())
	}
	home := l.Queue
	if placement.IsSelectorQueue(home) {
		d, known, err := o.store.selectorOf(ctx, home)
		switch {
		case err != nil:
			return fmt.Errorf("serve %s: %w", l.Queue, err)
		case !known:
			return fmt.Errorf("serve %s: it was not declared yet", l.Queue)
		}
		home = d.Queue
	}
	ensure := func(ctx context.Context) (string, error) { return o.store.ensureLane(ctx, l, false) }
	return o.begin(ctx, &source{maker: shared(ensure), lane: l, consumer: names.LaneConsumer(l), pace: pubsub.WorkerPace, home: home})
}

// begin begins to pull from a source.
func (o *offers) begin(ctx context.Context, src *source) error {
	if _, err := src.ensure(ctx); err != nil {
		return err
	}
	if err := o.store.mayPull(ctx, src.consumer); err != nil {
		return err
	}
	// Set up before any offer can come: the first may be here before pubsub.NewPuller has returned.
	pulled := make(chan struct{})
	take := func(m *nats.Msg) bool { <-pulled; return o.take(src, false, m) }
	p, err := pubsub.NewPuller(o.store.NC, names.LogStream, src.consumer, src.pace, pubsub.AtOnce, take, func(ctx context.Context) { o.revive(ctx, src) })
	if err != nil {
		return err
	}
	src.pull = p
	src.ask = pubsub.NewAsker(p, func(m *nats.Msg) bool { return o.take(src, true, m) }, func(silent bool) { o.bare(src, silent) })
	o.mu.Lock()
	first := len(o.sources) == 0
	v := o.flows[src.home]
	src.rate, src.valve, src.shut = o.rates[src.home], v.valve, v.shut
	o.sources = append(slices.Clip(o.sources), src)
	changes := o.remeter()
	o.mu.Unlock()
	close(pulled)
	apply(changes)
	if first { // all sources share the connection
		p.OnReturn(func() {
			o.interrupted("the connection came back", false)
			o.lookAgain()
			o.askAgain()
		})
	}
	return nil
}

// mayPull returns an error if this user may not take offers from a consumer. Nobody answers a pull that
// is refused, so it would wait there for ever.
func (s *Store) mayPull(ctx context.Context, consumer string) error {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	const unreadable = "{" // the server answers, and gives no offer out
	_, err := s.Request(ctx, names.APINext+names.LogStream+"."+consumer, []byte(unreadable))
	if errors.Is(err, events.ErrDenied) {
		return err
	}
	return nil // a consumer that does not answer is made again
}

// revive makes the consumer of a source again if it is lost, and tells whether it has. If that fails, the
// puller tries again.
func (o *offers) revive(ctx context.Context, src *source) (made bool) {
	ctx, cancel := o.store.Within(ctx, request.ReadTimeout)
	defer cancel()
	how, err := src.ensure(ctx)
	switch {
	case how != "" && err == nil:
		o.interrupted("the consumer "+src.consumer+" "+how, how != madeAgain)
	case errors.Is(err, errRemoved):
		o.mu.Lock()
		src.removed = true
		o.mu.Unlock()
		o.lookAgain()
	}
	return how != ""
}

// Also implements [events.Offers].
func (o *offers) Also(ctx context.Context, queues []string) error {
	o.also.Lock() // one change at a time
	defer o.also.Unlock()
	var errs []error
	var denied error
	kept := map[string]*nats.Subscription{}
	for _, queue := range queues {
		heard := o.more[queue]
		if heard == nil {
			var err error
			if heard, err = o.store.NC.Subscribe(names.LanesPrefix+queue, func(*nats.Msg) { o.lookAgain() }); err == nil {
				err = o.serve(ctx, placement.Lane{Queue: queue, Priority: placement.DefaultPriority})
			}
			switch {
			case errors.Is(err, events.ErrDenied):
				denied = errors.Join(denied, err)
			case err != nil:
				errs = append(errs, err)
			}
			if err != nil {
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
	o.lookAgain() // their lanes may differ, and a removed one may be used again
	if len(errs) == 0 {
		return denied
	}
	return errors.Join(errs...)
}

func unheard(sub *nats.Subscription) {
	if sub != nil {
		_ = sub.Unsubscribe() // fails only if the connection is gone
	}
}

// dropQueue stops pulling from every lane of a queue.
func (o *offers) dropQueue(queue string) {
	for _, src := range o.all() {
		if src.lane.Queue == queue {
			o.drop(src)
		}
	}
}

// drop stops pulling from a source. Offers that it brought are handed out or returned.
func (o *offers) drop(src *source) {
	o.mu.Lock()
	o.sources = slices.DeleteFunc(slices.Clone(o.sources), func(s *source) bool { return s == src })
	changes := append(o.remeter(), change{src, -src.pulled, -src.asked})
	src.pulled, src.asked = 0, 0
	o.mu.Unlock()
	apply(changes)
	o.bare(src, false) // its waiters ask elsewhere
	src.ask.Close()
	src.pull.Drain()
}

// lanesEvery is how often a worker checks whether one of its queues has a lane of which it was not
// told.
const lanesEvery = time.Minute

// lookAfter is the pause after a failed check.
const lookAfter = time.Second

// firstLook is how long the first check may take before a worker begins without it.
const firstLook = time.Second

// watchLanes serves the lanes of the queues, and each new one when it appears.
func (o *offers) watchLanes(ctx, looking context.Context) error {
	if len(o.queues) == 0 {
		return nil
	}
	var subs []*nats.Subscription
	for _, q := range o.queues {
		sub, err := o.store.NC.Subscribe(names.LanesPrefix+q, func(*nats.Msg) { o.lookAgain() })
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
	_ = o.findLanes(first) // without the right to look, serve the plain lanes; else look again
	cancel()
	o.watch.Go(func() {
		defer stop()
		ticker := time.NewTicker(lanesEvery)
		defer ticker.Stop()
		check, checked := time.NewTicker(checkEvery), 0
		defer check.Stop()
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
			case <-o.reread:
				ctx, cancel := o.store.Within(looking, request.ReadTimeout)
				if _, err := o.readSettings(ctx); err != nil {
					time.AfterFunc(lookAfter, func() { signal(o.reread) })
				}
				cancel()
				continue
			case <-check.C:
				checked = o.compare(looking, checked)
				continue
			case <-o.look:
			case <-ticker.C:
			}
			ctx, cancel := o.store.Within(looking, request.ReadTimeout)
			if o.findLanes(ctx) != nil {
				// A lost message may not come again for a minute.
				time.AfterFunc(lookAfter, o.lookAgain)
			}
			cancel()
		}
	})
	return nil
}

func (o *offers) lookAgain() { signal(o.look) }

// signal puts an element into a channel that holds one, unless it is full.
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
	said, err := o.readSettings(ctx) // also without the right to look for lanes
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
		if err := o.serve(ctx, l); err != nil && !errors.Is(err, errRemoved) {
			return err
		}
	}
	return nil
}

// tellLanes stores the words of the lanes that are served here again, if they are lost: then these
// lanes are not among said. A removed lane is not among them either, but it still has a word.
func (o *offers) tellLanes(ctx context.Context, said []placement.Lane) error {
	for _, src := range o.all() {
		if !names.Special(src.lane) || slices.Contains(said, src.lane) {
			continue
		}
		if err := o.store.tellLane(ctx, src.lane); err != nil {
			return err
		}
	}
	return nil
}

// dropRemoved stops pulling from lanes that were removed.
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
