package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/placement"
)

// watch is the memory of [Scheduler.React]: the nodes at its last check.
type watch struct {
	nodes map[node.ID]standing
	// withheld is when a pause last kept a parent's part from a new node; zero if none does.
	withheld time.Time
}

// standing is the part of a node that affects its tasks.
type standing struct {
	state   node.State
	session string
	labels  string
}

// afterglow is how long after a change of a node its tasks are checked again and again: the
// recorder's clock may be ahead, and the scheduler that goes first with them may have died before
// its check.
const afterglow = Patience + HereEvery

// React checks once whether nodes came or went since the last check, and handles the tasks
// concerned. Tasks that ran under an ended session are declared lost and offered again. Tasks that
// wait for a node that takes no work move as their rules say. Tasks that were left to preferred
// nodes return when their time is over. It does at once what the sweep would do some seconds later;
// both may run concurrently. It is for one goroutine.
func (s *Scheduler) React(ctx context.Context) error {
	nodes, at, err := s.view.Nodes(ctx)
	if err != nil {
		return err
	}
	now := s.rec.Now()
	w := s.world(nodes, at)
	seen := make(map[node.ID]standing, len(nodes))
	var errs []error
	came := false
	for _, n := range nodes {
		is := standing{n.State, n.Session, fmt.Sprint(n.Labels)}
		was, known := s.watch.nodes[n.ID]
		if known && was == is {
			seen[n.ID] = is
			continue
		}
		serves := n.Serves(placement.NodeQueue(string(n.ID)))
		came = came || serves
		err := s.sweepNode(ctx, n.ID, w, false)
		if !serves {
			err = errors.Join(err, s.sweepRoute(ctx, placement.NodeQueue(string(n.ID)), now, w, false))
		}
		// Return to the node until the consequences of the change are due by any clock.
		if err == nil && now.After(n.Since.Add(afterglow)) && now.After(n.Started.Add(node.Succession+afterglow)) {
			seen[n.ID] = is
		}
		errs = append(errs, err)
	}
	s.watch.nodes = seen
	if ids := s.handed.due(now); len(ids) > 0 {
		errs = append(errs, s.enforceAll(ctx, ids, w, false))
	}
	errs = append(errs, s.enforceLate(ctx, w))
	if came {
		errs = append(errs, s.reactToArrival(ctx, w))
	}
	if came || !s.watch.withheld.IsZero() && now.Sub(s.watch.withheld) >= withheldFor {
		errs = append(errs, s.include(ctx, nodes, at))
	}
	return errors.Join(errs...)
}

// enforceLate examines tasks that other schedulers should have examined, if by the read model a
// duty is due.
func (s *Scheduler) enforceLate(ctx context.Context, w *Roster) error {
	var ids []task.ID
	for _, key := range s.reacting.Late() {
		ids = append(ids, task.ID(key))
	}
	if len(ids) == 0 {
		return nil
	}
	tasks, err := s.view.Known(ctx, ids)
	if err != nil {
		return err
	}
	var errs []error
	for i := range tasks {
		t := &tasks[i]
		if !s.reacting.Mine(string(t.ID)) {
			continue
		}
		if duty := duties.Owes(*t, w.Around(t), s.cfg.Settings); !duty.Look && duty.Overdue(s.rec.Now()) {
			errs = append(errs, s.enforce(ctx, t.ID, w, false))
		}
	}
	return errors.Join(errs...)
}

// reactToArrival examines tasks that wait for other nodes: the new node may be among those they are
// meant for.
func (s *Scheduler) reactToArrival(ctx context.Context, w *Roster) error {
	queues, err := s.view.Queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if _, own := placement.NodeOf(q); !own || w.Serving(q) > 0 {
			continue
		}
		if err := s.sweepRoute(ctx, q, w.Seen, w, false); err != nil {
			return err
		}
	}
	return nil
}

// Hurried is an optional part of a [Model]: the scheduler can make it catch up with the log at
// once.
type Hurried interface {
	// Wait returns once the reported changes reflect the log up to a sequence.
	Wait(ctx context.Context, seq uint64) error
}

// The pause before the read model is hurried again grows with the number of records of the last
// batch, up to mostPatience. Processing a batch takes time as well; a pause that grew with all of
// that would make the next batch larger, and thereby the next pause.
const (
	perNews      = 50 * time.Microsecond
	mostPatience = 20 * time.Millisecond
)

// hurry hurries the read model whenever busy signals, as long as crowded tells that tasks wait for
// its changes. Otherwise the read model takes its time, because large batches are cheaper.
func hurry(ctx context.Context, view Hurried, busy <-chan struct{}, observed func() uint64, crowded func() bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-busy:
		}
		for crowded() {
			before := observed()
			if view.Wait(ctx, before+1) != nil {
				break // it is behind or ends; the next round asks again
			}
			// Larger batches are cheaper for all parts here, too.
			select {
			case <-ctx.Done():
			case <-time.After(min(time.Duration(observed()-before)*perNews, mostPatience)):
			}
		}
	}
}

// inbox is the work of one loop: keys of tasks or offers, each there once, however often facts bring
// it. It holds no truth: a sweep finds what is missed. Safe for concurrent use.
type inbox[K ~string] struct {
	left *Deferred     // keys that other schedulers handle first
	wake chan struct{} // holds one: there are keys

	mu   sync.Mutex
	keys map[K]bool // guarded by mu
	// taken are the keys that the loop handles now. Guarded by mu.
	taken []K
}

func newInbox[K ~string](l *Deferred) *inbox[K] {
	return &inbox[K]{left: l, wake: make(chan struct{}, 1), keys: map[K]bool{}}
}

// touch adds a key if this scheduler goes first with it.
func (b *inbox[K]) touch(key K) {
	if b.left.Mine(string(key)) {
		b.look(key)
	}
}

// look adds keys, and wakes the loop.
func (b *inbox[K]) look(keys ...K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		b.keys[key] = true
	}
	if len(keys) > 0 {
		Poke(b.wake)
	}
}

func (b *inbox[K]) drop(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keys, key)
}

// take removes and returns all keys, in order.
func (b *inbox[K]) take() []K {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := slices.Sorted(maps.Keys(b.keys))
	clear(b.keys)
	b.taken = keys
	return keys
}

// handled records that the loop has handled what it took.
func (b *inbox[K]) handled() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = nil
}

// has tells whether the loop handles a key now, or is about to.
func (b *inbox[K]) has(key K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, taken := slices.BinarySearch(b.taken, key)
	return taken || b.keys[key]
}

// run calls handle whenever there are keys, until ctx ends. Handle takes them, and returns those that
// come again after a while. Of the keys that other schedulers have not handled in time, those come
// that late lets pass.
func (b *inbox[K]) run(ctx context.Context, late func(K) bool, handle func() (again []K, after time.Duration)) {
	var overdue, retry <-chan time.Time
	var again []K
	for {
		overdue = b.left.Again(overdue)
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-b.left.wake:
			continue
		case <-overdue:
			overdue = nil
			for _, key := range b.left.Late() {
				if late(K(key)) {
					b.look(K(key))
				}
			}
			continue
		case <-retry:
			retry = nil
			b.look(again...)
			again = nil
		}
		more, after := handle()
		b.handled()
		if again = append(again, more...); after > 0 && retry == nil {
			retry = time.After(after)
		}
	}
}
