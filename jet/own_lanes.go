package jet

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// ownLanes finds the special lanes of a node's own route, and has them served. Only the node makes
// their consumers, which lie in memory as that of the plain lane does, so something has to tell it of the
// first offer in each: a feed of what lies there, without bodies. Neither a writer's word nor a look
// now and then could take its place: a timer that fires sends no word, and a list of what lies there has an entry for each
// task that ever did.
type ownLanes struct {
	o    *offers
	node node.ID
	feed *feed
	look chan struct{} // holds one: there is a lane that is not served

	mu    sync.Mutex
	told  uint64                 // guarded by mu; the feed has told of offers up to it
	lanes map[task.Lane]*ownLane // guarded by mu; in which something may be that is not done with
}

// ownLane is a special lane of a node's own route. It is guarded by ownLanes.mu.
type ownLane struct {
	route  *ownRoute
	src    *source // nil as long as it is not served
	offers int     // how many the feed has told of
	heard  time.Time
}

// Times of special lanes of a node's own route.
const (
	laneIdle  = 10 * time.Minute // after that nothing more is pulled from a lane in which nothing lies
	laneAgain = time.Second      // how soon a lane that could not be served is tried again
)

func newOwnLanes(o *offers, id node.ID) *ownLanes {
	f := &feed{
		store: o.store, next: 1, broken: true, arrived: make(chan struct{}, 1),
		only: ownLanesPrefix(id.Queue()) + "*.*", name: ownLanesConsumer(id),
	}
	return &ownLanes{o: o, node: id, feed: f, look: make(chan struct{}, 1), lanes: map[task.Lane]*ownLane{}}
}

// watch serves the lanes in which something lies, and from then on each that is told of.
func (l *ownLanes) watch(ctx, looking context.Context) {
	first, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	begun := l.begin(first) == nil
	if begun && l.feed.reopen(first) == nil { // who may not look serves the plain lane, and tries again
		for l.feed.pending > 0 && l.hear(first) == nil {
		}
	}
	l.serve(first)
	l.o.watch.Go(func() {
		for looking.Err() == nil {
			if begun {
				_ = l.hear(looking) // it fails when that ends
			} else if begun = l.begin(looking) == nil; !begun {
				select {
				case <-looking.Done():
				case <-time.After(laneAgain):
				}
			}
		}
	})
	l.o.watch.Go(func() { l.tend(looking) })
}

// begin finds out where the feed begins: where the node's last process had got to.
func (l *ownLanes) begin(ctx context.Context) error {
	records, err := l.o.store.Node(ctx, l.node)
	if err != nil {
		return err
	}
	l.feed.next = max(events.FoldNode(l.node, records).LanesLow, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = l.feed.next - 1
	return nil
}

// hear waits for the feed to tell of offers.
func (l *ownLanes) hear(ctx context.Context) error {
	records, err := l.feed.Next(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range records {
		l.told = records[i].Seq
		lane, ok := ownLaneAt(l.node.Queue(), records[i].Place)
		if !ok {
			continue // nobody of ours has put it there
		}
		known := l.lanes[lane]
		if known == nil {
			known = &ownLane{route: newOwnRoute(l.o.store, l.node, lane, records[i].Seq)}
			l.lanes[lane] = known
			signal(l.look)
		}
		known.offers++
		known.heard = now
	}
	return nil
}

// tend serves lanes as they are told of, and looks after them.
func (l *ownLanes) tend(ctx context.Context) {
	tick := time.NewTimer(lanesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.look:
		case <-l.o.back: // of which is told already
			l.keep(ctx)
		case <-tick.C:
			if lost := l.keep(ctx); lost != "" {
				l.o.interrupted("the consumer " + lost + " was lost and has been made again")
			}
			l.letGo(ctx, time.Now())
		}
		next := lanesEvery
		if !l.serve(ctx) {
			next = laneAgain
		}
		tick.Reset(next)
	}
}

// sorted returns the lanes that are served, or those that are not, the most urgent first.
func (l *ownLanes) sorted(served bool) []*ownLane {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []*ownLane
	for _, lane := range l.lanes {
		if (lane.src != nil) == served {
			found = append(found, lane)
		}
	}
	slices.SortFunc(found, func(a, b *ownLane) int {
		return cmp.Or(b.route.lane.Priority-a.route.lane.Priority, a.route.lane.Number-b.route.lane.Number)
	})
	return found
}

// serve serves the lanes that are not served yet, and tells whether all are.
func (l *ownLanes) serve(ctx context.Context) bool {
	all := true
	for _, lane := range l.sorted(false) {
		once, cancel := context.WithTimeout(ctx, readTimeout)
		src, err := l.o.serveOwn(once, lane.route)
		cancel()
		if err != nil {
			all = false
			continue
		}
		l.mu.Lock()
		lane.src = src
		l.mu.Unlock()
	}
	return all
}

// keep makes the consumers that were lost again, and returns the name of one of those. While all places of
// the node are taken nobody asks them for anything, and the leases of what runs would run out unnoticed.
func (l *ownLanes) keep(ctx context.Context) (lost string) {
	ctx, cancel := context.WithTimeout(ctx, 5*findTime)
	defer cancel()
	var all sync.WaitGroup // at once, for each may be on a server that does not answer
	var mu sync.Mutex
	for _, lane := range l.sorted(true) {
		all.Go(func() {
			made, err := lane.route.ensure(ctx)
			if !made || err != nil { // if it fails, it is tried again
				return
			}
			lane.src.pull.renew()
			mu.Lock()
			defer mu.Unlock()
			lost = laneConsumer(lane.route.lane)
		})
	}
	all.Wait()
	return lost
}

// letGo pulls no more from lanes in which nothing lies and of which nothing was told for long.
// Their consumers stay with the server for a while. When the last one goes the plain lane is pulled as if there had been none.
func (l *ownLanes) letGo(ctx context.Context, now time.Time) {
	for _, lane := range l.sorted(true) {
		l.mu.Lock()
		offers, idle := lane.offers, now.Sub(lane.heard) > laneIdle
		l.mu.Unlock()
		if !idle || !lane.route.empty(ctx) {
			continue
		}
		l.mu.Lock()
		if idle = lane.offers == offers; idle {
			delete(l.lanes, lane.route.lane)
		}
		l.mu.Unlock()
		if idle {
			l.o.drop(lane.src)
		}
	}
}

// low is a sequence below which all offers in special lanes are done with; 0 if that is not known.
func (l *ownLanes) low() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	low := l.told + 1
	for _, lane := range l.lanes {
		low = min(low, cmp.Or(lane.route.low(), lane.route.from))
	}
	if low == 1 {
		return 0
	}
	return low
}
