package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
)

// observer follows the log while it is written.
type observer struct {
	store *jet.Store

	mu    sync.Mutex
	seen  map[uint64]string     // guarded by mu; facts by sequence
	tasks map[task.ID]task.Task // guarded by mu
	nodes map[node.ID]node.Node // guarded by mu
	ticks []events.Record       // guarded by mu; decisions on planned runs
	last  uint64                // guarded by mu
}

func newObserver(store *jet.Store) *observer {
	return &observer{store: store, seen: map[uint64]string{}, tasks: map[task.ID]task.Task{}, nodes: map[node.ID]node.Node{}}
}

// run follows the log until ctx ends.
func (o *observer) run(ctx context.Context) {
	for ctx.Err() == nil {
		o.follow(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // the server is away
		}
	}
}

func (o *observer) follow(ctx context.Context) {
	o.mu.Lock()
	from := o.last + 1
	o.mu.Unlock()
	feed, err := o.store.Follow(ctx, from)
	if err != nil {
		return
	}
	defer feed.Close()
	for {
		records, err := feed.Next(ctx)
		if err != nil {
			return
		}
		o.mu.Lock()
		for i := range records {
			o.add(&records[i])
		}
		o.mu.Unlock()
	}
}

// add is called with mu held.
func (o *observer) add(r *events.Record) {
	o.last = r.Seq
	if r.IsFact() { // probes are removed when they are old
		o.seen[r.Seq] = r.Fact.ID
	}
	if r.Kind == events.KindTick {
		o.ticks = append(o.ticks, *r)
	}
	if id := r.Fact.Task; id != "" {
		t := o.tasks[id]
		t.ID = id
		o.tasks[id] = task.Evolve(t, r.Task())
	}
	if id := r.Fact.Node; id != "" && r.Kind == events.KindNode {
		n := o.nodes[id]
		n.ID = id
		o.nodes[id] = node.Evolve(n, r.Node())
	}
}

// online counts the online workers.
func (o *observer) online() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, v := range o.nodes {
		if v.Serves(placement.DefaultQueue) {
			n++
		}
	}
	return n
}

// counts returns how many tasks have ended, and how many run.
func (o *observer) counts() (ended, running int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.tasks {
		switch {
		case t.State.Terminal():
			ended++
		case t.Live():
			running++
		}
	}
	return ended, running
}

// done tells whether these tasks exist and have ended.
func (o *observer) done(ids []task.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if t, ok := o.tasks[id]; !ok || !t.State.Terminal() {
			return false
		}
	}
	for _, t := range o.tasks { // also those that were never acknowledged
		if !t.State.Terminal() {
			return false
		}
	}
	return true
}

// facts returns the facts in the log so far, by sequence.
func (o *observer) facts() map[uint64]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.seen)
}

// decisions returns those on the ticks of schedules, so far.
func (o *observer) decisions() []events.Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ticks[:len(o.ticks):len(o.ticks)]
}

// vanished lists facts that were in the log before it was read, and are missing or different now.
func vanished(before map[uint64]string, records []events.Record) []string {
	there := make(map[uint64]string, len(records))
	last := uint64(0)
	for i := range records {
		there[records[i].Seq], last = records[i].Fact.ID, records[i].Seq
	}
	var gone []string
	for seq, id := range before {
		if now, ok := there[seq]; seq <= last && (!ok || now != id) || seq > last {
			gone = append(gone, fmt.Sprintf("the fact %s at %d was in the log and is not any more", id, seq))
		}
	}
	return gone
}

// readLog reads the whole log once more.
func readLog(ctx context.Context, store *jet.Store) ([]events.Record, error) {
	last, err := store.Last(ctx)
	if err != nil || last == 0 {
		return nil, err
	}
	feed, err := store.Follow(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer feed.Close()
	var all []events.Record
	for at := uint64(0); at < last; {
		records, err := next(ctx, feed)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			break // the last message was a timer, and is gone
		}
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
		at = records[len(records)-1].Seq
	}
	return all, nil
}

// readPatience is how long the next record may take.
const readPatience = 10 * time.Second

func next(ctx context.Context, feed events.Feed) ([]events.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	return feed.Next(ctx)
}
