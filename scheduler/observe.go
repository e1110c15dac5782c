package scheduler

import "millrace/events"

// reactor is a part of the scheduler that acts on facts. It holds no truth: a check of the read
// model or a sweep finds what it misses.
type reactor interface {
	// observe takes one step at a time, in the order of the log, from one goroutine. It must
	// neither block nor keep the step's record.
	observe(step *events.Step)
}

// batched is a reactor that is told when a batch of steps is over.
type batched interface{ endBatch() }

// Observe takes new facts from the scheduler's read model, so that the scheduler need not read the
// log itself. It may be called before Run. It implements the observer of package projections.
//
// Steps begin again at a lower sequence if the read model is rebuilt, perhaps from a log that has
// lost its last messages. What was known of these is void.
func (s *Scheduler) Observe(steps []events.Step) {
	if len(steps) > 0 {
		if steps[0].Record.Seq <= s.observed {
			s.heard.Store(0)
			s.ticks.forget()
		}
		s.observed = steps[len(steps)-1].Record.Seq
	}
	for i := range steps {
		for _, r := range s.reactors {
			r.observe(&steps[i])
		}
	}
	for _, r := range s.reactors {
		if b, ok := r.(batched); ok {
			b.endBatch()
		}
	}
}
