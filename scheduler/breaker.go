package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/limit"
)

// breakers follows the ends of attempts in jobs with a breaker. A scheduler judges what it has seen
// and records the result by compare-and-set, so exactly one of several schedulers does.
//
// What it has seen is only in memory: failures from before its process started do not count. The
// breakers themselves are in the log. Safe for concurrent use.
type breakers struct {
	left *Deferred // jobs left to other schedulers' judgement, which may have seen less

	mu   sync.Mutex
	jobs map[string]*guarded // guarded by mu
	seen uint64              // guarded by mu; the last end of an attempt or fact of a breaker seen
}

// guarded is a job with a breaker.
type guarded struct {
	policy   limit.Breaker
	circuit  limit.Circuit
	outcomes limit.Outcomes
	// read says that the circuit comes from the log and is not a guess.
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

// moved takes a fact about a breaker.
func (b *breakers) moved(r *events.Record) {
	b.left.Drop(r.Fact.Job)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = r.Seq
	g, ok := b.jobs[r.Fact.Job]
	if !ok || r.Err != nil {
		return // its state is read when the job's tasks next have a fact
	}
	g.circuit, g.read = r.Circuit(g.circuit), true
	if _, trial := r.Fact.Event.(limit.Tried); !trial {
		g.outcomes.Moved(g.circuit)
	}
}

// ended takes the end of an attempt that counts.
func (b *breakers) ended(s *events.Step) {
	if s.Is.Job == "" || s.Was.State == s.Is.State {
		return
	}
	e, _ := s.Record.Fact.Event.(task.Event)
	o, ended := duties.OutcomeOf(e, s.Record.Fact.At, s.Was.Epoch)
	if !ended {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = s.Record.Seq
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

// due lists the jobs whose breaker has not been read, and those whose breaker should change, as far
// as known here.
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

// learn takes over the state of a breaker in the log, unless a newer one is known.
func (b *breakers) learn(job string, c limit.Circuit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.jobs[job]
	if !g.read || g.circuit.Head < c.Head {
		g.circuit, g.read = c, true
	}
}

// known is the state of a breaker as far as known here.
func (b *breakers) known(job string) limit.Circuit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.jobs[job].circuit
}

// judge returns the change of a breaker in its known state, with its inputs: no change if another
// scheduler goes first.
func (b *breakers) judge(job string, is limit.Circuit, now time.Time) events.Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.jobs[job]
	policy := g.policy
	event := policy.Judge(is, &g.outcomes, now)
	if event == nil || !b.left.Mine(job) {
		return events.Verdict{}
	}
	return events.Verdict{Event: event, By: &task.By{Seen: b.seen, Policy: &policy}}
}

// judgeBreakers checks once whether any breaker must change its state, and records the changes.
// Changes recorded by other schedulers come through the log.
func (s *Scheduler) judgeBreakers(ctx context.Context) error {
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
		judge := func(is limit.Circuit, at time.Time) events.Verdict { return b.judge(job, is, at) }
		is, done, err := s.rec.DoBreakerFrom(ctx, job, b.known(job), judge)
		if done {
			s.log.Warn(is.Reason, "job", job, "breaker", string(is.State))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
