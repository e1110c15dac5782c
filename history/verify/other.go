package verify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
)

// Decisions can be repeated under other settings. All facts are folded as recorded: only the inputs
// of a decision change, and its result is never folded. So a finding tells the difference under the
// condition that nothing before it was different; [Verifier] reports only the first of each life of
// a task.

// Other are settings in place of those of the recorded decisions. Zero fields change nothing.
type Other struct {
	// NodeTTL is the lifetime of heartbeats.
	NodeTTL time.Duration
	// Bounds are the settings of schedulers, including AckWait.
	Bounds task.Bounds
	// Flap are the scores for quarantine and release.
	Flap task.FlapBounds
	// Spec returns the spec with which a task would have been born, given its own, which must not
	// be modified; nil changes none. Job is "" for a task without one.
	Spec func(job string, spec *job.Spec) *job.Spec
	// Schedule returns which ticks a schedule would have had; nil changes none.
	Schedule func(name string, when job.Schedule) job.Schedule
}

// None tells whether no setting is changed.
func (o *Other) None() bool {
	return o.NodeTTL == 0 && o.Bounds == task.Bounds{} && o.Flap == task.FlapBounds{} && o.Spec == nil && o.Schedule == nil
}

// bounds returns the settings for a decision, nil for those of the verifier.
func (v *Verifier) bounds(by *task.Bounds) duties.Settings {
	b := cmp.Or(by, v.cfg.Settings.Bounds())
	o := &v.cfg.Other.Bounds
	return duties.SettingsOf((&task.Bounds{
		StartDeadline: cmp.Or(o.StartDeadline, b.StartDeadline), AckWait: cmp.Or(o.AckWait, b.AckWait),
		Slack: cmp.Or(o.Slack, b.Slack), Timer: cmp.Or(o.Timer, b.Timer),
	}))
}

// flap returns the scores for a decision about a node.
func (v *Verifier) flap(by *task.FlapBounds) node.FlapPolicy {
	o := &v.cfg.Other.Flap
	return node.FlapPolicy{Limit: cmp.Or(o.Limit, by.Limit), Release: cmp.Or(o.Release, by.Release)}
}

// policy is the breaker of a job.
func (v *Verifier) policy(name string, was *limit.Breaker) *limit.Breaker {
	if v.cfg.Other.Spec == nil || was == nil {
		return was
	}
	return v.cfg.Other.Spec(name, &job.Spec{Breaker: was}).Breaker
}

// work is a task's work as repeated decisions see it.
func (s *story) work(v *Verifier, w *task.Work) *task.Work {
	if v.cfg.Other.Spec == nil || w.Spec == nil {
		return w
	}
	other := *w
	other.Spec = v.cfg.Other.Spec(w.Job, w.Spec)
	s.other = v.tasks.specs.number(other.Spec)
	return &other
}

// asks returns the task as repeated decisions see it.
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

// pulse is a decision's knowledge of a heartbeat, with the changed lifetime. If the heartbeat had
// expired and would not have, lasts is until when.
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

// Sooner is a decision with the recorded result that could have been made sooner.
type Sooner struct {
	Seq   uint64
	Type  events.Type
	About string
	Task  task.ID
	Node  node.ID
	At    time.Time
	By    time.Duration
}

// wasSooner records that the decision of a fact could have been made sooner, if it could.
func (v *Verifier) wasSooner(r *events.Record, by time.Duration) {
	if by <= 0 || v.cfg.Other.None() {
		return
	}
	v.sooner = append(v.sooner, Sooner{
		Seq:   r.Seq,
		Type:  r.Fact.Type,
		About: strings.Clone(r.Fact.About()),
		Task:  task.ID(strings.Clone(string(r.Fact.Task))),
		Node:  node.ID(strings.Clone(string(r.Fact.Node))),
		At:    r.Fact.At,
		By:    by,
	})
}

// Sooner returns the decisions that could have been made sooner under [Config.Other], in the order
// of the log.
func (v *Verifier) Sooner() []Sooner { return v.sooner }

