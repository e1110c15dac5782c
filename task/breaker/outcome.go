package breaker

import (
	"fmt"
	"slices"
	"time"
)

// Outcomes are the ends of attempts of a job's tasks, as far as its breaker asks for them.
type Outcomes struct {
	// failed are the last failures, the oldest first, at most as many as open the breaker.
	failed []time.Time
	last   string // what the last one said
	// tried and broken count the trials that finished and that failed.
	tried, broken int
}

// Outcome is the end of an attempt.
type Outcome struct {
	At time.Time
	// Epoch is the sequence at which it started: an attempt of before the half open
	// state is no trial, whatever the clocks say.
	Epoch uint64
	// Failed says that it failed, and What how; else it finished.
	Failed bool
	What   string
}

// Add counts an end. Circuit is how the breaker stood then.
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

// Moved says that the breaker is in another state, or in one anew: trials begin to
// count anew, and after it has closed failures do.
func (o *Outcomes) Moved(c Circuit) {
	o.tried, o.broken = 0, 0
	if c.Closed() {
		o.failed = nil
	}
}

// Enough tells whether as many trials have finished as a closing names, and as the breaker asks for.
func (o *Outcomes) Enough(b *Breaker, e Closed) bool {
	for n := b.trials(); n <= o.tried; n++ {
		if e.Reason == closedWords(n, b.trials()) {
			return o.broken == 0
		}
	}
	return false
}

func closedWords(tried, of int) string { return fmt.Sprintf("%d of %d trials finished", tried, of) }
