package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
)

// horizon is that of the log, as it was read last.
type horizon struct {
	mu sync.Mutex
	is task.Horizon // guarded by mu
	at time.Time    // guarded by mu; before it was read
}

// read returns the horizon as of a time.
func (h *horizon) read(ctx context.Context, rec *events.Recorder) (is task.Horizon, at time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := rec.Now()
	if age := now.Sub(h.at); age >= 0 && age < task.HorizonFor {
		return h.is, h.at, nil
	}
	if is, err = rec.Horizon(ctx); err == nil {
		h.is, h.at = is, now
	}
	return is, now, err
}

// outlived tells whether the horizon may have moved beyond a task that was claimed unread, since it
// was read at a time.
func (p *Protocol) outlived(at time.Time) bool {
	lease := time.Duration(0)
	if p.Accounts != nil {
		lease = p.Accounts.Lease
	}
	return !at.IsZero() && p.Recorder.Now().Sub(at) > task.HorizonFor+lease
}

// forgotten ends a task that the log has forgotten, and whose birth was put into the log again.
func (p *Protocol) forgotten(ctx context.Context, q *question) (a answer, err error) {
	if !q.waits() {
		return a, nil
	}
	h, _, err := p.horizon.read(ctx, p.Recorder)
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
