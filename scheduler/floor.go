package scheduler

import (
	"sync"
	"time"
)

// floorWindow is how long a message is used: two clocks drift apart by less than a millisecond
// within two windows.
const floorWindow = 5 * time.Second

// floor gives a lower bound of the log's present time, for actions that must not happen early.
// request.Clock is not enough for that: it accepts a machine that is up to request.Tolerance ahead.
//
// When a message is read, the log's clock shows at least the time at which the message was stored.
// The fastest of the recent messages gives the best bound: the floor is below the log's time by the
// time that this message took. Safe for concurrent use.
type floor struct {
	mu    sync.Mutex
	start time.Time // guarded by mu, like all below; a reading of the monotonic clock
	// best is the least that the log's clock showed at start, by the messages of this window;
	// before is the same by those of the window before. Zero if there were none.
	best, before time.Time
	since        time.Time // when this window began
}

// Hear reports a message that the log stored at one time and that was read at another, a reading of
// [time.Now].
func (f *floor) Hear(stored, read time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.start.IsZero() {
		f.start, f.since = read, read
	}
	if age := read.Sub(f.since); age >= floorWindow {
		if f.before = f.best; age >= 2*floorWindow {
			f.before = time.Time{}
		}
		f.best, f.since = time.Time{}, read
	}
	if at := stored.Add(f.start.Sub(read)); at.After(f.best) {
		f.best = at
	}
}

// Answer reports the log's time at some moment between asked and answered, readings of [time.Now]. Only
// an answer can tell that the log's clock was set back: a message may have been stored long ago.
func (f *floor) Answer(log, asked, answered time.Time) {
	if log.Before(f.At(asked)) {
		f.mu.Lock()
		f.best, f.before = time.Time{}, time.Time{}
		f.mu.Unlock()
	}
	f.Hear(log, answered)
}

// At is the least that the log's clock showed at now, a reading of [time.Now]; the zero time if no
// message was heard.
func (f *floor) At(now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	best := f.best
	if f.before.After(best) {
		best = f.before
	}
	if best.IsZero() {
		return best
	}
	return best.Add(now.Sub(f.start))
}
