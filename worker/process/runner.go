package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// MarkerVar is the variable of the environment by which the guard knows the
// processes of a worker. Its value is unique to the [Runner].
const MarkerVar = "MILLRACE_WORKER"

// Config is what a [Runner] needs. The zero value runs without a guard.
type Config struct {
	// Guard is the command that ends up in [GuardMain]: this program, and the
	// argument that leads there. Empty: no guard, so what children have
	// started survives if the worker is killed.
	Guard []string
	// Log hears of the guard and of processes that cannot be ended. The zero value is silent.
	Log zerolog.Logger
}

// Runner runs processes, any number at once. It holds up to four operating
// system threads, for the kernel ties the children's lives to the thread that
// started them, and one guard process.
type Runner struct {
	log     zerolog.Logger
	marker  string
	spawner *spawner
	guard   *watch // nil without a guard

	mu     sync.Mutex
	closed bool
	runs   sync.WaitGroup
}

// NewRunner returns a Runner that is ready, with its guard on duty. It returns
// an error if the guard cannot be started or does not report within 10 s.
// Close it after use.
func NewRunner(c Config) (*Runner, error) {
	r := &Runner{log: c.Log, marker: MarkerVar + "=" + rand.Text()}
	if len(c.Guard) > 0 {
		var err error
		if r.guard, err = startWatch(c.Guard, r.marker, c.Log); err != nil {
			return nil, fmt.Errorf("start the guard process: %w", err)
		}
	}
	r.spawner = startSpawner()
	return r, nil
}

// Close ends the Runner when every Run has returned; to hasten that, end their
// contexts. The guard then kills what has escaped from its group, and ends.
// Run refuses to start anything from now on. Close can be called again.
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
	if r.guard != nil {
		r.guard.stop()
	}
}

// busyRetries bounds the wait for a program that is still open for writing, at
// 1, 2, 4, … ms. The writer may well be a process that is just being started
// and has inherited the descriptor for the moment before its exec.
const busyRetries = 6

// Run starts a process and returns when it has been waited for, its group is
// gone and s has been given all that it wrote before its end. When ctx is done,
// the process is sent a CANCEL message with the cause and the deadline if its
// input is open, its group gets SIGTERM, and after the grace SIGKILL. If the process ends by
// itself and leaves others of its group behind, those get SIGTERM, and SIGKILL
// a second later, or after the grace if that is shorter.
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
		return notStarted(ctx)
	}
	argv, err := c.argv()
	if err != nil {
		return refused("cannot start anything: " + err.Error())
	}
	file, err := lookPath(argv[0], c.Env)
	if err != nil {
		return refused(c.explain(argv[0], "", err))
	}
	req := request{file: file, argv: argv, dir: c.Dir, env: r.mark(c.Env)}
	p, err := r.spawner.start(&req)
	for i := 0; i < busyRetries && errors.Is(err, syscall.ETXTBSY); i++ {
		select {
		case <-ctx.Done():
			return notStarted(ctx)
		case <-time.After(time.Millisecond << i):
		}
		p, err = r.spawner.start(&req)
	}
	if err != nil {
		return refused(c.explain(argv[0], file, err))
	}
	p.grace, p.limit, p.log = c.Grace, c.Limit, r.log
	if !c.OpenStdin {
		p.closeStdin()
	}
	return p.run(ctx, argv[0], s)
}

// mark returns env with the marker. A marker that is there already is that of
// another worker, within which this one runs.
func (r *Runner) mark(env []string) []string {
	marked := make([]string, 1, len(env)+1)
	marked[0] = r.marker
	for _, e := range env {
		if !strings.HasPrefix(e, MarkerVar+"=") {
			marked = append(marked, e)
		}
	}
	return marked
}
