package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
)

// horizonFor is how long a worker relies on what it has read of the horizon. A server removes nothing
// in less than twice that after it has chosen a horizon ([scheduler.Settle]). So whoever claims a task
// unread, within that time, knows of a horizon that makes its chain vanish.
const horizonFor = time.Second

// horizon is that of the log, as it was read last.
type horizon struct {
	mu sync.Mutex
	is task.Horizon // guarded by mu
	at time.Time    // guarded by mu; before it was read
}

func (h *horizon) read(ctx context.Context, rec *events.Recorder) (task.Horizon, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := rec.Now()
	if age := now.Sub(h.at); age >= 0 && age < horizonFor {
		return h.is, nil
	}
	is, err := rec.Horizon(ctx)
	if err == nil {
		h.is, h.at = is, now
	}
	return is, err
}

// forgotten ends a task that the log has forgotten, and whose birth was put into the log again.
func (p *Protocol) forgotten(ctx context.Context, q *question) (a answer, err error) {
	if !q.waits() {
		return a, nil
	}
	h, err := p.horizon.read(ctx, p.Recorder)
	if err != nil || !h.Older(q.task.SubmittedAt) {
		return a, err
	}
	records, err := p.Recorder.Log.Task(ctx, q.task.ID)
	if err != nil {
		return a, fmt.Errorf("read the birth of task %s: %w", q.task.ID, err)
	}
	if b, ok := events.BirthOf(records); ok && h.Forgot(b.Fact.At, b.Seq, b.Stored) {
		detail := "its birth is of " + b.Fact.At.UTC().Format(time.RFC3339) + " and came again later, when the log may have forgotten the task"
		a.command = task.Judged{Command: task.Expire{Detail: detail}, By: task.By{Rule: task.RuleHorizon, Seen: h.Head}}
	}
	return a, nil
}
