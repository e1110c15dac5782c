package metrics

import (
	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
)

// maxBreakers is how many jobs have their own series; the others are left out.
const maxBreakers = 500

// breakers counts the changes of jobs' breakers. Guarded by the fold's mutex.
type breakers struct {
	jobs      map[string]*breakerCount
	postponed map[string]uint64 // by the postponing rule
}

type breakerCount struct {
	circuit limit.Circuit
	opened  uint64
}

// step takes one record. Counts says that it came after the process started.
func (b *breakers) step(r *events.Record, counts bool) {
	if r.Err != nil {
		return
	}
	if e, ok := r.Fact.Event.(task.Postponed); ok && counts && e.Reason != "" {
		rule := Other
		if _, known := b.postponed[e.Reason]; known {
			rule = e.Reason
		}
		b.postponed[rule]++
	}
	if r.Kind != events.KindBreaker {
		return
	}
	c, ok := b.jobs[r.Fact.Job]
	if !ok {
		if len(b.jobs) >= maxBreakers {
			return
		}
		if b.jobs == nil {
			b.jobs = map[string]*breakerCount{}
		}
		c = &breakerCount{}
		b.jobs[r.Fact.Job] = c
	}
	c.circuit = r.Circuit(c.circuit)
	if _, opened := r.Fact.Event.(limit.Opened); opened && counts {
		c.opened++
	}
}

func (b *breakers) collect(emit Emit) {
	for job, c := range b.jobs {
		state := 0.0
		switch c.circuit.State {
		case limit.StateHalfOpen:
			state = 1
		case limit.StateOpen:
			state = 2
		}
		emit(BreakerState, state, nil, job)
		emit(BreakerOpened, float64(c.opened), nil, job)
	}
	for rule, n := range b.postponed {
		emit(TasksPostponed, float64(n), nil, rule)
	}
}
