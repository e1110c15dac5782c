package jet

import (
	"sync"
	"time"

	"millrace/task/node"
	"millrace/task/value"
)

// deadlines are when the last heartbeats of nodes expire.
type deadlines struct {
	// sooner holds an element when one ends before next.
	sooner chan struct{}

	mu   sync.Mutex
	of   map[node.ID]stored // guarded by mu
	next time.Time          // guarded by mu; no heartbeat ends before; zero for never
}

// late is how long after its end a heartbeat counts as expired: then it has expired by the log's
// clock, too, from which this machine's may be 50 ms away.
const late = 100 * time.Millisecond

// seldom is the pause between two looks while no heartbeat can end.
const seldom = time.Minute

// set takes a node's heartbeat in place of the one before.
func (d *deadlines) set(id node.ID, is stored) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if is.ends.IsZero() {
		delete(d.of, id)
		return
	}
	d.of[id] = is
	if d.next.IsZero() || is.ends.Before(d.next) {
		d.next = is.ends
		select {
		case d.sooner <- struct{}{}:
		default:
		}
	}
}

// drop takes a heartbeat away, and tells whether there was one.
func (d *deadlines) drop(id node.ID) (known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known = d.of[id]
	delete(d.of, id)
	return known
}

// pass takes the heartbeats away that have expired now, and returns them and how long it takes until
// the next one can.
func (d *deadlines) pass(now time.Time, leap value.Leap) (ended map[node.ID]stored, wait time.Duration) {
	ended = map[node.ID]stored{}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = time.Time{}
	for id, is := range d.of {
		ends := is.ends.Add(now.Sub(leap.Since(is.at, now)))
		switch {
		case !now.Before(ends.Add(late)):
			ended[id] = is
			delete(d.of, id)
		case d.next.IsZero() || ends.Before(d.next):
			d.next = ends
		}
	}
	wait = seldom
	if !d.next.IsZero() {
		wait = min(wait, d.next.Add(late).Sub(now))
	}
	return ended, wait
}
