package millrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/worker"
)

// Work runs the tasks of functions until ctx ends, as a [Worker] with its defaults does.
func (a *App) Work(ctx context.Context, functions ...Handler) error {
	return (&Worker{App: a}).Run(ctx, functions...)
}

// Worker runs tasks, for programs that set more than [App.Work] does. Its zero value needs only an
// App.
type Worker struct {
	// App is the connection. It must be set.
	App *App
	// Node is the worker's name, the same at each start: 1 to 64 letters, digits, '_' or '-'. If
	// another process uses it, this one stops. Default: the names of host and program, with a
	// number if that is taken on this machine.
	Node string
	// Slots is how many tasks it runs at once. Default: the number of processors.
	Slots int
	// Queues are served beside those that the functions' options name.
	Queues []string
	// Labels describe the worker: tasks can choose it by them (`place` in [Fields]).
	Labels map[string]string
	// Grace is how long tasks may go on after Run was asked to end. Then their contexts end, and
	// what has not ended then is given back to other workers. Default 30s.
	Grace time.Duration
	// Ready is called once, when the worker has proved that work reaches it. Default: no call.
	Ready func()
	// Log gets what an operator should know. Default: [slog.Default].
	Log *slog.Logger

	once               sync.Once
	stop, hurry, ended chan struct{}
	stopping, hurrying sync.Once
	ran                atomic.Bool
}

func (w *Worker) begin() {
	w.once.Do(func() { w.stop, w.hurry, w.ended = make(chan struct{}), make(chan struct{}), make(chan struct{}) })
}

// Run runs the tasks of functions until ctx ends or [Worker.Shutdown] is called. Then it takes no
// new ones, lets running ones end within Grace, gives back the rest, and returns nil. It may be
// called once. An error says that it had to end by itself: a function or a field is wrong, another
// process has its name, or the connection is closed for good.
func (w *Worker) Run(ctx context.Context, functions ...Handler) error {
	w.begin()
	switch {
	case w.App == nil:
		return errors.New("millrace: a worker has no App")
	case len(functions) == 0:
		return errors.New("millrace: a worker without functions has nothing to do")
	case w.ran.Swap(true):
		return errors.New("millrace: this worker has run before: make another one")
	}
	defer close(w.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	name, release, err := w.name()
	if err != nil {
		return err
	}
	defer release()
	var names []string
	queues := slices.Clone(w.Queues)
	for _, f := range functions {
		h := f.handler()
		err := h.settings.fault()
		if err == nil && h.run == nil {
			err = errors.New("it has nothing to run: give Func one, or leave it to the programs that do")
		}
		if err != nil {
			return wrong(h.name, err)
		}
		names = append(names, h.name)
		if q := cmp.Or(h.settings.job.Queue, placement.DefaultQueue); !slices.Contains(queues, q) {
			queues = append(queues, q)
		}
	}
	for _, f := range functions {
		if f.handler().settings.stored {
			if err := w.App.Apply(ctx, f); err != nil {
				return err
			}
		}
	}
	c := w.App.client
	log := cmp.Or(w.Log, slog.Default())
	on, beat, ttl := w.ports(name)
	is, err := worker.New(on, worker.Config{
		Node: name, Queues: queues, Slots: w.Slots, Labels: w.Labels, Grace: w.Grace, Hurry: w.hurry, Ready: w.Ready, Log: log, Beat: beat, NodeTTL: ttl,
		Submit:   c.As(string(name)).Spawn,
		Spawning: birth.Spawning{Anywhere: true}, // the program's own functions ask for them
	})
	if err != nil {
		return fmt.Errorf("millrace: %w", err)
	}
	for _, f := range functions {
		h := f.handler()
		is.Handle(h.name, func(ctx context.Context, t task.Task) error {
			r := &running{w.App, worker.Function{Of: worker.FromContext(ctx)}}
			ctx = context.WithValue(ctx, runningKey{}, r)
			return r.Ends(w.App.surround(&t, func(ctx context.Context) error { return h.run(ctx, &t) })(ctx))
		})
	}
	run := is.Run
	if past, again := c.Ground().Log.(interface {
		Rerun(ctx context.Context, functions []string, run func(context.Context, task.Task) worker.Outcome) error
	}); again {
		run = func(ctx context.Context) error { return past.Rerun(ctx, names, is.Rerun) }
	}
	if err := run(ctx); err != nil {
		return fmt.Errorf("millrace: %w", err)
	}
	return nil
}

// ports are what the worker needs of the log: the store of its App, or what stands in for one in a test, with the pace
// of heartbeats there; 0 for the usual one.
func (w *Worker) ports(name node.ID) (on worker.Ports, beat, ttl time.Duration) {
	c := w.App.client
	if of, is := c.Ground().Log.(interface {
		Ports(node.ID) (on worker.Ports, beat, ttl time.Duration)
	}); is {
		return of.Ports(name)
	}
	s := c.Store()
	return worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, 0, 0
}

// Shutdown asks Run to end, which must have been called, and waits until it has. If ctx ends
// before, the rest ends as with [Worker.Close], and Shutdown returns ctx's error.
func (w *Worker) Shutdown(ctx context.Context) error {
	w.begin()
	w.stopping.Do(func() { close(w.stop) })
	select {
	case <-w.ended:
		return nil
	case <-ctx.Done():
		w.Close()
		return ctx.Err()
	}
}

// Close has Run end at once: contexts of running tasks end, and the tasks are given back if the log
// answers within a second. It does not wait.
func (w *Worker) Close() {
	w.begin()
	w.hurrying.Do(func() { close(w.hurry) })
	w.stopping.Do(func() { close(w.stop) })
}

// name returns the name of the node, which is taken until release is called.
func (w *Worker) name() (is node.ID, release func(), err error) {
	if w.Node != "" {
		return node.ID(w.Node), func() {}, nil
	}
	program := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	is, release, err = worker.FreeNode("", string(worker.HostNode())+"-"+program)
	if err != nil {
		return "", nil, fmt.Errorf("millrace: %w: set Node of the worker", err)
	}
	return is, release, nil
}
