package verify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/breaker"
	"millrace/task/job"
	"millrace/task/value"
	"millrace/verify/book"
)

// Decisions are made again under other settings by the same rule. All facts are folded as they were recorded: only what a decision is
// asked with differs, and what comes of it is never folded. So a finding says what would have been different as long as
// nothing before it was; [Verifier] tells of each life of a task but once.

// Other are settings in place of those by which decisions were made. Zero fields leave what was.
type Other struct {
	// NodeTTL is how long heartbeats last.
	NodeTTL time.Duration
	// Bounds are those of schedulers, AckWait among them.
	Bounds task.Bounds
	// Flap are the scores by which nodes are quarantined and released.
	Flap task.FlapBounds
	// Spec is what a task would have been born with that was born with a spec, which must not be modified; nil leaves all as they were.
	// Job is "" for a task without one.
	Spec func(job string, spec *job.Spec) *job.Spec
	// Schedule is when a schedule would have fired; nil leaves all as they were.
	Schedule func(name string, when job.Schedule) job.Schedule
}

// None tells whether all is as it was.
func (o *Other) None() bool {
	return o.NodeTTL == 0 && o.Bounds == task.Bounds{} && o.Flap == task.FlapBounds{} && o.Spec == nil && o.Schedule == nil
}

// bounds are those of a decision, nil for those of the verifier.
func (v *Verifier) bounds(by *task.Bounds) task.Settings {
	b := cmp.Or(by, v.cfg.Settings.Bounds())
	o := &v.cfg.Other.Bounds
	return (&task.Bounds{
		StartDeadline: cmp.Or(o.StartDeadline, b.StartDeadline), AckWait: cmp.Or(o.AckWait, b.AckWait),
		Slack: cmp.Or(o.Slack, b.Slack), Timer: cmp.Or(o.Timer, b.Timer),
	}).Settings()
}

// flap are the scores of a decision about a node.
func (v *Verifier) flap(by *task.FlapBounds) node.FlapPolicy {
	o := &v.cfg.Other.Flap
	return node.FlapPolicy{Limit: cmp.Or(o.Limit, by.Limit), Release: cmp.Or(o.Release, by.Release)}
}

// policy is the breaker of a job.
func (v *Verifier) policy(name string, was *breaker.Breaker) *breaker.Breaker {
	if v.cfg.Other.Spec == nil || was == nil {
		return was
	}
	return v.cfg.Other.Spec(name, &job.Spec{Breaker: was}).Breaker
}

// work is what a task is born with, as decisions about it are to see it.
func (s *story) work(v *Verifier, w *task.Work) *task.Work {
	if v.cfg.Other.Spec == nil || w.Spec == nil {
		return w
	}
	other := *w
	other.Spec = v.cfg.Other.Spec(w.Job, w.Spec)
	s.other = v.tasks.specs.number(other.Spec)
	return &other
}

// asked is the task with which a decision about it is made again.
func (s *story) asks(v *Verifier, k *task.Task) *task.Task {
	spec := v.tasks.specs.spec(s.other)
	switch w := s.now.whole; {
	case v.cfg.Other.Spec == nil || k.Spec == nil:
		return k
	case w != nil:
		spec = v.cfg.Other.Spec(w.work.Job, k.Spec)
	case spec == nil:
		return k
	}
	other := k.Otherwise(spec)
	return &other
}

// pulse is what a decision knew of a heartbeat, with the time that it would have lasted. If it had run out and would not have, it tells
// until when it would have lasted.
func (v *Verifier) pulse(n *node.Node, p node.Pulse) (is node.Pulse, lasts time.Time) {
	ttl := v.cfg.Other.NodeTTL
	if ttl == 0 {
		return p, time.Time{}
	}
	switch was := n.TTL.Std(); {
	case p.Beat.Session != "":
		p.Beat.TTL = value.Duration(ttl)
	case p.RanOut && was > 0:
		p.Stored = p.Stored.Add(ttl - was)
		if p.Stored.After(p.Now) {
			return p, p.Stored
		}
	}
	n.TTL = value.Duration(ttl)
	return p, time.Time{}
}

