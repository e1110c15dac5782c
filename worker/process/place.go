package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"millrace/ipc"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

// Surroundings prepare the files around an attempt's process, and keep its artifacts. Package
// filecache implements them with a cache.
type Surroundings interface {
	// Prepare puts the files of a task into an empty directory, as its spec says. The files are at
	// the returned path until leave is called. setup runs the task's setup commands in a directory;
	// Prepare decides whether that is necessary. An error is meant for people; the attempt then
	// fails, and none of its commands run.
	Prepare(ctx context.Context, a *worker.Attempt, dir string, setup func(ctx context.Context, dir string) error) (files string, leave func(), err error)
	// Keep stores the artifacts of an attempt that ran in a directory. It opens files within as,
	// which gives the calling goroutine the rights of the task's user, and neither shows nor stores
	// a name or text that clean would change. An error made by [worker.Final] means that another
	// attempt would fail as well.
	Keep(ctx context.Context, a *worker.Attempt, dir string, as func(do func() error) error, clean func(string) string) error
}

// place is where an attempt runs.
type place struct {
	dir   string
	fresh string // the directory made for it; "" if none was
	base  string // what a container sees of that
	extra string // a directory for more of Millrace's files, if one was made
	env   []string
	leave func()
}

// place prepares the directory of an attempt. as is the user that it runs as, nil for the worker's
// own.
func (t *Tasks) place(ctx context.Context, a *worker.Attempt, as *account) (place, error) {
	spec := a.Task.Spec
	p := place{dir: spec.Run.Dir, leave: func() {}}
	image := spec.Run.Image != ""
	if p.dir != "" && !spec.Surrounded() && !image {
		return p, nil
	}
	get, put, give := t.dirs.get, t.dirs.put, t.dirs.give
	if t.Keeps(&a.Task) {
		get, put, give = keptDir, removeDir, giveDir
	}
	fresh, err := get(t.work())
	if err != nil {
		return p, fmt.Errorf("no working directory: %w; free some space, or set TMPDIR of the worker", err)
	}
	p.fresh, p.base, p.leave = cmp.Or(fresh.whole, fresh.path), fresh.path, func() { put(fresh) }
	if image && fresh.whole == "" { // its users are not the node's, so all may write there, and none pass the parent
		p.base = filepath.Join(fresh.path, "work")
		if err := os.Mkdir(p.base, 0o700); err != nil {
			p.leave()
			return p, fmt.Errorf("no working directory: %w; free some space, or set TMPDIR of the worker", err)
		}
	}
	switch {
	case !filepath.IsAbs(p.dir):
		p.dir = filepath.Join(p.base, p.dir)
	case image: // that is one of the image
		p.dir = p.base
	}
	if image {
		if err := t.fetch(ctx, a); err != nil {
			p.leave()
			return p, err
		}
	}
	if spec.Surrounded() {
		if err := t.surround(ctx, a, as, p.base, &p); err != nil {
			p.leave()
			return p, err
		}
	}
	if as.other() { // last: until then the user cannot interfere with what is written there
		if err := errors.Join(ownAll(fresh.path, as.uid, as.gid), give(fresh, as.uid, as.gid)); err != nil {
			p.leave()
			return p, fmt.Errorf("the working directory cannot be given to user %s: %w", as.name, err)
		}
	}
	return p, nil
}

// surround puts the files of an attempt into its fresh directory.
func (t *Tasks) surround(ctx context.Context, a *worker.Attempt, as *account, fresh string, p *place) error {
	if t.Surroundings == nil {
		return errors.New("this worker has no cache of files: let queues with files be served by `millrace worker`")
	}
	files, leave, err := t.Surroundings.Prepare(ctx, a, fresh, func(ctx context.Context, dir string) error { return t.setupAs(ctx, a, as, dir) })
	if err != nil {
		return err
	}
	p.env = []string{"MILLRACE_FILES=" + files}
	put := p.leave
	p.leave = func() {
		put()
		leave()
	}
	return nil
}

// stopPatience bounds how long the artifacts of an attempt that ran too long may take: the
// scheduler declares it lost soon after its deadline and grace.
const stopPatience = 3 * time.Second

