package scheduler

import "millrace/events"

// reactor is a part of the scheduler that acts on facts. It keeps no truth: what it
// misses, a look at the read model or a sweep finds.
type reactor interface {
	// observe takes one step at a time, in the order of the log, from one goroutine.
	// It must not block, nor keep the step's record.
	observe(step *events.Step)
}

// Observe tells the scheduler what became part of the read model it looks at: it then
// need not read the log a second time. It may be called before Run and implements
// the observer of package projections.
func (s *Scheduler) Observe(steps []events.Step) {
	for i := range steps {
		for _, r := range s.reactors {
			r.observe(&steps[i])
		}
	}
}
