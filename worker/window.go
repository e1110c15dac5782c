package worker

import (
	"context"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/schedule"
)

// shut is what becomes of a task whose window is closed; nil if it may start, until the window closes.
func (p *Protocol) shut(ctx context.Context, t *task.Task) (hold task.Command, closes time.Time, err error) {
	is, err := p.definitions.Get(ctx, p.Recorder, task.DefOf(task.DefCalendar, t.Spec.Window))
	if err != nil {
		return nil, closes, fmt.Errorf("ask the calendar %s: %w", t.Spec.Window, err)
	}
	at := p.Recorder.Moment()
	wait, closes := schedule.Window(t.Spec.Window, &is, at)
	if wait == nil {
		return nil, closes, nil
	}
	return task.Judged{Command: wait.Postpone(t.Turn), By: task.By{Rule: task.RuleWindow, At: at, Calendar: is.Revision}}, closes, nil
}
