package logclock

import (
	"sync"
	"time"
)

// floorWindow is for how long what was heard is worth something: clocks do not drift apart
// by a millisecond within two of them.
const floorWindow = 5 * time.Second

// Floor tells what time the log has at least, for what must not happen before its time.
// [Clock] would not do: it believes a machine that is up to [Tolerance] ahead.
//
// Whoever reads a message knows that the log's clock shows no less than when the message was
// stored. The message that was quickest of late tells most, so the floor is below the
// log's time by how long that one was on its way. Safe for concurrent use.
type Floor struct {
	mu    sync.Mutex
	start time.Time // guarded by mu, like all below; a reading of the monotonic clock
	// What the log's clock showed at start, at least: by what was heard in this window, and in the
	// one before. Zero if nothing was.
	best, before time.Time
	since        time.Time // when this window began
}

// Hear tells the floor that something which the log stored at a time was read at another, which
// is a reading of [time.Now].
func (f *Floor) Hear(stored, read time.Time) {
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

// At is what the log's clock showed at least at now, which is a reading of [time.Now]; the zero
// time if nothing was heard.
func (f *Floor) At(now time.Time) time.Time {
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
