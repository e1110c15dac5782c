package claim

import (
	"context"
	"fmt"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/limit"
	"millrace/task/value"
)

// breaker asks the breaker of a task's job whether the task may start here, perhaps as a trial. If it
// may not, the answer says what becomes of the task.
func (p *Protocol) breaker(ctx context.Context, q *question) (answer, error) {
	t := q.task
	if !q.waits() {
		return answer{}, nil
	}
	chance := 0.0
	if p.Chance != nil {
		chance = p.Chance()
	}
	var a limit.Admission
	var at time.Time
	ask := func(c limit.Circuit, now time.Time) events.Verdict {
		var by *task.By
		a, by = duties.Admits(t, c, now, chance)
		at = now
		return events.Verdict{Event: a.Event, By: by}
	}
	is, err := p.circuit(ctx, t.Job)
	if err == nil {
		ask(is, p.Recorder.Moment())
	}
	for err == nil && a.Event != nil {
		// The remembered state may be old: ask the log before anything is written.
		if is, _, err = p.Recorder.DoBreaker(ctx, t.Job, ask); err != nil {
			break
		}
		if a.Trial {
			return answer{}, nil
		}
		p.circuits.Put(t.Job, is, p.Recorder.Now())
	}
	if err != nil {
		return answer{}, fmt.Errorf("ask the breaker of job %s: %w", t.Job, err)
	}
	return q.asked(task.By{Rule: value.Breaker, At: at, Circuit: is.Head, Drawn: chance}, duties.Read{Circuit: is})
}

// circuit returns the state of a job's breaker. A task may start up to 250 ms after the breaker has
// opened: so long a read state counts.
func (p *Protocol) circuit(ctx context.Context, job string) (limit.Circuit, error) {
	now := p.Recorder.Now()
	if is, ok := p.circuits.Get(job, now); ok {
		return is, nil
	}
	is, err := p.Recorder.Circuit(ctx, job)
	if err == nil {
		p.circuits.Put(job, is, now)
	}
	return is, err
}
