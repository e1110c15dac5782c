package claim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/limit"
)

// places counts the tasks on this node whose job bounds how many may run on one node. An offer
// takes its places before its claim is written, and keeps them until its attempt has ended here. So
// of any two claims one sees the other, and the count is true of the node's processes, whatever the
// log believes.
type places struct {
	mu sync.Mutex
	of map[string]*placesOf // guarded by mu; by counter
	// changed closes when a claim has ended; nil while no claim waits for that. Guarded by mu.
	changed chan struct{}
}

// placesOf are the places under one counter.
type placesOf struct {
	holders map[holder]struct{}
	last    time.Time // when the last postponed task comes again
}

// holder is an attempt of a task or, with epoch 0, a claim. When a task was taken from this node
// and comes back, its earlier attempt may still be running.
type holder struct {
	id    task.ID
	epoch uint64
}

// perNode takes places for the task on this node; if there are none, it passes the task on.
func (p *Protocol) perNode(ctx context.Context, q *question) (a answer, err error) {
	t := q.task
	if t.State.Terminal() || q.taken != nil {
		return a, nil
	}
	counters, err := t.OnNode()
	if err != nil {
		return a, fmt.Errorf("places of task %s: %w", t.ID, err)
	}
	at := p.Recorder.Moment()
	crowd, err := p.places.take(ctx, t.ID, counters, q)
	switch {
	case crowd == nil || err != nil:
	case t.Live(): // its lease expired; another node may take it over
		a.rest = restFor(q.deliveries)
	case !q.waits(): // the claim will say so
	case duties.PassesBack(t, q.deliveries):
		a.back = true
	default:
		crowd.Node = string(p.Node)
		a, err = q.asked(crowd.By(at), duties.Read{Max: crowd.Counter.Max})
		p.places.postponed(crowd.Counter.Name, a.command.(task.Judged).Command.(task.Postpone).Due)
	}
	return a, err
}

// take takes a place under each counter; or none, and names the counter that is full. It waits for
// claims that hold a place but may yet fail.
func (l *places) take(ctx context.Context, id task.ID, counters []limit.Counter, q *question) (*duties.Crowd, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		crowd, claiming := l.full(id, counters)
		switch {
		case claiming:
		case crowd == nil:
			for _, c := range counters {
				l.under(c.Name).holders[holder{id: id}] = struct{}{}
			}
			q.taken = counters
			return nil, nil
		default:
			crowd.Last = l.under(crowd.Counter.Name).last
			return crowd, nil
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		if l.mu.Lock(); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// full returns the first counter that has no place for a task, nil if all have; claiming tells
// whether that depends on a claim in progress. The caller holds l.mu.
func (l *places) full(id task.ID, counters []limit.Counter) (crowd *duties.Crowd, claiming bool) {
	for _, c := range counters {
		o := l.of[c.Name]
		if o == nil {
			continue
		}
		var epochs []uint64
		for h := range o.holders {
			if h == (holder{id: id}) { // the same task, by another offer
				return nil, true
			}
			epochs = append(epochs, h.epoch)
		}
		if c.Crowded(epochs) {
			slices.Sort(epochs)
			return &duties.Crowd{Counter: c, Epochs: epochs}, epochs[0] == 0
		}
	}
	return nil, false
}

func (l *places) under(counter string) *placesOf {
	if l.of == nil {
		l.of = map[string]*placesOf{}
	}
	if l.of[counter] == nil {
		l.of[counter] = &placesOf{holders: map[holder]struct{}{}}
	}
	return l.of[counter]
}

func (l *places) postponed(counter string, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under(counter).last = due
}

// occupy notes that an attempt of a task runs here.
func (l *places) occupy(t *task.Task) {
	counters, _ := t.OnNode() // a counter that cannot be named was not claimed here
	l.each(counters, func(o *placesOf) {
		delete(o.holders, holder{id: t.ID})
		o.holders[holder{t.ID, t.Epoch}] = struct{}{}
	})
}

// vacate gives back the places of a task's attempt or, with epoch 0, of its claim.
func (l *places) vacate(id task.ID, counters []limit.Counter, epoch uint64) {
	l.each(counters, func(o *placesOf) { delete(o.holders, holder{id, epoch}) })
}

func (l *places) each(counters []limit.Counter, do func(*placesOf)) {
	if len(counters) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range counters {
		// No task is postponed under it then.
		if do(l.under(c.Name)); len(l.of[c.Name].holders) == 0 {
			delete(l.of, c.Name)
		}
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Occupy counts an attempt of t that an earlier process claimed and that runs on this node.
func (p *Protocol) Occupy(t *task.Task) { p.places.occupy(t) }

// Vacate declares that nothing of the attempt of t runs on this node any more, whether or not its
// end is known.
func (p *Protocol) Vacate(t *task.Task) {
	counters, _ := t.OnNode()
	p.places.vacate(t.ID, counters, t.Epoch)
}
