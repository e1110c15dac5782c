package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
)

// breakers follows how the attempts of jobs with a breaker end. A scheduler judges
// what it has seen and records what follows, by compare-and-set, so that of any
// number of schedulers one does.
//
// What it has seen lies in memory: failures from before its process started count for
// nothing. The breakers themselves are in the log. Safe for concurrent use.
type breakers struct {
	mu   sync.Mutex
	jobs map[string]*guarded // guarded by mu
}

// guarded is a job with a breaker.
type guarded struct {
	policy   task.Breaker
	circuit  task.Circuit
	outcomes task.Outcomes
	// read says that the circuit is that of the log, and no guess.
	read bool
}

// observe implements reactor.
func (b *breakers) observe(s *events.Step) {
	switch {
	case s.Record.Kind == events.KindBreaker:
		b.moved(s.Record)
	case s.Is.Breaker != nil:
		b.ended(s)
	}
}

// moved takes in a fact about a breaker.
func (b *breakers) moved(r *events.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok := b.jobs[r.Fact.Job]
	if !ok || r.Err != nil {
		return // what it says is read when something happens to the job's tasks
	}
	g.circuit, g.read = r.Circuit(g.circuit), true
	if _, trial := r.Fact.Event.(task.BreakerTried); !trial {
		g.outcomes.Moved(g.circuit)
	}
}

// ended takes in the end of an attempt that counted.
func (b *breakers) ended(s *events.Step) {
	if s.Is.Job == "" || s.Was.State == s.Is.State {
		return
	}
	o := task.Outcome{At: s.Record.Fact.At, Epoch: s.Was.Epoch}
	switch e := s.Record.Fact.Event.(type) {
	case task.AttemptFinished:
	case task.AttemptFailed:
		o.Failed, o.What = true, e.Class
		if e.Class == task.ReasonExit && e.Exit != nil {
			o.What = fmt.Sprintf("exit %d", *e.Exit)
		}
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok := b.jobs[s.Is.Job]
	if !ok {
		g = &guarded{}
		if b.jobs == nil {
			b.jobs = map[string]*guarded{}
		}
		b.jobs[s.Is.Job] = g
	}
	g.policy = *s.Is.Breaker
	g.outcomes.Add(&g.policy, g.circuit, o)
}

// due lists the jobs whose breaker has not been read, and those of which
// something follows, as far as is known here.
func (b *breakers) due(now time.Time) (unread, due []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for job, g := range b.jobs {
		switch {
		case !g.read:
			unread = append(unread, job)
		case g.policy.Judge(g.circuit, &g.outcomes, now) != nil:
			due = append(due, job)
		}
	}
	return unread, due
}

// learn takes in how a breaker stands in the log, unless more is known by now.
func (b *breakers) learn(job string, c task.Circuit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.jobs[job]
	if !g.read || g.circuit.Head < c.Head {
		g.circuit, g.read = c, true
	}
}

// judge returns what follows now, and on which state of the breaker; nil for nothing.
func (b *breakers) judge(job string, now time.Time) (task.Circuit, task.BreakerEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.jobs[job]
	return g.circuit, g.policy.Judge(g.circuit, &g.outcomes, now)
}

// JudgeBreakers looks once whether a breaker is to change its state, and records
// it. What somebody else has recorded meanwhile comes with the log.
func (s *Scheduler) JudgeBreakers(ctx context.Context) error {
	b := &s.breakers
	unread, due := b.due(s.rec.Now())
	var errs []error
	for _, job := range unread {
		c, err := s.rec.Circuit(ctx, job)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.learn(job, c)
		due = append(due, job)
	}
	for _, job := range due {
		c, event := b.judge(job, s.rec.Now())
		if event == nil {
			continue
		}
		is, err := s.rec.DoBreaker(ctx, job, c, event)
		switch {
		case err == nil:
			s.log.Warn().Str("job", job).Str("breaker", string(is.State)).Msg(is.Reason)
		case !errors.Is(err, events.ErrConflict) && !errors.Is(err, events.ErrUnknown):
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
