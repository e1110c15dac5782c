// Package embedded runs all of Millrace in a program's own process: a NATS server that keeps the
// log in a directory, the scheduler and the read model. It is for programs of one machine and for
// tests.
//
//	app, err := embedded.Open(ctx, "data")
//	defer app.Close()
//	err = app.Work(ctx, resize, mail)
//
// The server listens on loopback only, and wants a password that it keeps in the directory.
// Commands of millrace and other programs of this user on this machine find it as they find a
// `millrace dev`. To move to servers of their own, a program calls [millrace.Open] in place of
// [Open].
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace"
	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/rerun"
	"millrace/task/duties"
	"millrace/task/node"
)

// Config is for programs that set more than [Open] does. Its zero value is usable.
type Config struct {
	// Dir is the directory of the data, for this process alone. It is made if it does not exist.
	// Default: a temporary one, which Close removes, and whose server others do not find.
	Dir string
	// SyncAlways flushes every write to the disk before it is acknowledged. Default: once a second;
	// what was acknowledged since is lost if the machine fails, not if only the process does.
	SyncAlways bool
	// StartDeadline is how long a task may wait while no worker serves its queue. Default: for
	// ever.
	StartDeadline time.Duration
	// Log gets what an operator should know. Default: [slog.Default].
	Log *slog.Logger
}

// Open starts everything, with the data in dir, and returns when it is ready. [millrace.App.Close]
// ends it; workers must have ended before. The error wraps [embed.ErrLocked] if another process
// uses dir.
func Open(ctx context.Context, dir string) (*millrace.App, error) {
	return Config{Dir: dir}.Open(ctx)
}

// Open is the function Open with more settings.
func (c Config) Open(ctx context.Context) (*millrace.App, error) {
	if os.Getenv(rerun.Variable) != "" {
		return millrace.Open(ctx) // which starts nothing
	}
	app, err := c.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("millrace: %w", err)
	}
	return app, nil
}

func (c Config) open(ctx context.Context) (_ *millrace.App, err error) {
	h := &house{log: cmp.Or(c.Log, slog.Default()), layout: streams.Layout{SyncAlways: c.SyncAlways}}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	own := c.Dir != ""
	if !own {
		if c.Dir, err = os.MkdirTemp("", "millrace-"); err != nil {
			return nil, err
		}
		h.closers = append(h.closers, func() { _ = os.RemoveAll(c.Dir) })
	}
	if h.server, err = embed.Start(embed.Config{Dir: c.Dir, SyncAlways: c.SyncAlways, Log: h.log}); err != nil {
		return nil, err
	}
	h.closers = append(h.closers, h.server.Stop)
	// The parts outlive ctx, which bounds only their start.
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	h.group, h.ctx = errgroup.WithContext(parts)
	h.start(h.server.Guard)
	ready := make(chan struct{})
	if err := h.serve(ctx, c, func() { close(ready) }); err != nil {
		return nil, err
	}
	store, err := h.store(ctx, "millrace program")
	if err != nil {
		return nil, err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.ctx.Done():
		return nil, errors.New("a part of the server has ended")
	}
	if own {
		forget, err := request.Announce(h.server.URL(), "dev", c.Dir)
		if err != nil {
			h.log.Warn("other programs do not find this server by themselves", "error", err)
		} else {
			h.closers = append(h.closers, forget)
		}
	}
	h.group.Go(func() error { // workers end with their connection
		<-h.ctx.Done()
		store.NC.Close()
		return nil
	})
	return millrace.New(client.New(store, ""), h.close), nil
}

// house is what runs in this process.
type house struct {
	log     *slog.Logger
	layout  streams.Layout
	server  *embed.Server
	group   *errgroup.Group
	ctx     context.Context // of the parts: ends when one of them fails
	stop    context.CancelFunc
	closers []func()
}

// close ends everything, and returns why a part has ended by itself.
func (h *house) close() (err error) {
	if h.stop != nil {
		h.stop()
		err = h.group.Wait()
	}
	for i := len(h.closers) - 1; i >= 0; i-- {
		h.closers[i]()
	}
	return err
}

// start runs a part until all end.
func (h *house) start(run func(context.Context) error) {
	h.group.Go(func() error {
		err := run(h.ctx)
		if err == nil || h.ctx.Err() != nil {
			return nil
		}
		h.log.Error("a part of Millrace has ended, and the rest ends with it", "error", err)
		return err
	})
}

// store opens the log on a connection of its own, so that a busy part delays no other.
func (h *house) store(ctx context.Context, name string) (*jet.Store, error) {
	nc, err := h.server.Connect(jet.Resilient(name, h.log)...)
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, nc.Close)
	s, err := jet.Open(ctx, nc, h.layout)
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, s.Close)
	return s, nil
}

// What `millrace dev` has as settings.
const (
	sweep       = 5 * time.Second
	slack       = 2 * time.Second
	timers      = 15 * time.Second
	retireAfter = 24 * time.Hour
	margin      = 2*sweep + slack + 3*time.Second
)

// serve starts what keeps deadlines, makes the tasks of schedules, and answers for the read model.
func (h *house) serve(ctx context.Context, c Config, ready func()) error {
	view, err := projections.Open(filepath.Join(c.Dir, "view.db"))
	if err != nil {
		return err
	}
	h.closers = append(h.closers, func() { _ = view.Close() }) // it can be made again from the log
	reading, err := h.store(ctx, "millrace projector")
	if err != nil {
		return err
	}
	deciding, err := h.store(ctx, "millrace server")
	if err != nil {
		return err
	}
	if err := deciding.Size(ctx, streams.Sizes{}, h.server.Store()); err != nil {
		h.log.Warn("the streams keep the sizes that they have", "error", err)
	}
	rules := duties.Settings{StartDeadline: c.StartDeadline, AckWait: deciding.AckWait(), Slack: slack, Timer: timers}
	decider := scheduler.New(deciding, view, deciding, scheduler.Config{
		Settings: rules, Sweep: sweep, Deliveries: deciding, Selectors: deciding, Schedules: deciding, Ticks: deciding,
		Births: client.New(deciding, events.PartScheduler).DeskStore(), Timed: view, Timers: deciding, Lanes: deciding, Laned: view,
		RetireAfter: retireAfter, Naming: view, Routes: deciding, Limits: view, Hints: deciding, Peers: deciding, Last: deciding.Last, Tell: answers.Telling(client.New(deciding, ""), ""), Log: h.log,
	})
	marks, stirs := jet.NewMarks(), &scheduler.Stirs{}
	h.start((&projections.Projector{Log: reading, Store: view, Logger: h.log, Observers: []projections.Observer{decider, marks, stirs}}).Run)
	h.start(view.Index)
	h.start(decider.Run)
	forgets := h.keep(deciding, view, decider, marks, stirs)
	service := &answers.Service{
		Conn: deciding.NC, Client: client.New(deciding, ""), Model: view, Deadlines: view, Stored: view, Limits: decider, Watched: decider.Watched,
		Rules: rules, Margin: margin, Nodes: node.Settings{TTL: nodeTTL, RetireAfter: retireAfter}, Ready: ready, Log: h.log,
		Held: func() (client.HorizonHold, time.Time) {
			is := forgets.Last()
			return client.HorizonHold(is.Held), is.At
		},
	}
	h.start(service.Run)
	return nil
}