// Sooner is a decision that comes out as it was recorded, and could have been made so much sooner.
type Sooner struct {
	Seq   uint64
	Type  events.Type
	About string
	Task  task.ID
	Node  node.ID
	At    time.Time
	By    time.Duration
}

// wasSooner keeps that the decision of a fact could have been made by so much sooner, if it could.
func (v *Verifier) wasSooner(r *events.Record, by time.Duration) {
	if by <= 0 || v.cfg.Other.None() {
		return
	}
	v.sooner = append(v.sooner, Sooner{Seq: r.Seq, Type: r.Fact.Type, About: strings.Clone(r.Fact.About()), Task: task.ID(strings.Clone(string(r.Fact.Task))),
		Node: node.ID(strings.Clone(string(r.Fact.Node))), At: r.Fact.At, By: by})
}

// Sooner are the decisions that could have been made sooner under [Config.Other], in the order of the log.
func (v *Verifier) Sooner() []Sooner { return v.sooner }

// overdue tells of a task for which a decision would have been owed before a time under the other settings, and was not under those
// that held: an end by a deadline, or the stop of an attempt that ran for too long.
func (s *story) overdue(v *Verifier, k *task.Task, now time.Time) {
	if v.cfg.Other.None() || !s.born || s.old || s.cut || len(s.rivals) > 0 || !v.whole() {
		return
	}
	other := s.asks(v, k)
	if k.Live() && k.Epoch > 0 {
		was, is := k.RunUntil(), other.RunUntil()
		if !is.IsZero() && is.Before(now) && (was.IsZero() || !was.Before(now)) {
			s.never(v, is, "the attempt would have been stopped for its run timeout, and have failed as error/timeout")
			return
		}
	}
	around := v.around(k, v.queues())
	was, is := task.Owes(*k, around, v.cfg.Settings), task.Owes(*other, around, v.bounds(nil))
	if passed(&is, now) && !passed(&was, now) {
		s.never(v, is.By, "%s was to %s; else %s", is.Who, is.What, is.Else)
	}
}

// stops tells whether the run timeout of the attempt had passed.
func stops(k *task.Task, at time.Time) bool {
	until := k.RunUntil()
	return !until.IsZero() && !at.Before(until)
}

func passed(d *task.Duty, now time.Time) bool {
	return d.Command != nil && !d.Look && !d.By.IsZero() && d.By.Before(now)
}

// never tells of a decision that no fact records, and that would have been made by a time.
func (s *story) never(v *Verifier, by time.Time, format string, args ...any) {
	s.finding(v, Decisions, Finding{Seqs: []uint64{s.now.seq}, At: by, Never: true, About: string(s.id)}, format, args...)
}

// waited looks at all that waits before a node takes work, or none does any more: what nobody would have waited for so long.
func (v *Verifier) waited(r *events.Record) {
	if v.cfg.Other.None() {
		return
	}
	for id, s := range book.Sorted(v.tasks.open) {
		if k := v.tasks.task(id, &s.now); k.Waiting() {
			s.overdue(v, &k, r.Fact.At)
		}
	}
}

// wouldTrip tells of a breaker that would have opened by the end of an attempt, and did not.
func (v *Verifier) wouldTrip(g *guarded, job string, was *breaker.Breaker, r *events.Record) {
	is := v.policy(job, was)
	if v.cfg.Other.Spec == nil || is == nil || !g.circuit.Closed() || !v.whole() {
		return
	}
	opens := func(p *breaker.Breaker) bool { return p.Judge(g.circuit, g.outcomes(p, r.Seq), r.Fact.At) != nil }
	if opens(is) && !opens(was) && !slices.Contains(v.tripped, job) {
		v.tripped = append(v.tripped, job)
		v.book.Find(Decisions, Finding{Seqs: []uint64{r.Seq}, At: r.Fact.At, Never: true, About: job, Job: true,
			What: "the breaker of job " + job + " would have opened", Look: book.Show(r.Seq)})
	}
}
