package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// Fold counts the records of the log. It is an observer of a read model's projector and a [Source].
// Safe for concurrent use.
//
// Counters begin at 0 when the process starts, as Prometheus expects. Earlier records are folded,
// because a wait may have begun there, but not counted: otherwise a rebuilt read model would count
// all of history as if it happened now.
type Fold struct {
	names *Queues
	nodes *nodes

	schedules schedules // guarded by mu

	mu        sync.Mutex
	counted   uint64            // guarded by mu, like all below; records up to it are not counted
	queues    map[string]*queue // by the queue's own name
	shared    map[string]*queue // by the name under which it is counted
	last      *queue            // the last result of queue
	lastName  string            // its own name
	attempts  map[string]uint64 // by outcome
	failures  map[string]uint64 // by class
	takeovers map[string]uint64 // by reason
	impact    map[string]uint64 // by reason
	facts     map[events.Type]*uint64
	expired   *Histogram
	breakers  breakers
	reopened  uint64
	late      uint64
	unread    uint64
}

// queue are the figures of a queue.
type queue struct {
	name                        string
	submitted, started, expired uint64
	ended                       map[end]uint64
	pending, run                *Histogram
}

type end struct {
	state  task.State
	reason string
}

// NewFold returns a fold that counts the records after a sequence, the end of the log when the
// process started. The nodes and queues are those in the read model before it folds further: their
// figures exist, at 0, before their first event. Names gives the names under which queues are
// counted.
func NewFold(after uint64, known []node.Node, queues []string, names *Queues) *Fold {
	f := &Fold{
		names:     names,
		nodes:     newNodes(known),
		counted:   after,
		queues:    map[string]*queue{},
		shared:    map[string]*queue{},
		attempts:  zeros(outcomes),
		failures:  zeros(classes),
		takeovers: zeros(takeoverReasons),
		impact:    zeros(impactReasons),
		breakers:  breakers{postponed: zeros(append(job.Postponing(), Other))},
		facts:     map[events.Type]*uint64{},
		schedules: newSchedules(),
		expired:   newHistogram(waitBounds),
	}
	for _, t := range events.Types {
		f.facts[t] = new(uint64)
	}
	f.facts[unknownType] = new(uint64)
	for _, q := range queues {
		f.queue(q)
	}
	f.queue(placement.DefaultQueue)
	return f
}

// unknownType is the name under which all unknown types are counted.
const unknownType events.Type = "unknown"

// How an attempt ended.
const (
	outcomeFinished  = "finished"
	outcomeFailed    = "failed"
	outcomeCancelled = "cancelled"
	outcomeReleased  = "released"
	outcomeParked    = "parked"
	outcomeLost      = "lost"
	outcomeTakenOver = "taken_over"
	outcomeAbnormal  = "abnormal" // its task was given up while it ran
)

// The known values of labels. They exist from the start, at 0, so that their first event shows as a
// rise.
var (
	outcomes = []string{outcomeFinished, outcomeFailed, outcomeCancelled, outcomeReleased, outcomeParked, outcomeLost,
		outcomeTakenOver, outcomeAbnormal}
	classes         = append(slices.Clone(job.Classes), Other)
	takeoverReasons = []string{"lease_ran_out"}
	impactReasons   = []string{outcomeReleased, outcomeLost, outcomeTakenOver}
	endReasons      = append(slices.Clone(job.Classes), value.Expired, value.Lost, value.Poison, value.Unplaced, value.Breaker, value.Rejected, value.Silent)
)

// noEnds are the possible ends of tasks, all at 0.
var noEnds = func() map[end]uint64 {
	ends := map[end]uint64{{task.Finished, noReason}: 0, {task.Cancelled, value.User}: 0}
	for _, class := range job.Classes {
		ends[end{task.Error, class}] = 0
	}
	for _, reason := range []string{value.Expired, value.Lost, value.Poison, value.Unplaced, value.Breaker, value.Rejected} {
		ends[end{task.Abnormal, reason}] = 0
	}
	return ends
}()

// noReason is the reason of a state without one.
const noReason = "none"

func zeros(keys []string) map[string]uint64 {
	m := map[string]uint64{}
	for _, k := range keys {
		m[k] = 0
	}
	return m
}

// Observe folds the steps of one batch, in the order of the log.
func (f *Fold) Observe(steps []events.Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range steps {
		s := &steps[i]
		counts := s.Record.Seq > f.counted && !s.Record.Retold()
		f.nodes.step(s.Record, counts)
		f.breakers.step(s.Record, counts)
		if !counts {
			continue
		}
		f.counted = s.Record.Seq
		f.fact(s.Record)
		if s.Record.Kind == events.KindTick {
			f.schedules.decision(s.Record)
		}
		if s.Was.State != s.Is.State || s.Was.Epoch != s.Is.Epoch {
			f.step(s)
		}
		if _, late := s.Record.Fact.Event.(task.AttemptLate); late && s.Record.Kind == events.KindChain {
			f.late++
		}
	}
}