// overdue reports a task for which the other settings would have required a decision before a fact,
// and the recorded ones did not: an end by a deadline, or the stop of an attempt that ran too long.
func (s *story) overdue(v *Verifier, k *task.Task, r *events.Record) {
	if !s.elsewise(v) {
		return
	}
	heard := v.heard(k)
	if e, ok := r.Fact.Event.(task.AttemptStarted); ok && e.TookOver != nil {
		heard = e.TookOver.Heard
	}
	if s.runsOut(v, k, r.Fact.At, heard) || r.Fact.By != nil && r.Fact.By.Rule == task.RuleDuty {
		return // another decision by a duty is repeated itself
	}
	s.misses(v, k, r.Fact.At)
}

// elsewise tells whether the task is judged under other settings.
func (s *story) elsewise(v *Verifier) bool {
	return !v.cfg.Other.None() && s.born && !s.old && !s.cut && len(s.rivals) == 0 && v.whole()
}

// runsOut reports an attempt that its node would have stopped before a time. Heard is until when the
// node is known to have been alive; zero if there is no reason to doubt that.
func (s *story) runsOut(v *Verifier, k *task.Task, now, heard time.Time) bool {
	if !k.Live() || k.Epoch == 0 {
		return false
	}
	was, is := k.RunUntil(), s.asks(v, k).RunUntil()
	if is.IsZero() || !is.Before(now) || !was.IsZero() && !is.Before(was) || !heard.IsZero() && heard.Before(is) {
		return false
	}
	s.never(v, is, "the attempt would have been stopped for its run timeout, and have failed as error/timeout")
	return true
}

// heard is until when the session that runs a task is known to have been alive, if it was found lost
// since; else zero.
func (v *Verifier) heard(k *task.Task) time.Time {
	return v.lives[v.session(k.Node, k.Session)].heard
}

// misses reports a duty that would have passed before a time.
func (s *story) misses(v *Verifier, k *task.Task, now time.Time) {
	around := v.around(k, v.queues(), now)
	was, is := duties.Owes(*k, around, v.cfg.Settings), duties.Owes(*s.asks(v, k), around, v.bounds(nil))
	if passed(&is, now) && !passed(&was, now) {
		s.never(v, is.By, "%s was to %s; else %s", is.Who, is.What, is.Else)
	}
}

// stops tells whether the run timeout of the attempt had passed.
func stops(k *task.Task, at time.Time) bool {
	until := k.RunUntil()
	return !until.IsZero() && !at.Before(until)
}

func passed(d *duties.Duty, now time.Time) bool {
	return d.Command != nil && !d.Look && !d.By.IsZero() && d.By.Before(now)
}

// never reports a decision that no fact records, and that would have been made by a time.
func (s *story) never(v *Verifier, by time.Time, format string, args ...any) {
	s.finding(v, Decisions, Finding{Seqs: []uint64{s.now.seq}, At: by, Never: true, About: string(s.id)}, format, args...)
}

// waited examines all waiting tasks before a node takes work, or before none does any more: the
// waits would have ended earlier under the other settings.
func (v *Verifier) waited(r *events.Record) {
	if v.cfg.Other.None() {
		return
	}
	for id, s := range v.tasks.unended() {
		if k := v.tasks.task(id, &s.now); k.Waiting() && s.elsewise(v) {
			s.misses(v, &k, r.Fact.At)
			v.tasks.put(s)
		}
	}
}

// wouldTrip reports a breaker that would have opened at the end of an attempt, and did not.
func (v *Verifier) wouldTrip(g *guarded, job string, was *limit.Breaker, r *events.Record) {
	is := v.policy(job, was)
	if v.cfg.Other.Spec == nil || is == nil || !g.circuit.Closed() || !v.whole() {
		return
	}
	opens := func(p *limit.Breaker) bool { return p.Judge(g.circuit, g.outcomes(p, r.Seq), r.Fact.At) != nil }
	if opens(is) && !opens(was) && !slices.Contains(v.tripped, job) {
		v.tripped = append(v.tripped, job)
		v.book.Find(Decisions, Finding{Seqs: []uint64{r.Seq}, At: r.Fact.At, Never: true, Type: events.BreakerOpened, About: job, Job: true,
			What: "the breaker of job " + job + " would have opened", Look: findings.Show(r.Seq)})
	}
}
