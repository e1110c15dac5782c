package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/task/value"
)

const (
	// guardReady is what the guard writes when it is on duty.
	guardReady = "guard ready\n"
	// guardStart bounds the start of a guard, and its end.
	guardStart = 10 * time.Second
)

// GuardMain is the whole life of a guard process; the program's hidden guard command calls it with
// its standard input and output. It reads from in what to look after, reports on out, and waits for
// the end of in, which means that the worker at the other end has closed it or died. Then it kills
// the orphans that the worker has listed, and every process that carries the worker's mark, with
// its process group, until none is left. It ignores the signals that operators and init systems use
// to end programs.
//
// The guard costs a task nothing: it hears only of daemons. It never touches process 1, its own
// group or the worker's group (except for marked members).
//
// It returns an error if it was not started by a [Runner], or if it cannot kill some processes; the
// caller should print either error to standard error.
func GuardMain(in io.Reader, out io.Writer) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	r := bufio.NewReader(in)
	order, err := r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("guard: this command is started by a worker, not by hand: %w", err)
	}
	marker, group, ok := strings.Cut(strings.TrimSuffix(order, "\n"), " ")
	spare, err := strconv.Atoi(group)
	if !ok || err != nil || !strings.HasPrefix(marker, MarkerVar+"=") || len(marker) < len(MarkerVar)+17 {
		return fmt.Errorf("guard: this command is started by a worker, not by hand: got %q", order)
	}
	if _, err := io.WriteString(out, guardReady); err != nil {
		return fmt.Errorf("guard: report to the worker: %w", err)
	}
	told, contained := "", ""
	for { // any error also means the end
		line, err := r.ReadString('\n')
		if err != nil {
			break
		}
		if strings.HasPrefix(line, "{") {
			contained = line
		} else {
			told = line
		}
	}
	removed := make(chan error, 1)
	go func() { removed <- removeAll(contained) }()
	endOrphans(told)
	return errors.Join(sweep(marker, spare), <-removed)
}

// removeAll removes the containers that the worker listed last.
func removeAll(listed string) error {
	var removals map[string][]string
	if listed == "" || json.Unmarshal([]byte(listed), &removals) != nil {
		return nil // the worker writes whole lines of JSON, or died within one
	}
	var each errgroup.Group
	for _, argv := range removals {
		each.Go(func() error {
			_, err := remove(argv, (*exec.Cmd).Run)
			return err
		})
	}
	return each.Wait()
}

// guard is a guard process, seen from the worker.
type guard struct {
	cmd  *exec.Cmd
	in   io.WriteCloser // its end tells the guard that the worker is gone
	gone chan struct{}  // closed when the process has ended
	told string         // the orphans it was last told; only the telling goroutine uses it
}

// startGuard returns when the guard is on duty.
func startGuard(argv []string, marker string) (*guard, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	// The guard must not carry our mark, nor that of an outer worker: else that worker's guard
	// would kill it, and our processes would have no guard.
	cmd.Env = HelpersEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of terminals
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &guard{cmd: cmd, in: in, gone: make(chan struct{})}
	if err := g.brief(out, marker); err != nil {
		in.Close()
		_ = cmd.Process.Kill()
		return nil, errors.Join(fmt.Errorf("%s does not work as a guard: %w", strings.Join(argv, " "), err), cmd.Wait())
	}
	go func() {
		defer close(g.gone)
		_ = cmd.Wait() // its own complaints go to standard error
	}()
	return g, nil
}

func (g *guard) brief(out io.Reader, marker string) error {
	if f, ok := out.(*os.File); ok {
		_ = f.SetReadDeadline(time.Now().Add(guardStart))
	}
	if _, err := fmt.Fprintf(g.in, "%s %d\n", marker, syscall.Getpgrp()); err != nil {
		return err
	}
	got := make([]byte, len(guardReady))
	if _, err := io.ReadFull(out, got); err != nil {
		return fmt.Errorf("it does not report for duty: %w", err)
	}
	if string(got) != guardReady {
		return fmt.Errorf("it reports %q", got)
	}
	return nil
}

// close dismisses the guard and waits for its end.
func (g *guard) close() {
	g.in.Close()
	select {
	case <-g.gone:
	case <-time.After(killBound + guardStart):
		_ = g.cmd.Process.Kill()
		<-g.gone
	}
}

// watch keeps one guard on duty: if it dies, another is started.
type watch struct {
	argv   []string
	marker string
	log    *slog.Logger

	cancel context.CancelFunc
	done   chan struct{}

	orphans *orphans // nil, or the orphans that must not count the guard as one

	mu        sync.Mutex // guards what follows
	guard     *guard
	contained map[string][]string // how each container is removed if this process dies, by name
}

// contain tells the guard of a container, or with nil that it is gone. Without a guard it does nothing.
func (w *watch) contain(name string, removal []string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.contained == nil {
		w.contained = map[string][]string{}
	}
	if w.contained[name] = removal; removal == nil {
		delete(w.contained, name)
	}
	w.tellContained()
}

func (w *watch) tellContained() {
	text, _ := value.JSON(w.contained)          // names and words
	_, _ = w.guard.in.Write(append(text, '\n')) // if this guard is gone, the next one is told
}

// A new guard follows at once, but a guard that keeps dying must not make the worker a fork bomb:
// the pause doubles, and shrinks again when a guard has lasted.
const (
	minGuardPause = time.Second
	maxGuardPause = time.Minute
)

func startWatch(argv []string, marker string, log *slog.Logger) (*watch, error) {
	g, err := startGuard(argv, marker)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{argv: argv, marker: marker, log: log, cancel: cancel, done: make(chan struct{}), guard: g}
	go w.keep(ctx)
	return w, nil
}

func (w *watch) keep(ctx context.Context) {
	defer close(w.done)
	var pause time.Duration
	for {
		g, since := w.current(), time.Now()
		select {
		case <-ctx.Done():
			g.close()
			return
		case <-g.gone:
		}
		g.in.Close()
		if time.Since(since) > maxGuardPause {
			pause = 0
		}
		w.log.Warn("the guard process has died, another one is started", "pid", g.cmd.Process.Pid, "pause", pause.String())
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(max(2*pause, minGuardPause), maxGuardPause)
			next, err := w.start()
			if err == nil {
				w.mu.Lock()
				w.guard = next
				if len(w.contained) > 0 {
					w.tellContained()
				}
				w.mu.Unlock()
				break
			}
			w.log.Error("no guard process: if the worker is killed now, what its tasks have started goes on running", "error", err, "pause", pause.String())
		}
	}
}

// start starts a guard. The guard is registered before the reaper can mistake it for an orphan.
func (w *watch) start() (*guard, error) {
	if w.orphans == nil {
		return startGuard(w.argv, w.marker)
	}
	w.orphans.births.RLock()
	defer w.orphans.births.RUnlock()
	g, err := startGuard(w.argv, w.marker)
	if err == nil {
		w.orphans.born(g.cmd.Process.Pid)
	}
	return g, err
}

func (w *watch) current() *guard {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guard
}

func (w *watch) stop() {
	w.cancel()
	<-w.done
}