func (f *Fold) fact(r *events.Record) {
	if r.Err != nil {
		f.unread++
		return
	}
	if !r.IsFact() {
		return // a timer: it counts when it has fired
	}
	n, ok := f.facts[r.Fact.Type]
	if !ok {
		n = f.facts[unknownType]
	}
	*n++
}

// step counts a task's change.
func (f *Fold) step(s *events.Step) {
	q := f.queue(s.Is.Queue)
	at := s.Record.Fact.At
	if s.Was.State == task.Unknown && !s.Is.State.Terminal() {
		q.submitted++
		return
	}
	if s.Is.Epoch != s.Was.Epoch { // the claim
		q.started++
		if s.Was.State == task.Pending {
			q.pending.observe(at.Sub(s.Was.Since))
		}
	}
	if wasLive(s) && (s.Is.State != task.Cancelling || s.Is.Epoch != s.Was.Epoch) {
		q.run.observe(at.Sub(s.Was.StartedAt))
		f.attempt(s)
	}
	switch {
	case s.Is.State.Terminal() && !s.Was.State.Terminal():
		q.ended[end{s.Is.State, reasonOf(s)}]++
		if s.Is.State == task.Abnormal && s.Is.Reason == value.Expired {
			q.expired++
			f.expired.observe(at.Sub(s.Was.Since))
		}
	case s.Was.State.Terminal() && !s.Is.State.Terminal():
		f.reopened++
	}
}

// attempt counts the end of an attempt.
func (f *Fold) attempt(s *events.Step) {
	outcome := outcomeAbnormal
	switch e := s.Record.Fact.Event.(type) {
	case task.AttemptStarted:
		outcome = outcomeTakenOver
		f.takeovers["lease_ran_out"]++
		f.impact[outcomeTakenOver]++
	case task.AttemptFinished:
		outcome = outcomeFinished
	case task.AttemptFailed:
		outcome = outcomeFailed
		f.failures[oneOf(classes, e.Class)]++
	case task.AttemptReleased:
		outcome = outcomeReleased
		f.impact[outcomeReleased]++
	case task.AttemptParked:
		outcome = outcomeParked
	case task.AttemptLost:
		outcome = outcomeLost
		if f.nodes.over(node.ID(s.Was.Node), s.Was.Session) {
			f.impact[outcomeLost]++ // otherwise it ran too long, or could not be killed
		}
	case task.CancelConfirmed:
		outcome = outcomeCancelled
	}
	f.attempts[outcome]++
}

func wasLive(s *events.Step) bool {
	return s.Was.Epoch > 0 && (s.Was.State == task.Running || s.Was.State == task.Cancelling) // a parent has no attempt
}

func reasonOf(s *events.Step) string {
	if s.Is.Reason == "" {
		return noReason
	}
	return oneOf(endReasons, s.Is.Reason)
}

// oneOf is s if it is one of the values, so that foreign values make no new series.
func oneOf(values []string, s string) string {
	if i := slices.Index(values, s); i >= 0 {
		return values[i]
	}
	return Other
}

// queue returns the figures of a queue. It keeps the last result, because the same queue is often
// asked for repeatedly.
func (f *Fold) queue(name string) *queue {
	if f.last != nil && f.lastName == name {
		return f.last
	}
	q, ok := f.queues[name]
	if !ok {
		counted := f.names.Of(name)
		if q, ok = f.shared[counted]; !ok {
			q = &queue{name: counted, ended: maps.Clone(noEnds), pending: newHistogram(waitBounds), run: newHistogram(runBounds)}
			f.shared[counted] = q
		}
		if shared(counted) {
			return q // one of too many to remember
		}
		name = strings.Clone(name) // it may be part of a message
		f.queues[name] = q
	}
	f.last, f.lastName = q, name
	return q
}

// Collect emits all figures.
func (f *Fold) Collect(emit Emit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.shared {
		emit(TasksSubmitted, float64(q.submitted), nil, q.name)
		emit(AttemptsStarted, float64(q.started), nil, q.name)
		emit(StartExpired, float64(q.expired), nil, q.name)
		emit(PendingAge, 0, q.pending, q.name)
		emit(RunTime, 0, q.run, q.name)
		for e, n := range q.ended {
			emit(TasksEnded, float64(n), nil, q.name, e.state.String(), e.reason)
		}
	}
	each := func(family *Family, counts map[string]uint64) {
		for label, n := range counts {
			emit(family, float64(n), nil, label)
		}
	}
	each(Attempts, f.attempts)
	each(AttemptFailures, f.failures)
	each(Takeovers, f.takeovers)
	each(RestartImpact, f.impact)
	for t, n := range f.facts {
		emit(Facts, float64(*n), nil, string(t))
	}
	emit(StartExpiredAge, 0, f.expired)
	emit(TasksReopened, float64(f.reopened), nil)
	emit(ResultsLate, float64(f.late), nil)
	emit(FactsUnreadable, float64(f.unread), nil)
	f.schedules.collect(emit)
	f.breakers.collect(emit)
	f.nodes.collect(emit)
}
