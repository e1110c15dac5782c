package claim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/task"
	"millrace/task/limit"
)

// places are those that tasks have on this node whose job bounds how many run on one. An offer takes its places before
// the claim is written, and keeps them until its attempt has ended here. So of any two claims one sees the other, and
// what the node says is true of its processes, whatever the log believes.
type places struct {
	mu sync.Mutex
	of map[string]*placesOf // guarded by mu; by counter
	// changed is closed when a claim has come to its end; nil while nobody waits for that. Guarded by mu.
	changed chan struct{}
}

// placesOf are those under one counter.
type placesOf struct {
	holders map[holder]struct{}
	last    time.Time // when the last one comes again that was postponed
}

// holder is an attempt of a task, or with epoch 0 a claim. Of a task that was taken from this node and comes back
// an earlier attempt may not be gone yet.
type holder struct {
	id    task.ID
	epoch uint64
}

// perNode passes a task on for which this node has no place, and else takes places for it.
func (p *Protocol) perNode(ctx context.Context, q *question) (a answer, err error) {
	t := q.task
	if t.Spec == nil || len(t.Spec.PerNode) == 0 || t.State.Terminal() || q.taken != nil {
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
	case t.Live(): // whose lease ran out; another node may take it over
		a.rest = restFor(q.deliveries)
	case !q.waits(): // the claim says so
	case t.PassesBack(q.deliveries):
		a.back = true
	default:
		crowd.Node = string(p.Node)
		c := crowd.Postpone(t.Turn, at)
		p.places.postponed(crowd.Counter.Name, c.Due)
		a.command = task.Judged{Command: c, By: crowd.By(at)}
	}
	return a, err
}

// take takes a place under each counter, or none and says which has none. It waits for claims that hold a place and may not
// come to it.
func (l *places) take(ctx context.Context, id task.ID, counters []limit.Counter, q *question) (*task.Crowd, error) {
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

// full is the first counter that has no place for a task, nil if all have; claiming is whether that depends on a claim that
// is under way. The caller holds l.mu.
func (l *places) full(id task.ID, counters []limit.Counter) (crowd *task.Crowd, claiming bool) {
	for _, c := range counters {
		o := l.of[c.Name]
		if o == nil {
			continue
		}
		var epochs []uint64
		for h := range o.holders {
			if h == (holder{id: id}) { // by another offer
				return nil, true
			}
			epochs = append(epochs, h.epoch)
		}
		if c.Crowded(epochs) {
			slices.Sort(epochs)
			return &task.Crowd{Counter: c, Epochs: epochs}, epochs[0] == 0
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
	counters, _ := t.OnNode() // what cannot be named was not claimed here
	l.each(counters, func(o *placesOf) {
		delete(o.holders, holder{id: t.ID})
		o.holders[holder{t.ID, t.Epoch}] = struct{}{}
	})
}

// vacate gives back the places of a task's attempt, or with epoch 0 of its claim.
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
		if do(l.under(c.Name)); len(l.of[c.Name].holders) == 0 { // nobody is postponed under it then
			delete(l.of, c.Name)
		}
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Occupy says that an attempt of t runs on this node that was claimed by an earlier process.
func (p *Protocol) Occupy(t *task.Task) { p.places.occupy(t) }

// Vacate says that nothing runs any more of the attempt of t that was claimed here, whoever knows how it ended.
func (p *Protocol) Vacate(t *task.Task) {
	counters, _ := t.OnNode()
	p.places.vacate(t.ID, counters, t.Epoch)
}
