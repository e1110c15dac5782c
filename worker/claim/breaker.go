package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/breaker"
)

// circuits remembers for a moment how breakers stand, so that a job whose tasks
// start all the time costs no reading.
type circuits struct {
	mu    sync.Mutex
	known map[string]circuitAt // guarded by mu; by job
}

type circuitAt struct {
	breaker.Circuit
	at time.Time
}

// circuitFresh is for how long a breaker that is closed, or that is open, counts as such
// without a look. So long a task may start after its job's breaker has opened.
const circuitFresh = 250 * time.Millisecond

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
	var a breaker.Admission
	var at time.Time
	ask := func(c breaker.Circuit, now time.Time) events.Verdict {
		a, at = b.Admit(c, t.AsksBreaker(), now, chance), now
		return events.Verdict{Event: a.Event, By: &task.By{Policy: b}}
	}
	is, err := p.circuit(ctx, t.Job)
	if err == nil {
		ask(is, p.Recorder.Moment())
	}
	for err == nil && a.Event != nil {
		// Nothing is written on a guess: what was remembered may be old, so the log is asked.
		if is, _, err = p.Recorder.DoBreaker(ctx, t.Job, ask); err == nil && a.Trial {
			return nil, nil
		}
		p.circuits.learn(t.Job, is, p.Recorder.Now())
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the breaker of job %s: %w", t.Job, err)
	case a.Hold == nil:
		return nil, nil
	}
	return task.Judged{Command: t.HeldBack(a.Hold), By: task.By{Rule: task.RuleBreaker, At: at, Circuit: is.Head, Drawn: chance}}, nil
}

// circuit is how a job's breaker stands, read from the log if it has been a while.
func (p *Protocol) circuit(ctx context.Context, job string) (breaker.Circuit, error) {
	now := p.Recorder.Now()
	s := &p.circuits
	s.mu.Lock()
	c, ok := s.known[job]
	s.mu.Unlock()
	if ok && now.Sub(c.at) < circuitFresh {
		return c.Circuit, nil
	}
	is, err := p.Recorder.Circuit(ctx, job)
	if err == nil {
		s.learn(job, is, now)
	}
	return is, err
}

// learn remembers how a breaker stood at a moment.
func (s *circuits) learn(job string, is breaker.Circuit, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]circuitAt{}
	}
	s.known[job] = circuitAt{is, at}
}
