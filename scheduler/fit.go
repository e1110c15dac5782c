package scheduler

import (
	"sync"
	"time"
)

// While a scheduler announces itself, the others leave to it the subjects with which it goes first.
// So it announces itself only while it is fit for that: its loops complete their rounds, and its
// read model is level with the log. An unfit one goes last.

// StuckAfter is how long a round may last, or the read model lag behind the log, before a scheduler
// counts as unfit.
const StuckAfter = 10 * time.Second

// Fitness is a scheduler's own health. The zero value is fit once level was called. Safe for
// concurrent use.
type Fitness struct {
	mu     sync.Mutex
	loops  map[string]rounds // guarded by mu
	levels time.Time         // guarded by mu; when the read model was last level with the log
}

// rounds are the rounds of a loop.
type rounds struct {
	began  time.Time // the start of the present round; zero if there is none
	failed bool      // the last complete round failed
}

// Begins notes that a round of a loop begins.
func (f *Fitness) Begins(loop string) { f.set(loop, func(r *rounds) { r.began = time.Now() }) }

// Ends notes that the round has ended, and whether it failed.
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

// Level records that the read model has everything that the log held a moment ago.
func (f *Fitness) Level() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.levels = time.Now()
}

// Fit tells whether others may rely on the scheduler.
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
