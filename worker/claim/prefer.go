package claim

import (
	"context"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
)

// Preferring supplies the facts that [duties.HandsOver] needs. It is asked only about tasks that
// prefer nodes, or that avoid this one; if it cannot answer, the task starts here.
type Preferring struct {
	// Peers returns the other nodes that send heartbeats and take new work of the task's kind; if
	// only is not "", at most the node of that name.
	Peers func(ctx context.Context, t *task.Task, only string) []duties.Peer
	// Ran and Remember are those of [worker.Outputs].
	Ran      func(ctx context.Context, name string) (duties.Ran, error)
	Remember func(ctx context.Context, r duties.Ran) error
}

// rememberAgain is after how long an unchanged memory is written again, so that it does not expire
// while it is used.
const rememberAgain = 24 * time.Hour

// prefer leaves a task to a better node. If the task is to start here, it says what must be
// remembered about that.
func (p *Protocol) prefer(ctx context.Context, q *question) (a answer, err error) {
	t, node := q.task, string(p.Node)
	if p.Preferring.Peers == nil {
		return a, nil
	}
	ran := ""
	if name, err := t.StickyName(); err == nil && name != "" {
		now := p.Recorder.Now()
		was, err := p.Preferring.Ran(ctx, name)
		if ran = was.Node; err != nil || ran != node || now.Sub(was.At) > rememberAgain {
			q.memory = duties.Ran{Name: name, Node: node, At: now}
		}
	}
	if t.Handed != nil || t.State != task.Pending {
		return a, nil
	}
	only := ""
	if len(t.Spec.Place.Prefer) == 0 && !duties.Shuns(t, node) { // then no other node counts
		if only = ran; t.Spec.Place.Sticky == job.StickyAttempt {
			only = t.Node
		}
		if only == "" || only == node {
			return a, nil
		}
	}
	self := duties.Peer{Node: node}
	if p.Labels != nil {
		self.Labels, self.At = p.Labels()
	}
	if hand, better := duties.HandsOver(t, self, p.Preferring.Peers(ctx, t, only), ran); better && t.Turn == q.claim.After {
		a.command = hand
	}
	return a, nil
}
