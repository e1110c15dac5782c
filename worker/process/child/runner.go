package child

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"millrace/task/value"
)

// MarkerVar is the variable of the environment by which the guard knows the
// processes of a worker. Its value is unique to the [Runner].
const MarkerVar = "MILLRACE_WORKER"

// RunVar is the variable of the environment that links a process that has left its task's group to
// its run.
const RunVar = "MILLRACE_RUN"

// Config is what a [Runner] needs. The zero value runs without a guard.
type Config struct {
	// Guard is the command that runs [GuardMain]: this program, and the argument that leads there.
	// Empty: no guard, so what children have started survives a killed worker.
	Guard []string
	// Orphans makes this program a subreaper, the parent of all orphans among its descendants:
	// daemons that a task has started are then found and ended with it, and their zombies reaped.
	// Only for a program that starts processes through this Runner alone, and has only one. Without
	// it, such daemons live as long as the worker.
	Orphans bool
	// Groups lets runs with bounds have control groups, where the machine allows it: this program
	// then moves into a group of its own.
	Groups bool
	// Elevate lets processes start programs that give them more rights than they have: sudo and
	// anything else with a setuid or setgid bit, or with capabilities. Default: such a program
	// starts without them, as after prctl PR_SET_NO_NEW_PRIVS.
	Elevate bool
	// Confine is what else processes lose.
	Confine Confinement
	// Log receives messages about the guard and about processes that cannot be ended. Default:
	// none.
	Log *slog.Logger
}

// Runner runs processes, any number concurrently. It holds up to four operating system threads, for
// the kernel ties the children's lives to the thread that started them, one more for each process
// that is alone ([Command.Alone]), and one guard process.
type Runner struct {
	log     *slog.Logger
	marker  string
	spawner *spawner
	guard   *watch        // nil without a guard
	orphans *orphans      // nil if orphans are not looked after
	groups  *cgroups      // nil without control groups
	noGroup string        // why there are none
	bounded atomic.Uint64 // runs with control groups, so far
	watches atomic.Bool
	kills   *kernelKills
	watcher func() *watcher

	mu     sync.Mutex
	closed bool
	runs   sync.WaitGroup
}

// NewRunner returns a ready Runner with its guard on duty. It returns an error if the guard cannot
// be started or does not report within 10 s. Close it after use.
func NewRunner(c Config) (*Runner, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	r := &Runner{log: c.Log, marker: MarkerVar + "=" + rand.Text(), noGroup: "needs a cgroup", kills: newKernelKills()}
	r.watcher = sync.OnceValue(func() *watcher { r.watches.Store(true); return startWatcher() })
	if c.Groups { // before the guard, which must move as well
		var err error
		if r.groups, err = findCgroups(); err != nil {
			r.noGroup = err.Error()
			r.log.Debug("no control groups: memory and processes of tasks are watched, and processor time cannot be bounded", "reason", r.noGroup)
		}
	}
	if len(c.Guard) > 0 {
		var err error
		if r.guard, err = startWatch(c.Guard, r.marker, c.Log); err != nil {
			return nil, fmt.Errorf("start the guard process: %w", err)
		}
	}
	if c.Orphans {
		var err error
		if r.orphans, err = startOrphans(); err != nil {
			r.log.Warn("daemons that tasks start outlive them, until the worker ends", "error", err)
		} else if r.guard != nil {
			r.guard.orphans = r.orphans
			r.orphans.born(r.guard.current().cmd.Process.Pid)
			r.orphans.look(r.guard.tellOrphans)
		} else {
			r.orphans.look(nil)
		}
	}
	r.spawner = startSpawner(r.orphans, c.Elevate, c.Confine, c.Log)
	return r, nil
}

// Elevates tells whether processes may start programs that give them more rights.
func (r *Runner) Elevates() bool { return r.spawner.elevate }

// Confines returns what processes lose.
func (r *Runner) Confines() Confinement { return r.spawner.confine }

// Close ends the Runner when every Run has returned; to speed that up, end their contexts. The
// guard then kills what has escaped from its group, and ends. From now on Run refuses to start
// anything. Close can be called again.
func (r *Runner) Close() {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	r.runs.Wait()
	if again {
		return
	}
	r.spawner.stop()
	if r.watches.Load() {
		r.watcher().close()
	}
	if r.orphans != nil {
		r.orphans.close()
	}
	if r.guard != nil {
		r.guard.stop()
	}
}

// busyRetries bounds the wait for a program that is still open for writing, at 1, 2, 4, … ms. The
// writer may be a process that is just being started and holds the inherited descriptor until its
// exec.
const busyRetries = 6

// boundFileSize bounds the size of a program's files before the program begins: a bound set from
// outside once it runs comes too late if it writes at once. A shell counts in blocks; the exact
// bound in bytes is set from outside. If that came first, it is smaller than the shell's, and the
// shell cannot raise it any more.
const (
	boundFileSize = `ulimit -f "$1" 2>/dev/null || :; shift; exec "$0" "$@"`
	fileBlock     = 512
)

