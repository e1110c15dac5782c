package process

import (
	"context"
	"fmt"
	"time"

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
	began := time.Now()
	run := a.Task.Spec.Run
	system := func(format string, args ...any) worker.Outcome {
		return worker.Outcome{Class: task.ReasonSystem, Message: fmt.Sprintf(format, args...)}
	}
	var as *account
	if run.User != "" {
		var err error
		if as, err = lookUser(run.User); err != nil {
			return system("%v", err)
		}
	}
	dir := run.Dir
	if dir == "" {
		fresh, err := t.dirs.get()
		if err != nil {
			return system("no working directory: %v; free some space, or set TMPDIR of the worker", err)
		}
		defer t.dirs.put(fresh)
		if dir = fresh.path; as != nil && as.credential != nil {
			if err := t.dirs.give(fresh, as.uid, as.gid); err != nil {
				return system("the working directory cannot be given to user %s: %v", as.name, err)
			}
		}
	}
	env, secrets, err := t.environment(a, dir, as)
	if err != nil {
		return system("%v", err)
	}
	s := &session{tasks: t, attempt: a, out: a.Output, ctx: ctx, began: began, redact: newRedactor(secrets)}
	c := Command{
		Argv: run.Argv, Shell: run.Shell, Dir: dir, Env: env, OpenStdin: run.Stdin == task.StdinOpen,
		Grace: a.Task.Spec.Timeout.Grace(), Limit: a.Grace, Started: s.meet, Resources: a.Task.Spec.Resources,
	}
	if as != nil {
		c.credential = as.credential
	}
	r := t.Runner.Run(ctx, c, s)
	s.close()
	if r.Unread > 0 {
		a.Output.Line(task.System, fmt.Sprintf("%d messages to the process were dropped: it did not read its standard input", r.Unread))
	}
	return s.outcome(&r)
}
