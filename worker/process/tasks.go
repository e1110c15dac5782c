package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"millrace/ipc"
	"millrace/task"
	"millrace/worker"
)

// Tasks runs the attempts of a worker as child processes.
type Tasks struct {
	Runner *Runner
	// Node is told to the processes.
	Node string

	dirs workdirs
}

var _ worker.Runner = (*Tasks)(nil)

// Close removes what the attempts have left behind. No attempt may be running.
func (t *Tasks) Close() { t.dirs.close() }

// Run implements [worker.Runner].
func (t *Tasks) Run(ctx context.Context, a *worker.Attempt) worker.Outcome {
	run := a.Task.Spec.Run
	dir := run.Dir
	if dir == "" {
		fresh, err := t.dirs.get()
		if err != nil {
			return worker.Outcome{Class: task.ReasonSystem, Message: fmt.Sprintf("no working directory: %v; free some space, or set TMPDIR of the worker", err)}
		}
		defer t.dirs.put(fresh)
		dir = fresh.path
	}
	s := &sink{out: a.Output}
	r := t.Runner.Run(ctx, Command{Argv: run.Argv, Shell: run.Shell, Dir: dir, Env: t.environment(a), OpenStdin: run.Stdin == task.StdinOpen, Grace: a.Task.Spec.Timeout.Grace(), Limit: a.Grace}, s)
	return s.outcome(&r)
}

// environment is the worker's own, then what the task is, then what its spec sets.
func (t *Tasks) environment(a *worker.Attempt) []string {
	own := os.Environ()
	env := make([]string, 0, len(own)+len(a.Task.Spec.Run.Env)+10)
	for _, e := range own {
		if !strings.HasPrefix(e, "MILLRACE_") { // settings and identity of the worker itself
			env = append(env, e)
		}
	}
	env = append(env,
		"MILLRACE_TASK="+string(a.Task.ID),
		"MILLRACE_ATTEMPT="+strconv.Itoa(a.Task.Attempt),
		"MILLRACE_EPOCH="+strconv.FormatUint(a.Task.Epoch, 10),
		"MILLRACE_NODE="+t.Node,
		"MILLRACE_QUEUE="+a.Task.Route.Queue(),
	)
	if a.Task.Job != "" {
		env = append(env, "MILLRACE_JOB="+a.Task.Job)
	}
	if !a.Deadline.IsZero() {
		env = append(env, "MILLRACE_DEADLINE="+a.Deadline.UTC().Format(time.RFC3339Nano))
	}
	if len(a.Task.Params) > 0 {
		env = append(env, "MILLRACE_PARAMS="+string(a.Task.Params))
	}
	if len(a.Task.Inputs) > 0 {
		env = append(env, "MILLRACE_NEEDS="+string(a.Task.Inputs))
	}
	for k, v := range a.Task.Spec.Run.Env {
		env = append(env, k+"="+v)
	}
	return env
}

// sink passes on what a process says.
type sink struct {
	out *worker.Output

	mu      sync.Mutex
	failure *ipc.Failure    // guarded by mu; the last ERROR
	result  json.RawMessage // guarded by mu; the last RESULT
	dropped error           // guarded by mu; records that were not taken
}

// Line implements [Sink].
func (s *sink) Line(stream Stream, line ipc.Line) {
	name := task.Stdout
	if stream == Stderr {
		name = task.Stderr
	}
	if line.Partial {
		s.out.Piece(name, string(line.Text))
		return
	}
	s.out.Line(name, string(line.Text))
}

// Message implements [Sink].
func (s *sink) Message(m ipc.Message) {
	switch m.Type {
	case ipc.TypeStatus:
		if st, err := m.Status(); err == nil {
			progress := -1.0
			if st.Progress != nil {
				progress = *st.Progress
			}
			s.out.Status(st.Message, progress)
		}
	case ipc.TypeError:
		if f, err := m.Failure(); err == nil {
			s.out.Line(task.Stderr, "ERROR "+f.Message)
			s.mu.Lock()
			s.failure = &f
			s.mu.Unlock()
		}
	case ipc.TypeInsertData:
		items, err := m.Records()
		if err == nil {
			err = s.out.Insert(items...)
		}
		if err != nil {
			s.mu.Lock()
			s.dropped = err
			s.mu.Unlock()
		}
	case ipc.TypeResult:
		s.mu.Lock()
		s.result = m.Payload
		s.mu.Unlock()
	}
}

// outcome joins how the process ended with what it said of itself.
func (s *sink) outcome(r *Result) worker.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := worker.Outcome{Class: r.Class, Exit: r.Exit, Message: r.Message, Result: s.result, Stopped: r.Stopped, Survivors: r.Survivors}
	if r.Usage != (task.Usage{}) {
		o.Usage = &r.Usage
	}
	if s.dropped != nil && o.Class == "" {
		o.Class, o.Message = task.ReasonSystem, s.dropped.Error()
	}
	if s.failure != nil && o.Class != "" && !o.Stopped {
		if s.failure.Message != "" {
			o.Message = s.failure.Message
		}
		if slices.Contains(task.Classes, s.failure.Class) {
			o.Class = s.failure.Class
		} else {
			o.Class = task.ReasonTask
		}
		o.Final = s.failure.Retryable != nil && !*s.failure.Retryable
		o.RetryAfter = retryAfter(s.failure)
	}
	return o
}
