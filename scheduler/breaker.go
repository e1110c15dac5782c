package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/events"
	"millrace/scheduler/turns"
	"millrace/task"
	"millrace/task/breaker"
)

// breakers follows how the attempts of jobs with a breaker end. A scheduler judges
// what it has seen and records what follows, by compare-and-set, so that of any
// number of schedulers one does.
//
// What it has seen lies in memory: failures from before its process started count for
// nothing. The breakers themselves are in the log. Safe for concurrent use.
type breakers struct {
	left *turns.Left // jobs whose breaker other schedulers judge first; they may have seen less

	mu   sync.Mutex
	jobs map[string]*guarded // guarded by mu
	seen uint64              // guarded by mu; the last end of an attempt, or fact of a breaker, that was told
}

// guarded is a job with a breaker.
type guarded struct {
	policy   breaker.Breaker
	circuit  breaker.Circuit
	outcomes breaker.Outcomes
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
	b.left.Drop(r.Fact.Job)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = r.Seq
	g, ok := b.jobs[r.Fact.Job]
	if !ok || r.Err != nil {
		return // what it says is read when something happens to the job's tasks
	}
	g.circuit, g.read = r.Circuit(g.circuit), true
	if _, trial := r.Fact.Event.(breaker.Tried); !trial {
		g.outcomes.Moved(g.circuit)
	}
}

// ended takes in the end of an attempt that counted.
func (b *breakers) ended(s *events.Step) {
	if s.Is.Job == "" || s.Was.State == s.Is.State {
		return
	}
	e, _ := s.Record.Fact.Event.(task.Event)
	o, ended := task.OutcomeOf(e, s.Record.Fact.At, s.Was.Epoch)
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
func (b *breakers) learn(job string, c breaker.Circuit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.jobs[job]
	if !g.read || g.circuit.Head < c.Head {
		g.circuit, g.read = c, true
	}
}

// known is how a breaker stands, as far as is known here.
func (b *breakers) known(job string) breaker.Circuit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.jobs[job].circuit
}

// judge says what follows now for a breaker as it is known to stand, and by what: nothing if another scheduler goes first.
func (b *breakers) judge(job string, is breaker.Circuit, now time.Time) events.Verdict {
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
		judge := func(is breaker.Circuit, at time.Time) events.Verdict { return b.judge(job, is, at) }
		is, done, err := s.rec.DoBreakerFrom(ctx, job, b.known(job), judge)
		if done {
			s.log.Warn(is.Reason, "job", job, "breaker", string(is.State))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
