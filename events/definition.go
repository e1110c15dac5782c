package events

import (
	"context"
	"sync"
	"time"

	"millrace/task"
)

// FoldDefinition adds up the records of one definition's chain, in the order of the log. Unreadable
// records change nothing.
func FoldDefinition(records []Record) task.Definition {
	var d task.Definition
	for i := range records {
		r := &records[i]
		if e, ok := r.Fact.Event.(task.DefinitionEvent); ok && r.Err == nil {
			d = task.EvolveDefinition(d, r.Seq, r.Fact.At, r.Fact.Actor, e)
		}
	}
	return d
}

// Definitions remembers definitions for a moment. It is safe for concurrent use.
type Definitions struct {
	known Lately[task.Def, task.Definition]
}

// Get returns the definition of a name, at most 250 ms old. It does not remember missing ones.
func (d *Definitions) Get(ctx context.Context, r *Recorder, def task.Def) (task.Definition, error) {
	now := r.Now()
	if is, ok := d.known.Get(def, now); ok {
		return is, nil
	}
	is, err := r.Log.Definition(ctx, def)
	switch {
	case err != nil:
	case is.Exists():
		d.known.Put(def, is, now)
	default:
		d.known.Drop(def)
	}
	return is, err
}

// lately is how long what was read counts without another read, so that a job whose tasks are made
// or start all the time costs few reads.
const lately = 250 * time.Millisecond

// Lately remembers for 250 ms what was read under a key. It is safe for concurrent use.
type Lately[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]readAt[V] // guarded by mu
}

type readAt[V any] struct {
	is V
	at time.Time
}

// Get returns what was read under a key; false if that was not lately.
func (l *Lately[K, V]) Get(key K, now time.Time) (is V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.known[key]
	return r.is, ok && now.Sub(r.at) < lately
}

// Put remembers what was read at a time.
func (l *Lately[K, V]) Put(key K, is V, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[K]readAt[V]{}
	}
	l.known[key] = readAt[V]{is, at}
}

// Drop forgets a key.
func (l *Lately[K, V]) Drop(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, key)
}
