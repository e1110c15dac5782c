package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
)

// circuits remembers for a moment how breakers stand, so that a job whose tasks
// start all the time costs no reading.
type circuits struct {
	mu    sync.Mutex
	known map[string]circuitAt // guarded by mu; by job
}

type circuitAt struct {
	task.Circuit
	at time.Time
}

// circuitFresh is for how long a breaker that is closed, or that is open, counts as such
// without a look. So long a task may start after its job's breaker has opened.
const circuitFresh = 250 * time.Millisecond

// admissions is how often one claim tries to write to a breaker to which others write, too.
const admissions = 10

// breaker holds a task back while the breaker of its job is open.
func (p *Protocol) breaker(ctx context.Context, q *question) (a answer, err error) {
	if t := q.task; q.waits() && t.Spec != nil && t.Spec.Breaker != nil {
		a.command, err = p.admit(ctx, t)
	}
	return a, err
}

// admit asks the breaker of a task's job whether it may start here, as a trial
// maybe. The command says what becomes of it if not; nil if it may.
func (p *Protocol) admit(ctx context.Context, t *task.Task) (task.Command, error) {
	b, chance := t.Spec.Breaker, 0.0
	if p.Chance != nil {
		chance = p.Chance()
	}
	c, err := p.circuit(ctx, t.Job, false)
	for try := 0; err == nil; try++ {
		at := p.Recorder.Moment()
		a := b.Admit(c, *t, at, chance)
		switch {
		case a.Event == nil && a.Hold == nil:
			return nil, nil
		case a.Event == nil:
			return task.Judged{Command: a.Hold, By: task.By{Rule: task.RuleBreaker, At: at, Circuit: c.Head, Drawn: chance}}, nil
		}
		// Nothing is written on a guess: what was remembered may be old.
		if try == 0 {
			c, err = p.circuit(ctx, t.Job, true)
			continue
		}
		var is task.Circuit
		is, err = p.Recorder.DoBreaker(ctx, t.Job, c, at, a.Event, &task.By{Policy: b})
		switch {
		case err == nil && a.Trial:
			return nil, nil
		case err == nil:
			c = is
		case try < admissions && (errors.Is(err, events.ErrConflict) || errors.Is(err, events.ErrUnknown)):
			c, err = p.circuit(ctx, t.Job, true)
		}
	}
	return nil, fmt.Errorf("ask the breaker of job %s: %w", t.Job, err)
}

// circuit is how a job's breaker stands, read from the log if asked anew or if it has been a while.
func (p *Protocol) circuit(ctx context.Context, job string, anew bool) (task.Circuit, error) {
	now := p.Recorder.Now()
	s := &p.circuits
	s.mu.Lock()
	c, ok := s.known[job]
	s.mu.Unlock()
	if ok && !anew && now.Sub(c.at) < circuitFresh {
		return c.Circuit, nil
	}
	is, err := p.Recorder.Circuit(ctx, job)
	if err != nil {
		return is, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]circuitAt{}
	}
	s.known[job] = circuitAt{is, now}
	return is, nil
}
