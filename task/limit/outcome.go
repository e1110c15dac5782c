package limit

import (
	"fmt"
	"slices"
	"time"
)

// Outcomes are the ends of attempts of a job's tasks, as far as its breaker needs them.
type Outcomes struct {
	// failed are the last failures, the oldest first, at most as many as open the breaker.
	failed []time.Time
	last   string // how the last one failed
	// tried and broken count the trials that finished and that failed.
	tried, broken int
}

// Outcome is the end of an attempt.
type Outcome struct {
	At time.Time
	// Epoch is the sequence at which it started. An attempt from before the half open state is no
	// trial, regardless of clocks.
	Epoch uint64
	// Failed says that it failed, and What how. Otherwise it finished.
	Failed bool
	What   string
}

// Add counts an end. Circuit is the breaker's state at that time.
func (o *Outcomes) Add(b *Breaker, c Circuit, e Outcome) {
	if c.State == StateHalfOpen && e.Epoch > c.From {
		if e.Failed {
			o.broken++
		} else {
			o.tried++
		}
	}
	if !e.Failed {
		return
	}
	o.last = e.What
	o.failed = append(o.failed, e.At)
	if over := len(o.failed) - b.Failures; over > 0 {
		o.failed = slices.Delete(o.failed, 0, over)
	}
}

// Moved records a change of the breaker's state, or a new beginning of the same state. Trials are
// counted anew, and after a closing failures are as well.
func (o *Outcomes) Moved(c Circuit) {
	o.tried, o.broken = 0, 0
	if c.Closed() {
		o.failed = nil
	}
}

// Enough tells whether as many trials finished as a closing names, and at least as many as the
// breaker requires.
func (o *Outcomes) Enough(b *Breaker, e Closed) bool {
	for n := b.trials(); n <= o.tried; n++ {
		if e.Reason == closedWords(n, b.trials()) {
			return o.broken == 0
		}
	}
	return false
}

func closedWords(tried, of int) string { return fmt.Sprintf("%d of %d trials finished", tried, of) }
