package projections

import "millrace/task"

// cache holds the tasks that are most likely to change next: those that have not
// ended, the least recently changed of which is dropped when it is full. It is
// for one goroutine.
type cache struct {
	size    int
	entries map[task.ID]*cached
	// ring is the entry between the newest (next) and the oldest (prev).
	ring cached
}

type cached struct {
	task       task.Task
	prev, next *cached
}

func newCache(size int) *cache {
	c := &cache{size: size, entries: map[task.ID]*cached{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

func (c *cache) get(id task.ID) (*task.Task, bool) {
	e, ok := c.entries[id]
	if !ok {
		return nil, false
	}
	return &e.task, true
}

// put keeps a task as it is now, or forgets it if it has ended.
func (c *cache) put(t *task.Task) {
	e, ok := c.entries[t.ID]
	if ok {
		e.unlink()
	}
	if t.State.Terminal() {
		if ok {
			delete(c.entries, t.ID)
		}
		return
	}
	if !ok {
		if len(c.entries) >= c.size {
			e = c.ring.prev
			e.unlink()
			delete(c.entries, e.task.ID)
		} else {
			e = new(cached)
		}
		c.entries[t.ID] = e
	}
	e.task = *t
	e.prev, e.next = &c.ring, c.ring.next
	e.prev.next, e.next.prev = e, e
}

func (e *cached) unlink() { e.prev.next, e.next.prev = e.next, e.prev }
