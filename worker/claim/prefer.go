package claim

import (
	"context"
	"time"

	"millrace/task"
	"millrace/task/choice"
	"millrace/task/job"
)

// Preferring supplies the facts that [choice.HandsOver] needs. It is asked only about tasks that
// prefer nodes, or that avoid this one; if it cannot answer, the task starts here.
type Preferring struct {
	// Peers returns the other nodes that send heartbeats and take new work of the task's kind; if
	// only is not "", at most the node of that name.
	Peers func(ctx context.Context, t *task.Task, only string) []choice.Peer
	// Ran and Remember are those of [worker.Outputs].
	Ran      func(ctx context.Context, name string) (choice.Ran, error)
	Remember func(ctx context.Context, r choice.Ran) error
}

// rememberAgain is after how long an unchanged memory is written again, so that it does not expire
// while it is used.
const rememberAgain = 24 * time.Hour

// handOver leaves a task to a better node.
func (p *Protocol) handOver(ctx context.Context, q *question) (a answer, err error) {
	hand, memory, better := p.handsOver(ctx, q.task)
	if q.memory = memory; better && q.task.Turn == q.claim.After {
		a.command = hand
	}
	return a, nil
}

// handsOver tells whether the task is left to another node, and to which. memory is what must be
// remembered if it starts here instead; its name is "" for nothing.
func (p *Protocol) handsOver(ctx context.Context, t *task.Task) (hand task.HandOver, memory choice.Ran, ok bool) {
	shuns := choice.Shuns(t, string(p.Node))
	if p.Preferring.Peers == nil {
		return hand, memory, false
	}
	ran := ""
	if name, err := t.StickyName(); err == nil && name != "" {
		now := p.Recorder.Now()
		was, err := p.Preferring.Ran(ctx, name)
		if ran = was.Node; err != nil || ran != string(p.Node) || now.Sub(was.At) > rememberAgain {
			memory = choice.Ran{Name: name, Node: string(p.Node), At: now}
		}
	}
	if t.Handed != nil || t.State != task.Pending {
		return hand, memory, false
	}
	only := ""
	if len(t.Spec.Place.Prefer) == 0 && !shuns { // then no other node counts
		if only = ran; t.Spec.Place.Sticky == job.StickyAttempt {
			only = t.Node
		}
		if only == "" || only == string(p.Node) {
			return hand, memory, false
		}
	}
	self := choice.Peer{Node: string(p.Node)}
	if p.Labels != nil {
		self.Labels, self.At = p.Labels()
	}
	hand, ok = choice.HandsOver(t, self, p.Preferring.Peers(ctx, t, only), ran)
	return hand, memory, ok
}
