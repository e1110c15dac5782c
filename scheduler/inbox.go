package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// inbox is the work of one loop: keys of tasks or offers, each there once, however often facts bring
// it. It holds no truth: a sweep finds what is missed. Safe for concurrent use.
type inbox[K ~string] struct {
	left *Deferred     // keys that other schedulers handle first
	wake chan struct{} // holds one: there are keys

	mu   sync.Mutex
	keys map[K]bool // guarded by mu
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
	return keys
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
		if again = append(again, more...); after > 0 && retry == nil {
			retry = time.After(after)
		}
	}
}
