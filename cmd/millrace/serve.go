package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"millrace/api"
	"millrace/client"
	"millrace/jet"
	"millrace/logclock"
	"millrace/node"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/worker"
	"millrace/worker/process"
)

// dial makes one more connection to the server that holds the log. Each part
// has its own, so that a busy one keeps no other waiting.
type dial func(name string) (*nats.Conn, error)

// parts are what a process of Millrace is made of; all that are started end together.
type parts struct {
	dial     dial
	settings Settings
	log      zerolog.Logger

	hurry    *hurry
	clock    *logclock.Clock // of the process; nil before a store is open
	closers  []func()
	group    *errgroup.Group
	ctx      context.Context // of the parts: ends when one of them fails
	starting sync.WaitGroup  // parts that were started and are not ready
	figures  *figures        // nil if no metrics are served
}

func (a *app) newParts(ctx context.Context, d dial, s Settings, log zerolog.Logger) *parts {
	p := &parts{dial: d, settings: s, log: log, hurry: a.hurry}
	p.group, p.ctx = errgroup.WithContext(ctx)
	p.start(easeCollection)
	return p
}

// store opens the log on a connection of its own.
func (p *parts) store(name string) (*jet.Store, *nats.Conn, error) {
	nc, err := p.dial(name)
	if err != nil {
		return nil, nil, err
	}
	p.closers = append(p.closers, nc.Close)
	store, err := jet.Open(p.ctx, nc, p.settings.Layout())
	if err != nil {
		return nil, nil, err
	}
	p.closers = append(p.closers, store.Close)
	p.figures.connected(name, store)
	return store, nc, nil
}

// serve starts what a server process does besides holding the log: it keeps
// the read model in dir, answers requests from it and keeps the deadlines.
func (p *parts) serve(dir string) (*projections.Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	view, err := projections.Open(filepath.Join(dir, "view.db"))
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func() { _ = view.Close() }) // it can be made again from the log
	reading, _, err := p.store("millrace projector")
	if err != nil {
		return nil, err
	}
	deciding, nc, err := p.store("millrace server")
	if err != nil {
		return nil, err
	}
	for _, difference := range deciding.Differences(p.settings.Layout()) {
		p.log.Warn().Msg(difference)
	}
	p.keepTime(deciding)
	settings := p.settings.Task()
	settings.AckWait = deciding.AckWait() // what holds is what the streams were made with
	projector := &projections.Projector{Log: reading, Store: view, Logger: slog.New(zerolog.NewSlogHandler(p.log))}
	config := scheduler.Config{
		Settings: settings, Sweep: p.settings.Sweep, Settling: 2 * p.settings.Beat, Jobs: deciding, Deliveries: deciding, Schedules: scheduled{deciding}, Selectors: deciding,
		Flap: p.settings.Flap, Routes: deciding, Now: p.clock.Now, Limits: view, Hints: deciding, Log: p.log}
	var beats scheduler.Heartbeats = deciding
	if p.figures != nil {
		if beats, err = p.figures.watchServer(p, projector, deciding, &config); err != nil {
			return nil, err
		}
	}
	decider := scheduler.New(deciding, view, beats, config)
	projector.Observers = append(projector.Observers, decider)
	p.figures.watchScheduler(decider)
	p.start(projector.Run)
	p.start(func(ctx context.Context) error { return tidy(ctx, view.Reached) })
	p.start(relief)
	p.start(decider.Run)
	p.keep(deciding, view)
	p.starting.Add(1)
	p.start((&api.Service{
		Conn: nc, Client: client.New(deciding, ""), View: view, Limits: decider, Version: serviceVersion(), Nodes: node.Settings{TTL: p.settings.NodeTTL}, Now: p.clock.Now, Ready: p.starting.Done, Log: p.log,
	}).Run)
	return view, nil
}

// workerConfig is what the flags of a worker say.
type workerConfig struct {
	name   string
	queues []string
	slots  int
	labels map[string]string
	files  filesFlags
}

// work starts a worker.
func (p *parts) work(c workerConfig) error {
	store, _, err := p.store("millrace worker")
	if err != nil {
		return err
	}
	p.keepTime(store)
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to guard child processes: %w", err)
	}
	runner, err := process.NewRunner(process.Config{Guard: []string{self, guardName}, Orphans: true, Groups: true, Log: p.log})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, runner.Close)
	if c.name == "" {
		name, release, err := freeNodeName()
		if err != nil {
			return err
		}
		p.closers = append(p.closers, release)
		c.name = name
	}
	if c.slots == 0 {
		c.slots = max(4, 2*runtime.NumCPU())
	}
	tasks := &process.Tasks{Runner: runner, Node: c.name}
	if tasks.Surroundings, err = p.surroundings(c); err != nil {
		return err
	}
	p.closers = append(p.closers, tasks.Close)
	tasks.Shim, tasks.ShimGuard = []string{self, shimName}, []string{self, guardName}
	spool := p.settings.Spool
	if own, err := devFolder(); spool == "" && err == nil { // else the worker chooses a place
		spool = filepath.Join(own, "spool")
	}
	if spool == "" {
		spool = worker.DefaultSpool()
	}
	if tasks.Folder, err = filepath.Abs(spool); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	queues, weights, err := parseWeights(c.queues)
	if err != nil {
		return misuseOf(err)
	}
	w, err := worker.New(store, worker.Config{
		Node: node.ID(c.name), Queues: queues, Weights: weights, Slots: c.slots, Labels: c.labels,
		Beat: p.settings.Beat, NodeTTL: p.settings.NodeTTL, Grace: p.settings.Grace, Flap: p.settings.Flap, Hurry: p.hurry.now,
		Submit: submitter(client.New(store, c.name)),
		Spool:  spool, SpoolLimit: p.settings.SpoolLimit, Commands: tasks, Now: p.clock.Now, Version: thisBuild().Version, Ready: p.starting.Done, Log: p.log,
	})
	if err != nil {
		return misuseOf(err)
	}
	p.figures.watchWorker(w, p.settings.NodeTTL)
	p.hurry.working.Store(true)
	p.starting.Add(1)
	p.start(w.Run)
	return nil
}

// start runs a part until the context of all ends.
func (p *parts) start(run func(context.Context) error) {
	p.group.Go(func() error {
		err := run(p.ctx)
		if err != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

// ready waits until all parts do what they are for. It returns false if they
// end before that; wait then says why.
func (p *parts) ready() bool {
	all := make(chan struct{})
	go func() {
		p.starting.Wait()
		close(all)
	}()
	select {
	case <-all:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// wait returns when all parts have ended, and gives back what they held.
func (p *parts) wait() error {
	err := p.group.Wait()
	p.close()
	return err
}

func (p *parts) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
	p.closers = nil
}

// misuseOf marks an error as one in what was typed.
func misuseOf(err error) error { return &fault{code: exitUsage, err: err} }

// serviceVersion is the program's version in the form that NATS services want.
func serviceVersion() string {
	v := strings.TrimPrefix(thisBuild().Version, "v")
	if v == "" || v[0] < '0' || v[0] > '9' {
		return "0.0.0"
	}
	return v
}