// keep stores the artifacts of an attempt, if they are wanted after such an end.
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
	err := t.keepArtifacts(ctx, a, p.dir)
	switch {
	case err == nil:
	case success:
		o.Class, o.Message, o.Result = value.System, "artifacts: "+err.Error(), nil
		o.Final, o.Stopped = worker.IsFinal(err), ctx.Err() != nil
	default: // its own failure is what counts
		a.Output.Line(output.System, "artifacts: "+err.Error())
	}
	return o
}

func (t *Tasks) keepArtifacts(ctx context.Context, a *worker.Attempt, dir string) error {
	if t.Surroundings == nil {
		return errors.New("this worker has no cache of files: let queues with artifacts be served by `millrace worker`")
	}
	run := a.Task.Spec.Run
	as, err := accountOf(run)
	if err != nil {
		return err
	}
	redact := newRedactor(knownSecrets(&a.Task, dir, as))
	if err = t.Surroundings.Keep(ctx, a, dir, as.act, redact.line); err == nil {
		return nil
	}
	clean := errors.New(redact.line(err.Error()))
	if worker.IsFinal(err) {
		return worker.Final(clean)
	}
	return clean
}

// setupAs runs the lines of a task's setup as the user of the task, who owns the directory
// meanwhile.
func (t *Tasks) setupAs(ctx context.Context, a *worker.Attempt, as *account, dir string) error {
	if !as.other() {
		return t.setup(ctx, a, as, dir)
	}
	err := errors.Join(ownAll(dir, as.uid, as.gid), os.Chown(dir, as.uid, as.gid))
	if err != nil {
		return fmt.Errorf("setup: the directory cannot be given to user %s: %w", as.name, err)
	}
	if d, err := as.open(dir); err != nil {
		return fmt.Errorf("setup cannot run as %s: %w: choose with --files-cache of the worker a folder that others may pass through, such as one below /var/cache", as.name, err)
	} else {
		d.Close()
	}
	err = t.setup(ctx, a, as, dir)
	if back := reclaim(dir); err == nil && back != nil {
		err = fmt.Errorf("setup: %w", back)
	}
	return err
}

// setup runs the lines of a task's setup one after the other.
func (t *Tasks) setup(ctx context.Context, a *worker.Attempt, as *account, dir string) error {
	spec := a.Task.Spec
	limit := spec.Timeout.Setup.Std()
	if limit == 0 {
		limit = job.DefaultSetup
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSetupTimeout)
	defer cancel()
	env := append(slices.Clip(child.WorkersOwn()), as.variables()...)
	env = append(env, "MILLRACE_NODE="+t.Node, "MILLRACE_FILES="+dir, "MILLRACE_SETUP=1")
	env = t.withProgram(env)
	sink := &setupSink{out: a.Output, redact: newRedactor(knownSecrets(&a.Task, dir, as)), replacing: replacing{encoding: spec.Run.Encoding}}
	for _, line := range spec.Setup {
		a.Output.Line(output.Setup, "+ "+line)
		c := child.Command{Shell: line, Dir: dir, Env: env, Messages: ipc.Gate{Keyless: ipc.KeylessOff}, Encoding: spec.Run.Encoding, Grace: spec.Timeout.Grace(), Limit: a.Grace}
		if as.other() {
			c.Credential = as.credential
		}
		r := t.Runner.Run(ctx, c, sink)
		switch {
		case errors.Is(context.Cause(ctx), errSetupTimeout):
			return fmt.Errorf("setup took longer than timeout.setup, which is %v, and was stopped at %q: see the lines of stream setup in its log; the next attempt begins it anew", limit, line)
		case r.Stopped:
			return fmt.Errorf("setup was stopped: %w", context.Cause(ctx))
		case r.Class != "":
			return fmt.Errorf("setup failed at %q: %s; the lines of stream setup in its log say more, and the next attempt begins it anew", line, child.WithLastLine(r.Message, a.Output.LastLine(output.Setup)))
		}
	}
	return nil
}

var errSetupTimeout = errors.New("setup ran longer than timeout.setup allows")

// setupSink puts the output of setup commands into the task's log.
type setupSink struct {
	out    *worker.Output
	redact *redactor
	replacing
}

func (s *setupSink) Line(_ child.Stream, line ipc.Line) {
	if line.Replaced && s.first() {
		s.out.Line(output.System, s.words())
	}
	hand(s.out, output.Setup, s.redact.lines(line))
}

// Message and Withheld implement [child.Sink]; all output of setup is text.
func (s *setupSink) Message(ipc.Message) {}
func (s *setupSink) Withheld(string)     {}
