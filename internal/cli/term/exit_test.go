package term

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/task"
	"millrace/task/value"
)

func TestFaultOf(t *testing.T) {
	if f := FaultOf(nil); f != nil {
		t.Errorf("no error is fault %v", f)
	}
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"any":             {errors.New("odd"), ExitError},
		"no task":         {fmt.Errorf("task x: %w", task.ErrUnknown), ExitNotFound},
		"no job":          {fmt.Errorf("submit: %w", definitions.ErrNoJob), ExitNotFound},
		"changed":         {fmt.Errorf("store job x: %w", definitions.ErrChanged), ExitRefused},
		"overtaken":       {fmt.Errorf("store job x: %w", &value.Overtaken{Seen: 1, Is: 2}), ExitRefused},
		"long":            {fmt.Errorf("store job x: %w", task.ErrLongDefinition), ExitUsage},
		"ended":           {fmt.Errorf("cancel: %w", task.ErrEnded), ExitRefused},
		"not ended":       {fmt.Errorf("retry: %w", task.ErrRunning), ExitRefused},
		"no service":      {fmt.Errorf("%w (x)", jet.ErrNoService), ExitNoServer},
		"no answer":       {fmt.Errorf("ask: %w", context.DeadlineExceeded), ExitNoServer},
		"interrupted":     {fmt.Errorf("wait: %w", context.Canceled), ExitInterrupted},
		"service: seen":   {&jet.ServiceError{Code: "412", Message: "changed"}, ExitRefused},
		"service: wrong":  {&jet.ServiceError{Code: "400", Message: "cursor"}, ExitUsage},
		"service: none":   {&jet.ServiceError{Code: "404"}, ExitNotFound},
		"service: no":     {&jet.ServiceError{Code: "409"}, ExitRefused},
		"service: broken": {&jet.ServiceError{Code: "500"}, ExitError},
		"a fault itself":  {fmt.Errorf("x: %w", &Fault{Code: 42}), 42},
	} {
		if f := FaultOf(c.err); f.Code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, f.Code, c.code)
		}
	}
}

func TestTaskExit(t *testing.T) {
	code := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		t    task.Task
		want int
	}{
		"finished":        {task.Task{State: task.Finished, Exit: code(0)}, 0},
		"exit":            {task.Task{State: task.Error, Reason: value.Exit, Exit: code(7)}, 7},
		"timeout":         {task.Task{State: task.Error, Reason: value.Timeout, Exit: code(7)}, 124},
		"killed":          {task.Task{State: task.Error, Reason: value.Killed, Usage: &task.Usage{Signal: "SIGKILL"}}, 137},
		"a fault":         {task.Task{State: task.Error, Reason: value.Killed, Usage: &task.Usage{Signal: "SIGSEGV"}}, 139},
		"killed, unknown": {task.Task{State: task.Error, Reason: value.Killed}, 1},
		"no program":      {task.Task{State: task.Error, Reason: value.System, Exit: code(127)}, 127},
		"said an error":   {task.Task{State: task.Error, Reason: value.Task, Exit: code(0)}, 1},
		"not of this os":  {task.Task{State: task.Error, Reason: value.Exit, Exit: code(70000)}, 1},
		"never started":   {task.Task{State: task.Abnormal, Reason: value.Expired}, 125},
		"cancelled":       {task.Task{State: task.Cancelled}, 130},
		"cancelled, exit": {task.Task{State: task.Cancelled, Exit: code(143)}, 130},
	} {
		if got := ExitOfTask(c.t); got != c.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c.want)
		}
	}
}
