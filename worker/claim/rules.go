package claim

import (
	"context"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/value"
)

// question is what the rules are asked about: may this node start the task of an offer?
type question struct {
	task  *task.Task
	claim task.Claim // as far as it goes; a rule may add to it what the claim must hold
	// deliveries is how often the server has delivered the offer, and stored is when the log stored it.
	deliveries int
	stored     time.Time
	// unread is when the horizon was read by which the task was taken from its offer alone; zero if it was
	// not.
	unread time.Time
	// valve is that of the queue from which the offer came.
	valve queue.Valve
	// memory is what must be remembered about where the task starts, if it does.
	memory duties.Ran
	// taken are the places that the claim has taken on this node.
	taken []limit.Counter
}

// waits tells whether the task waits under the offer. If not, the offer is stale, or the lease of
// an attempt.
func (q *question) waits() bool { return q.task.Turn == q.claim.After && q.task.Waiting() }

// answer is what a rule decides about an offer. The zero value leaves the decision to the next
// rule.
type answer struct {
	command task.Command  // is to be recorded
	back    bool          // the offer goes back at once, for another worker
	rest    time.Duration // the offer goes back, and rests for this long
}

// spec is the task's spec, without any rule if the task has none.
func (q *question) spec() *job.Spec {
	if q.task.Spec == nil {
		return &job.Spec{}
	}
	return q.task.Spec
}

// rule is asked when an offer is accepted. If it is one of [job.Rules], it has its name there.
type rule struct {
	name string
	ask  func(*Protocol, context.Context, *question) (answer, error)
	// of tells which tasks it concerns; nil for all.
	of func(*question) bool
}

// rules are asked in this order. The first answer decides; if no rule has one, the task is claimed.
// Each rule has a file of its own; its logic is a pure function of package task or below it.
var rules = []rule{
	{task.RuleHorizon, (*Protocol).forgotten, func(q *question) bool {
		return q.task.Attempt == 0 && q.stored.Sub(q.task.SubmittedAt) >= fresh
	}},
	{"flow", (*Protocol).flow, func(q *question) bool { return !q.valve.Always() }},
	{value.Window, (*Protocol).window, ruled(value.Window)},
	{"throttle", (*Protocol).throttle, func(q *question) bool { return q.claim.Rate.Since > 0 }},
	{"yield", (*Protocol).yield, func(q *question) bool { return q.spec().Place.Named() }},
	{"means", (*Protocol).means, nil},
	{"prefer", (*Protocol).prefer, func(q *question) bool {
		return q.spec().Place.Prefers() || q.spec().Retry.AvoidNode
	}},
	{value.PerNode, (*Protocol).perNode, ruled(value.PerNode)},
	{value.Breaker, (*Protocol).breaker, ruled(value.Breaker)},
}

// ruled tells which tasks have a rule of [job.Rules] that postpones them.
func ruled(name string) func(*question) bool {
	r, ok := job.Postpones(name)
	value.Assert(ok, "claim: no rule %s postpones tasks", name)
	return func(q *question) bool { return q.task.Spec != nil && r.Has(q.task.Spec) }
}

// asked is the answer of a rule of [job.Rules], by its inputs and what it has read. Of several
// times by which the task must start the first counts.
func (q *question) asked(by task.By, read duties.Read) (a answer, err error) {
	r, err := duties.Ask(q.task, by, read)
	if q.claim.Closes.IsZero() || !r.Closes.IsZero() && r.Closes.Before(q.claim.Closes) {
		q.claim.Closes = r.Closes
	}
	if r.Command != nil {
		a.command = task.Judged{Command: r.Command, By: r.By}
	}
	return a, err
}

// ask asks the rules. About a task that runs, whose lease may have ended, they decide only whether
// this node may have it.
func (p *Protocol) ask(ctx context.Context, q *question) (answer, error) {
	q.claim.Closes, q.memory = time.Time{}, duties.Ran{}
	for i := range rules {
		if of := rules[i].of; of != nil && !of(q) {
			continue
		}
		a, err := rules[i].ask(p, ctx, q)
		if q.task.Live() {
			a.command = nil
		}
		if err != nil || a != (answer{}) {
			return a, err
		}
	}
	return answer{}, nil
}

// throttle leaves a task to the rate of its queue: its claim puts it back, so no other rule must be
// asked.
func (p *Protocol) throttle(_ context.Context, q *question) (a answer, err error) {
	if q.task.Throttles(q.claim) {
		a.command = q.claim
	}
	return a, nil
}

// means passes on a task that this node cannot run.
func (p *Protocol) means(_ context.Context, q *question) (a answer, err error) {
	t := q.task
	if p.Runs == nil || p.Runs(t.Spec) {
		return a, nil
	}
	if t.Live() { // once an attempt whose lease expired counts as lost, the task can be passed on
		a.rest = restFor(q.deliveries)
	}
	if t.Live() || t.Turn != q.claim.After {
		return a, nil
	}
	if pass, ok := duties.PassesOn(t, string(p.Node)); ok {
		if p.Labels != nil {
			_, pass.Self.At = p.Labels()
		}
		a.command = pass
	}
	return a, nil
}

// yield gives an offer back a few times, in favour of the nodes that the task names before this
// one.
func (p *Protocol) yield(_ context.Context, q *question) (answer, error) {
	return answer{back: duties.Yields(q.task, string(p.Node), q.deliveries)}, nil
}

// restFor is how long an offer rests if this node can do nothing about it at present. Without the
// rest it would be redelivered at once, and its fifty deliveries would soon be used up.
func restFor(deliveries int) time.Duration {
	return min(20*time.Millisecond<<min(max(deliveries-1, 0), 7), 2*time.Second)
}