// Run starts a process and returns when it has been waited for, its group is gone and s has
// received everything that it wrote before its end. When ctx is done, Run sends the process a
// CANCEL message with the cause and the deadline if its input is open, sends its group SIGTERM, and
// after the grace SIGKILL. If the process ends by itself and leaves others of its group behind,
// those get SIGTERM, and SIGKILL a second later, or after the grace if that is shorter.
func (r *Runner) Run(ctx context.Context, c Command, s Sink) Result {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return refused("not started: the worker is shutting down")
	}
	r.runs.Add(1)
	r.mu.Unlock()
	defer r.runs.Done()

	if ctx.Err() != nil {
		return NotStarted(ctx)
	}
	argv, err := c.argv()
	if err != nil {
		return refused("cannot start anything: " + err.Error())
	}
	coded, err := encodingOf(c.Encoding)
	if err != nil {
		return refused("cannot read the output: " + err.Error())
	}
	file, err := lookPath(argv[0], c.Env)
	if err != nil {
		return unstarted(&c, err, c.explain(argv[0], "", err))
	}
	lim := plan(c.Resources, r.groups != nil, r.noGroup)
	if c.Container != nil {
		lim = limits{words: []string{c.Container.Bounds}}
	}
	starts, named := argv, c.inDir(file)
	if n := int64(lim.want.FileSize); n > 0 {
		starts = append([]string{"/bin/sh", "-c", boundFileSize, file, strconv.FormatInt((n+fileBlock-1)/fileBlock, 10)}, argv[1:]...)
		file = starts[0]
	}
	req := request{file: file, argv: starts, dir: c.Dir, env: r.mark(c.Env), as: c.Credential, lim: &lim, open: c.OpenStdin, alone: c.Alone, own: c.Own || c.Container != nil, over: make(chan struct{})}
	defer close(req.over)
	mark := ""
	if r.orphans != nil {
		mark = r.orphans.begin()
		defer r.orphans.end()
		req.env = append(req.env, mark)
	}
	if r.groups != nil && !lim.none() {
		name := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatUint(r.bounded.Add(1), 10)
		if lim.group, err = r.groups.create(name, c.Resources); err != nil {
			return refused("the bounds of the task cannot be set: " + err.Error())
		}
		defer lim.group.close()
	}
	if c.Container != nil {
		r.guard.contain(c.Container.name(), removal(c.Container.Runtime, c.Container.name()))
		defer r.guard.contain(c.Container.name(), nil)
	}
	p, err := r.start(ctx, &req)
	switch {
	case errors.Is(err, syscall.ETXTBSY) && ctx.Err() != nil:
		return NotStarted(ctx)
	case err != nil:
		return unstarted(&c, err, c.explain(argv[0], file, err))
	}
	p.grace, p.limit, p.log, p.mark, p.gate, p.encoding, p.contained = c.Grace, c.Limit, r.log, mark, c.Messages, coded, c.Container != nil
	p.stderr.watched = c.Watched
	if c.Started != nil {
		c.Started(p)
	}
	if c.Container != nil {
		return r.runContained(ctx, p, c.Container, s)
	}
	var res Result
	if lim.none() {
		res = p.run(ctx, argv[0], s)
	} else {
		res = r.runBounded(ctx, p, argv[0], s)
	}
	if hint := c.hint(named, &res); hint != "" {
		res.Message += "; " + hint
	}
	if res.Class == value.Killed && !res.Stopped && res.Signal == "SIGKILL" && r.kills.lately() {
		res.Class = value.Memory
		res.Message = "the node ran out of memory, and the kernel has killed processes: bound the task with resources.memory, or give the node more"
	}
	return res
}

// start starts a process. While its program is open for writing, start tries again, until ctx ends.
func (r *Runner) start(ctx context.Context, req *request) (p *Running, err error) {
	for i := 0; ; i++ {
		if p, err = r.spawner.start(req); i == busyRetries || !errors.Is(err, syscall.ETXTBSY) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Millisecond << i):
		}
	}
}

// runBounded follows a process with bounds to its end.
func (r *Runner) runBounded(ctx context.Context, p *Running, program string, s Sink) Result {
	over, limit := "", p.limit
	var peak int64
	p.limit = func(cause error) time.Duration {
		if what := tooMuch(""); errors.As(cause, &what) {
			return 0 // it would use the grace to take more
		}
		if limit == nil {
			return math.MaxInt64
		}
		return limit(cause)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var w *watched
	if p.lim.group == nil && (p.lim.want.Memory > 0 || p.lim.want.PIDs > 0) {
		w = &watched{pid: p.PID, limits: p.lim, over: func(what string) { stop(tooMuch(what)) }}
		r.watcher().add <- w
	}
	res := p.run(ctx, program, s)
	if w != nil {
		r.watcher().drop <- w
		peak = w.peak.Load()
	}
	if what := tooMuch(""); errors.As(context.Cause(ctx), &what) && res.Stopped {
		over = string(what)
	}
	return p.lim.judge(res, over, peak)
}

// tooMuch is the cause when a run is stopped for exceeding a bound.
type tooMuch string

func (t tooMuch) Error() string {
	return "it used more " + string(t) + " than resources." + string(t) + " allows"
}

// mark returns env with the marker, and each variable once: of several values the last one counts.
// Programs differ in which they take, so a value of the worker could hide the job's. A marker that
// is there already belongs to an outer worker, within which this one runs.
func (r *Runner) mark(env []string) []string {
	marked := make([]string, len(env)+1, len(env)+2) // room for the mark of the run
	seen := make(map[string]bool, len(marked))
	seen[MarkerVar], seen[RunVar] = true, r.orphans != nil // set here
	at := len(marked)
	for _, e := range slices.Backward(env) {
		name, _, _ := strings.Cut(e, "=")
		if !seen[name] {
			at--
			seen[name], marked[at] = true, e
		}
	}
	at--
	marked[at] = r.marker
	return marked[at:]
}

// StartBeside starts a process of this program's own that must not count as an orphan.
func (r *Runner) StartBeside(cmd *exec.Cmd) error {
	if r.orphans == nil {
		return cmd.Start()
	}
	r.orphans.births.RLock()
	defer r.orphans.births.RUnlock()
	err := cmd.Start()
	if err == nil {
		r.orphans.born(cmd.Process.Pid)
	}
	return err
}

// Gone reports that such a process has been waited for.
func (r *Runner) Gone(pid int) {
	if r.orphans != nil {
		r.orphans.gone(pid)
	}
}
