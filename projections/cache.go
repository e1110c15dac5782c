package projections

import (
	"time"

	"millrace/task"
)

// cache holds the tasks that are most likely to change next: those that have not ended and are not
// due much later. When it is full it drops the least recently changed. It is for one goroutine.
type cache struct {
	size    int
	entries map[task.ID]*cached
	// ring is the entry between the newest (next) and the oldest (prev).
	ring cached
}

type cached struct {
	task       task.Task
	number     uint32 // of the task in the index of the past
	prev, next *cached
}

func newCache(size int) *cache {
	c := &cache{size: size, entries: map[task.ID]*cached{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

func (c *cache) get(id task.ID) (*cached, bool) {
	e, ok := c.entries[id]
	return e, ok
}

// muchLater is the longest wait for a due time for which a task is kept.
const muchLater = time.Hour

// likely tells whether a task may change soon.
func likely(t *task.Task) bool {
	return !t.State.Terminal() && (t.State != task.Scheduled || t.Due.Sub(t.Since) < muchLater)
}

// put keeps a task in its present state, or drops it if it is unlikely to change.
func (c *cache) put(t *task.Task, number uint32) {
	e, ok := c.entries[t.ID]
	if ok {
		e.unlink()
	}
	if !likely(t) {
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
	e.task, e.number = *t, number
	e.prev, e.next = &c.ring, c.ring.next
	e.prev.next, e.next.prev = e, e
}

// renumber notes that a task has another number in the index of the past.
func (c *cache) renumber(id task.ID, number uint32) {
	if e, ok := c.entries[id]; ok {
		e.number = number
	}
}

func (e *cached) unlink() { e.prev.next, e.next.prev = e.next, e.prev }
