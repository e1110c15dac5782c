package worker

import (
	"context"
	"fmt"

	"millrace/task"
	"millrace/task/schedule"
)

// shut is what becomes of a task whose window is closed; nil if it may start.
func (p *Protocol) shut(ctx context.Context, t *task.Task) (task.Command, error) {
	is, err := p.definitions.Get(ctx, p.Recorder, task.DefOf(task.DefCalendar, t.Spec.Window))
	if err != nil {
		return nil, fmt.Errorf("ask the calendar %s: %w", t.Spec.Window, err)
	}
	at := p.Recorder.Moment()
	wait := schedule.Window(t.Spec.Window, &is, at)
	if wait == nil {
		return nil, nil
	}
	return task.Judged{Command: wait.Postpone(t.Turn), By: task.By{Rule: task.RuleWindow, At: at, Calendar: is.Revision}}, nil
}
