package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"millrace/ipc"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

// Tasks runs the attempts of a worker as child processes.
type Tasks struct {
	Runner *child.Runner
	// Node is the node's name, given to the processes.
	Node string
	// Surroundings prepare files and keep artifacts. Without them, a task that needs either fails.
	Surroundings Surroundings
	// Shim is the command that runs [ShimMain], for tasks whose attempts outlive the worker, and
	// ShimGuard the one that runs [child.GuardMain]. Default: such attempts end with the worker.
	Shim, ShimGuard []string
	// Folder is where the output of those attempts waits for the next worker of the node. It is
	// made if necessary; no other user may write to it.
	Folder string
	// Work is where working directories are made. Their names are unpredictable, so others may
	// write to it as well. Default: the directory for temporary files.
	Work string
	// Messages is the laxest of [job.MessageRules] that a job can have here. Default
	// [job.MessagesOpen].
	Messages string
	// Runtimes are the programs that run images here, the preferred one first. Default: images fail.
	Runtimes []string
	// Program is the path of the millrace program, which processes are told. Default: none is.
	Program string

	// Programs runs tasks that name one. Default: such tasks fail.
	Programs *Programs

	dirs workdirs
}

var _ worker.Runner = (*Tasks)(nil)

// Close removes the working directories of ended attempts. No attempt may be running.
func (t *Tasks) Close() { t.dirs.close() }

func (t *Tasks) work() string { return cmp.Or(t.Work, os.TempDir()) }

// Run implements [worker.Runner].
func (t *Tasks) Run(ctx context.Context, a *worker.Attempt) worker.Outcome {
	began := time.Now()
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), worker.ErrLeft) {
			a.Output.Phase(task.PhaseStop)
		}
	})()
	if a.Left() != nil {
		return t.goOn(ctx, a)
	}
	run := a.Task.Spec.Run
	if run.Program != "" {
		if t.Programs == nil {
			return worker.Outcome{Class: value.System, Message: "this worker keeps no programs: let queues with run.program be served by `millrace worker`"}
		}
		return t.Programs.run(ctx, t, a)
	}
	system := func(format string, args ...any) worker.Outcome {
		return worker.Outcome{Class: value.System, Message: fmt.Sprintf(format, args...)}
	}
	as, err := accountOf(run)
	if err != nil {
		return system("%v", err)
	}
	surrounded := a.Task.Spec.Surrounded() || run.Image != ""
	if surrounded {
		a.Output.Phase(task.PhaseSetup)
	}
	place, err := t.place(ctx, a, as)
	if err != nil {
		o := worker.Outcome{Class: value.System, Message: err.Error(), Stopped: ctx.Err() != nil}
		if took := time.Since(began).Truncate(time.Millisecond); surrounded && took > 0 {
			o.Usage = &task.Usage{Setup: value.Duration(took)}
		}
		return o
	}
	if surrounded {
		a.Output.Phase(task.PhaseRun)
	}
	keeps := t.Keeps(&a.Task)
	if !keeps {
		defer func() { place.leave() }()
	}
	params, hidden, err := openParams(&a.Task, place.dir, as)
	var env, secrets []string
	if err == nil {
		env, secrets, err = t.environment(a, params, place.dir, as)
	}
	gate := t.gate(run)
	if gate.Key != "" {
		env, secrets = append(env, ipc.KeyVar+"="+gate.Key), append(secrets, gate.Key)
	}
	argv, shell := run.Argv, run.Shell
	if err == nil {
		var by []string
		if run.Image == "" {
			env = t.withProgram(env)
		}
		if env, by, err = t.handOver(env, &place, a, as); by != nil {
			argv, shell = by, ""
		}
	}
	c := child.Command{
		Argv: argv, Shell: shell, Dir: place.dir, Fresh: place.fresh != "" && !surrounded, Env: append(env, place.env...), OpenStdin: run.Stdin == job.StdinOpen, Messages: gate, Encoding: run.Encoding, Alone: len(run.Secrets) > 0 || len(hidden) > 0,
		Grace: a.Task.Spec.Timeout.Grace(), Limit: a.Grace, Resources: a.Task.Spec.Resources,
	}
	if as.other() {
		c.Credential = as.credential
	}
	if err == nil && run.Image != "" {
		err = t.contain(&c, a, &place, as)
	}
	if err != nil {
		if keeps {
			place.leave()
		}
		return system("%v", err)
	}
	secrets = append(secrets, hidden...)
	s := &session{tasks: t, attempt: a, out: a.Output, ctx: ctx, began: began, redact: newRedactor(secrets), params: params, foreign: replacing{encoding: run.Encoding}}
	c.Started = s.meet
	if keeps {
		return t.runKept(ctx, s, c, secrets, place)
	}
	r := t.Runner.Run(ctx, c, s)
	s.close()
	if r.Unread > 0 {
		a.Output.Line(output.System, fmt.Sprintf("%d messages to the process were dropped: it did not read its standard input", r.Unread))
	}
	return t.keep(ctx, a, place, s.outcome(&r))
}
