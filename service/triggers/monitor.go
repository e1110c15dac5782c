package triggers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/events/jet/definitions"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
	"millrace/worker"
)

// Monitors ends the runs of monitors: its [Monitors.Run] is the runner of their handler.
type Monitors struct {
	// Client reads the schedules of monitors, and cancels the silent runs of those that are paused or gone.
	Client *client.Client
}

// Run implements [worker.Runner].
func (m *Monitors) Run(ctx context.Context, a *worker.Attempt) worker.Outcome {
	v := schedule.Judge(&a.Task, a.Now())
	if v.Park != nil {
		return worker.Outcome{Class: value.Task, Park: v.Park, First: a.Task.Durable.Done()}
	}
	for line := range strings.Lines(v.Lines) {
		a.Output.Line("stdout", strings.TrimRight(line, "\r\n"))
	}
	if v.Class == value.Silent {
		if why, err := m.unwatched(ctx, a.Task.Schedule); err != nil {
			return worker.Outcome{Class: value.System, Message: err.Error(), RetryAfter: time.Second}
		} else if why != "" {
			if _, err := m.Client.Cancel(ctx, a.Task.ID, why); err != nil && !errors.Is(err, task.ErrEnded) {
				return worker.Outcome{Class: value.System, Message: err.Error(), RetryAfter: time.Second}
			}
			<-ctx.Done() // the cancel comes here, too
			return worker.Outcome{Stopped: true}
		}
	}
	is := worker.Outcome{Class: v.Class, Exit: v.Exit, Message: v.Message, Final: true}
	if v.Class == "" && v.Took > 0 {
		is.Result = value.Must(json.Marshal(map[string]value.Duration{"took": value.Duration(v.Took)}))
	}
	return is
}

// unwatched says why nobody expects a ping any more; "" if somebody does.
func (m *Monitors) unwatched(ctx context.Context, name string) (why string, err error) {
	switch is, err := m.Client.Schedule(ctx, name); {
	case errors.Is(err, definitions.ErrNoSchedule):
		return "the monitor is gone", nil
	case err != nil:
		return "", fmt.Errorf("schedule %s: %w", name, err)
	case is.Paused != nil:
		return "the monitor is paused", nil
	}
	return "", nil
}
