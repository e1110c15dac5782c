package claim

import (
	"context"
	"time"

	"millrace/task"
	"millrace/task/limit"
)

// question is what the rules are asked about: may this node start the task of an offer?
type question struct {
	task  *task.Task
	claim task.Claim // as far as it goes; a rule may add to it what the claim has to hold
	// deliveries is how often the offer was handed out.
	deliveries int
	// window is that of the queue from which the offer came; "" for none.
	window string
	// memory is what is to be remembered of where the task starts, if it does.
	memory task.Ran
	// taken are the places that the claim has taken on this node.
	taken []limit.Counter
}

// waits tells whether the task waits under the offer; else the offer is stale, or the lease of an attempt.
func (q *question) waits() bool { return q.task.Turn == q.claim.After && q.task.Waiting() }

// answer is what becomes of an offer. The zero value leaves that to the next rule.
type answer struct {
	command task.Command  // is asked for
	back    bool          // the offer goes back at once, for somebody else
	rest    time.Duration // it goes back, and rests for so long
}

// rules are asked in this order when an offer is accepted; the first that has an answer decides, and if none has, the
// task is claimed. Each stands in a file of its own; what it says is a pure function of package task or below it.
var rules = []func(*Protocol, context.Context, *question) (answer, error){
	(*Protocol).flow,
	(*Protocol).window,
	(*Protocol).throttle,
	(*Protocol).yield,
	(*Protocol).means,
	(*Protocol).handOver,
	(*Protocol).perNode,
	(*Protocol).breaker,
}

// ask asks the rules. Of a task that runs, whose lease may have ended, they say only whether this node may have it.
func (p *Protocol) ask(ctx context.Context, q *question) (answer, error) {
	for _, rule := range rules {
		a, err := rule(p, ctx, q)
		if q.task.Live() {
			a.command = nil
		}
		if err != nil || a != (answer{}) {
			return a, err
		}
	}
	return answer{}, nil
}

// throttle leaves a task to the rate of its queue: its claim puts it back, so no other rule has to be asked.
func (p *Protocol) throttle(_ context.Context, q *question) (a answer, err error) {
	if q.task.Throttles(q.claim) {
		a.command = q.claim
	}
	return a, nil
}

// means passes a task on that this node is unable to run.
func (p *Protocol) means(_ context.Context, q *question) (a answer, err error) {
	t := q.task
	if p.Runs == nil || p.Runs(t.Spec) {
		return a, nil
	}
	if t.Live() { // once an attempt whose lease ran out counts as lost, the task can be passed on
		a.rest = restFor(q.deliveries)
	}
	if t.Live() || t.Turn != q.claim.After {
		return a, nil
	}
	if pass, ok := t.PassesOn(string(p.Node)); ok {
		if p.Labels != nil {
			_, pass.Self.At = p.Labels()
		}
		a.command = pass
	}
	return a, nil
}

// yield gives an offer back for the sake of the nodes that the task names before this one.
func (p *Protocol) yield(_ context.Context, q *question) (answer, error) {
	return answer{back: q.task.Yields(string(p.Node), q.deliveries)}, nil
}

// restFor is how long an offer rests that this node cannot do anything about at present, so that it does
// not go round as fast as messages travel and of its fifty deliveries enough are left.
func restFor(deliveries int) time.Duration {
	return min(20*time.Millisecond<<min(max(deliveries-1, 0), 7), 2*time.Second)
}
