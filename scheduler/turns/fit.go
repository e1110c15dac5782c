package turns

import (
	"sync"
	"time"
)

// The others leave to a scheduler what it goes first with as long as it says that it is here. So it says that only while
// it is fit to do it: its loops come round, and its read model is level with the log. One that lives and is not fit goes last.

// StuckAfter is how long a round may be under way, or the read model behind the log, before a scheduler counts as unfit.
const StuckAfter = 10 * time.Second

// Fitness is what is known of a scheduler's own health. The zero value is fit once level was called. Safe for concurrent use.
type Fitness struct {
	mu     sync.Mutex
	loops  map[string]rounds // guarded by mu
	levels time.Time         // guarded by mu; when the read model was last found level with the log
}

// rounds are those of a loop.
type rounds struct {
	began  time.Time // of the one under way; zero if there is none
	failed bool      // the last one that has ended
}

func (f *Fitness) Begins(loop string) { f.set(loop, func(r *rounds) { r.began = time.Now() }) }

func (f *Fitness) Ends(loop string, err error) {
	f.set(loop, func(r *rounds) { r.began, r.failed = time.Time{}, err != nil })
}

func (f *Fitness) set(loop string, to func(*rounds)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loops == nil {
		f.loops = map[string]rounds{}
	}
	r := f.loops[loop]
	to(&r)
	f.loops[loop] = r
}

// Level notes that the read model has all that the log held a moment ago.
func (f *Fitness) Level() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.levels = time.Now()
}

// Fit tells whether others may count on the scheduler.
func (f *Fitness) Fit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.levels) > StuckAfter {
		return false
	}
	for _, r := range f.loops {
		if r.failed || !r.began.IsZero() && now.Sub(r.began) > StuckAfter {
			return false
		}
	}
	return true
}
