package process

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/ipc"
	"millrace/task"
	"millrace/worker"
)

// Surroundings ready what an attempt finds around its process, and keep what it leaves.
// Package filecache has those that take files from a cache.
type Surroundings interface {
	// Prepare puts the files of a task into an empty directory, as its spec says. The files are
	// then where the answer says, until leave is called. Setup runs the task's setup
	// commands in a directory; Prepare decides whether that is necessary. The error is meant for
	// people; the attempt then fails, and nothing of it is run.
	Prepare(ctx context.Context, a *worker.Attempt, dir string, setup func(ctx context.Context, dir string) error) (files string, leave func(), err error)
	// Keep stores the artifacts of an attempt that ran in a directory. An error that
	// [worker.Final] made says that another attempt would fare no better.
	Keep(ctx context.Context, a *worker.Attempt, dir string) error
}

// place is where an attempt runs.
type place struct {
	dir   string
	fresh string // the directory made for it; "" if there is none
	env   []string
	leave func()
}

// place readies the directory of an attempt, for the user as whom it runs, nil for the worker's own.
func (t *Tasks) place(ctx context.Context, a *worker.Attempt, as *account) (place, error) {
	spec := a.Task.Spec
	p := place{dir: spec.Run.Dir, leave: func() {}}
	if p.dir != "" && !spec.Surrounded() {
		return p, nil
	}
	get, put, give := t.dirs.get, t.dirs.put, t.dirs.give
	if t.Keeps(&a.Task) {
		get, put, give = keptDir, removeDir, giveDir
	}
	fresh, err := get()
	if err != nil {
		return p, fmt.Errorf("no working directory: %w; free some space, or set TMPDIR of the worker", err)
	}
	p.fresh, p.leave = fresh.path, func() { put(fresh) }
	if as != nil && as.credential != nil {
		if err := give(fresh, as.uid, as.gid); err != nil {
			p.leave()
			return p, fmt.Errorf("the working directory cannot be given to user %s: %w", as.name, err)
		}
	}
	if !filepath.IsAbs(p.dir) {
		p.dir = filepath.Join(fresh.path, p.dir)
	}
	if !spec.Surrounded() {
		return p, nil
	}
	if t.Surroundings == nil {
		p.leave()
		return p, errors.New("this worker has no cache of files: let queues with files be served by `millrace worker`")
	}
	files, leave, err := t.Surroundings.Prepare(ctx, a, fresh.path, func(ctx context.Context, dir string) error { return t.setup(ctx, a, dir) })
	if err != nil {
		p.leave()
		return p, err
	}
	p.env = []string{"MILLRACE_FILES=" + files}
	p.leave = func() {
		put(fresh)
		leave()
	}
	return p, nil
}

// stopPatience is how long artifacts of an attempt that ran too long may take: the scheduler
// gives it up soon after its deadline and grace.
const stopPatience = 3 * time.Second

// keep stores the artifacts of an attempt, if its end is one after which they are wanted.
func (t *Tasks) keep(ctx context.Context, a *worker.Attempt, p place, o worker.Outcome) worker.Outcome {
	wanted := a.Task.Spec.Artifacts
	success := o.Class == "" && !o.Stopped
	if !wanted.Wanted(success) {
		return o
	}
	if o.Stopped {
		cause := context.Cause(ctx)
		if !errors.Is(cause, worker.ErrTimeout) && !errors.Is(cause, worker.ErrIdle) {
			return o // it was cancelled, or runs again elsewhere
		}
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		ctx = short
	}
	err := errors.New("this worker has no cache of files: let queues with artifacts be served by `millrace worker`")
	if t.Surroundings != nil {
		err = t.Surroundings.Keep(ctx, a, p.dir)
	}
	switch {
	case err == nil:
	case success:
		o.Class, o.Message, o.Result = task.ReasonSystem, "artifacts: "+err.Error(), nil
		o.Final, o.Stopped = worker.IsFinal(err), ctx.Err() != nil
	default: // its own failure is what counts
		a.Output.Line(task.System, "artifacts: "+err.Error())
	}
	return o
}

// setup runs the lines of a task's setup one after the other.
func (t *Tasks) setup(ctx context.Context, a *worker.Attempt, dir string) error {
	spec := a.Task.Spec
	limit := spec.Timeout.Setup.Std()
	if limit == 0 {
		limit = task.DefaultSetup
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSetupTimeout)
	defer cancel()
	env := append(slices.Clip(workersOwn()), "MILLRACE_NODE="+t.Node, "MILLRACE_FILES="+dir, "MILLRACE_SETUP=1")
	for _, line := range spec.Setup {
		a.Output.Line(task.Setup, "+ "+line)
		r := t.Runner.Run(ctx, Command{Shell: line, Dir: dir, Env: env, Grace: spec.Timeout.Grace(), Limit: a.Grace}, setupSink{a.Output})
		switch {
		case errors.Is(context.Cause(ctx), errSetupTimeout):
			return fmt.Errorf("setup took longer than timeout.setup, which is %v, and was stopped at %q: see the lines of stream setup in its log; the next attempt begins it anew", limit, line)
		case r.Stopped:
			return fmt.Errorf("setup was stopped: %w", context.Cause(ctx))
		case r.Class != "":
			return fmt.Errorf("setup failed at %q: %s: see the lines of stream setup in its log; the next attempt begins it anew", line, strings.TrimSuffix(r.Message, ": see its last output"))
		}
	}
	return nil
}

var errSetupTimeout = errors.New("setup ran longer than timeout.setup allows")

// setupSink puts what setup commands print into the task's log. What looks like a message is a line.
type setupSink struct{ out *worker.Output }

func (s setupSink) Line(_ Stream, line ipc.Line) { hand(s.out, task.Setup, line) }

func (s setupSink) Message(m ipc.Message) { s.out.Line(task.Setup, m.Type+" "+string(m.Payload)) }
