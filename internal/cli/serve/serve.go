package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/request"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/internal/observe"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/httpapi"
	"millrace/service/pages"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/worker"
	"millrace/worker/process"
	"millrace/worker/process/child"
)

// dial makes another connection to the server that holds the log. Each part has its own, so that a
// busy one delays no other.
type dial func(name string) (*nats.Conn, error)

// parts are the parts of a process of Millrace; all started ones end together.
type parts struct {
	dial     dial
	settings settings.Values
	log      *slog.Logger

	hurry    *connect.Hurry
	clock    *request.Clock // of the process; all its stores share it
	keeping  bool           // the clock follows the log
	closers  []func()
	group    *errgroup.Group
	ctx      context.Context // of the parts: ends when one of them fails
	starting sync.WaitGroup  // started parts that are not ready
	workers  sync.WaitGroup  // workers that have not ended
	figures  *figures        // nil without metrics
	http     *httpapi.Server // nil without the HTTP service
	pages    *pages.Site     // nil without the HTTP service
	own      *embed.Server   // the NATS server of this process; nil if it uses another
	data     string          // the folder of that server
	mute     *observe.Log    // whether the log takes messages; nil before a store is open
	tracer   *observe.Tracer // nil without tracing
	forgets  scheduler.Collector
}

func (a *Commands) newParts(ctx context.Context, d dial, s settings.Values, heap settings.Pace, log *slog.Logger) *parts {
	connect.ForgetEnvironment()
	managerAddress()
	p := &parts{dial: d, settings: s, log: log, hurry: a.Hurry, clock: a.Clock}
	p.group, p.ctx = errgroup.WithContext(ctx)
	p.trace()
	p.start(func(ctx context.Context) error { return settings.Ease(ctx, uint64(s.Memory), heap) })
	return p
}

// opener opens the log on a connection.
type opener func(ctx context.Context, nc *nats.Conn, options ...jet.Option) (*jet.Store, error)

// making opens the log, and makes it where there is none: only a server knows the layout.
func (p *parts) making(ctx context.Context, nc *nats.Conn, options ...jet.Option) (*jet.Store, error) {
	return jet.Open(ctx, nc, p.settings.Layout(), options...)
}

// store opens the log on a connection of its own.
func (p *parts) store(name string, open opener) (*jet.Store, *nats.Conn, error) {
	nc, err := p.dial(name)
	if err != nil {
		return nil, nil, err
	}
	p.closers = append(p.closers, nc.Close)
	store, err := open(p.ctx, nc, jet.WithClock(p.clock), jet.WithPatience(p.patience()))
	if err != nil {
		return nil, nil, err
	}
	p.closers = append(p.closers, store.Close)
	p.figures.connected(name, store)
	p.start(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-store.Gone():
			return &term.Fault{Code: term.ExitNoServer, Err: fmt.Errorf("%s: %w", name, store.WhyGone()),
				Hint: term.Hint("see what the NATS server says of that, and start this process again")}
		}
	})
	return store, nc, nil
}

// patience is how a process waits, when it starts, for a cluster, and a worker for a server.
func (p *parts) patience() request.Patience {
	return request.Patience{For: connect.FormingPatience, Say: func(waiting error) {
		if request.Missing(waiting) {
			p.log.Warn("this NATS server holds no Millrace yet; the work begins when a `millrace server` has started on it", "for", connect.FormingPatience.String())
			return
		}
		p.log.Warn("waiting for the NATS cluster; the work begins when it has a leader", "error", waiting, "for", connect.FormingPatience.String())
	}}
}

// serve starts what a server process does besides holding the log: it keeps the read model in dir,
// answers requests from it and keeps the deadlines.
func (p *parts) serve(dir string) (*projections.Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	view, err := projections.Open(filepath.Join(dir, "view.db"))
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func() { _ = view.Close() }) // it can be rebuilt from the log
	for _, discarded := range view.Notices() {
		p.log.Warn("the read model is made again from the log", "reason", discarded)
	}
	reading, _, err := p.store("millrace projector", p.making)
	if err != nil {
		return nil, err
	}
	deciding, nc, err := p.store("millrace server", p.making)
	if err != nil {
		return nil, err
	}
	for _, difference := range deciding.Differences(p.settings.Layout()) {
		p.log.Warn(difference)
	}
	if err := deciding.BoundSelectors(p.ctx, p.settings.MaxSelectors); err != nil {
		return nil, err
	}
	p.keepTime(deciding)
	p.watchLog(deciding)
	if err := p.size(deciding); err != nil {
		p.log.Warn("the streams keep the sizes that they have", "error", err)
	}
	settings := p.settings.Task()
	settings.AckWait = deciding.AckWait() // the lease with which the streams were made
	projector := &projections.Projector{Log: reading, Store: view, Logger: p.log}
	tells, err := p.notify()
	if err != nil {
		return nil, err
	}
	config := p.schedulerConfig(deciding, view, settings)
	config.Tell = answers.Telling(client.New(deciding, ""), p.link(tells))
	var beats scheduler.Heartbeats = deciding
	if p.figures != nil {
		if beats, err = p.figures.watchServer(p, projector, deciding, &config); err != nil {
			return nil, err
		}
	}
	decider := scheduler.New(deciding, view, beats, config)
	marks, stirs := jet.NewMarks(), &scheduler.Stirs{}
	projector.Observers = append(projector.Observers, decider, marks, stirs)
	if p.http != nil {
		projector.Observers = append(projector.Observers, p.http, p.pages)
	}
	p.figures.watchScheduler(decider)
	if err := p.traceTasks(projector, decider, deciding); err != nil {
		return nil, err
	}
	p.keepStreams(deciding, decider, marks)
	p.start(projector.Run)
	p.start(func(ctx context.Context) error {
		if err := view.Index(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("searching for a text passes over all tasks until the next start", "error", err)
		}
		return nil
	})
	p.start(decider.Run)
	p.keep(deciding, view)
	p.forget(deciding, view, stirs, decider)
	p.starting.Add(1)
	service := &answers.Service{
		Conn: nc, Client: client.New(deciding, ""), Model: view, Deadlines: view, Stored: view, Limits: decider, Watched: decider.Watched, Version: wording.ThisBuild().Version, Rules: settings, Margin: p.settings.Margin(), Limited: wording.LimitDuty, Holders: wording.NamedHolders, Nodes: p.settings.Nodes(), Settings: p.settings.Judging(), Keeping: p.settings.Keeping(), Held: p.held, Now: p.clock.Now, Wrong: p.mute.Wrong, Ready: p.starting.Done, Log: p.log,
	}
	p.serveHTTP(service, deciding)
	p.start(service.Run)
	p.follow(service, deciding, decider)
	p.monitor(dir, service, deciding)
	return view, p.tell(tells, dir, service, deciding, decider)
}

// schedulerConfig is what the scheduler of a server is given: the log for all its ports, and the read
// model for what it must know of many tasks.
func (p *parts) schedulerConfig(deciding *jet.Store, view *projections.Store, settings duties.Settings) scheduler.Config {
	return scheduler.Config{
		Settings: settings, Sweep: p.settings.Sweep, Settling: 2 * p.settings.Beat, Deliveries: deciding, Selectors: deciding,
		Schedules: deciding, Ticks: deciding, Births: client.New(deciding, events.PartScheduler).DeskStore(), Timed: view, Timers: deciding,
		Lanes: deciding, Laned: view, Idle: p.settings.LaneIdle,
		Flap: p.settings.Flap, RetireAfter: p.settings.RetireAfter, Naming: view, Routes: deciding, Now: p.clock.Now, Limits: view, Hints: deciding, Peers: deciding, Last: deciding.Last, Log: p.log}
}

// keepStreams looks after what the NATS server keeps: streams and copies of definitions that others
// deleted or changed, and the marks in the log. Of several servers one writes marks and copies.
func (p *parts) keepStreams(deciding *jet.Store, decider *scheduler.Scheduler, marks *jet.Marks) {
	p.start(func(ctx context.Context) error {
		deciding.KeepStreams(ctx, p.settings.Layout(), max(p.settings.Sweep, streamsEvery), func(name string) {
			if bucket, copies := strings.CutPrefix(name, "KV_"); copies {
				p.log.Warn("a bucket was deleted and is made again; it holds nothing but copies and heartbeats", "bucket", bucket)
				return
			}
			p.log.Error("a stream was deleted and is made again; what it held is lost", "stream", name)
		}, func(err error) {
			p.log.Warn("a stream that was deleted could not be made again; trying again", "error", err)
		})
		return nil
	})
	p.start(func(ctx context.Context) error {
		deciding.KeepMarks(ctx, marks, func() bool { return decider.First("marks") }, func(err error) {
			p.log.Warn("the log cannot be marked, so the NATS server would take long to start again after a crash; trying again", "error", err)
		})
		return nil
	})
	p.start(func(ctx context.Context) error {
		deciding.KeepCopies(ctx, p.settings.Sweep, func() bool { return decider.First("copies") }, func(e task.CopiesRestored) {
			p.log.Warn("copies of definitions were " + wording.Restored(e) + "; docs/nats-cli.md shows how definitions are changed")
		}, func(err error) {
			p.log.Warn("the copies of definitions cannot be compared with the log; trying again", "error", err)
		})
		return nil
	})
}

// WorkerConfig holds the flags of a worker.
type WorkerConfig struct {
	name   string
	queues []string
	slots  int
	// spawning bounds what tasks may ask for.
	spawning birth.Spawning
	messages settings.Choice
	labels   []string
	files    filesFlags
	programs programsFlags
	watch    []string
	own      folders
}

// confinement is what tasks lose: what the settings say, and sight of the data of a server in this
// process, which holds its passwords. Where tasks need something of that folder they see all of it.
func (p *parts) confinement(own folders, self string) child.Confinement {
	c := p.settings.Confine
	data, err := filepath.Abs(p.data)
	if p.data == "" || err != nil {
		return c
	}
	here, _ := os.Getwd() // "" is not in it
	for _, needed := range []string{own.spool, own.cache, own.work, os.TempDir(), self, here} {
		if rel, err := filepath.Rel(data, needed); err == nil && filepath.IsLocal(rel) {
			p.log.Warn("tasks can read the server's folder, for they need something in it: choose another one with --data", "data", data, "needed", needed)
			return c
		}
	}
	c.Hide = append(c.Hide, data)
	return c
}

// work starts a worker, whose folders are made.
func (p *parts) work(c WorkerConfig) error {
	store, _, err := p.store("millrace worker", jet.Await)
	if err != nil {
		return err
	}
	p.keepTime(store)
	if p.figures != nil { // there is no other reader
		p.watchLog(store)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to guard child processes: %w", err)
	}
	runner, err := child.NewRunner(child.Config{Guard: []string{self, GuardName}, Orphans: true, Groups: true, Elevate: p.settings.NewPrivileges, Confine: p.confinement(c.own, self), Log: p.log})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, runner.Close)
	if c.name == "" {
		name, release, err := freeNodeName(worker.HostNode())
		if err != nil {
			return err
		}
		p.closers = append(p.closers, release)
		c.name = name
	}
	if c.slots == 0 {
		c.slots = max(4, 2*runtime.NumCPU())
	}
	tasks := &process.Tasks{Runner: runner, Node: c.name, Folder: c.own.spool, Work: c.own.work, Messages: c.messages.Value, Program: self}
	if tasks.Surroundings, err = p.surroundings(c); err != nil {
		return err
	}
	p.closers = append(p.closers, tasks.Close)
	tasks.Runtimes = tasks.FindRuntimes(p.ctx, p.settings.Runtimes, func(err error) { p.log.Debug("a runtime for images is not used", "error", err) })
	tasks.Shim, tasks.ShimGuard = []string{self, shimName}, []string{self, GuardName}
	queues, weights, err := settings.Weights(c.queues)
	if err != nil {
		return term.MisuseOf(err)
	}
	labels, err := settings.Labels(c.labels)
	if err != nil {
		return term.MisuseOf(err)
	}
	w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{
		Node: node.ID(c.name), Queues: queues, Weights: weights, Slots: c.slots, Labels: labels,
		Beat: p.settings.Beat, NodeTTL: p.settings.NodeTTL, Grace: p.settings.Grace, Flap: p.settings.Flap, Hurry: p.hurry.Now,
		Submit: submitter(client.New(store, c.name)), Spawning: c.spawning,
		Spool: c.own.spool, SpoolLimit: p.settings.SpoolLimit, Output: p.settings.TaskOutput, Records: p.settings.TaskRecords,
		Tracer: p.attempts(), Commands: tasks, Runtimes: tasks.Runtimes, Now: p.clock.Now, Version: wording.ThisBuild().Version, Ready: p.starting.Done, Log: p.log,
	})
	if err != nil {
		return term.MisuseOf(err)
	}
	if err := p.keepPrograms(c, tasks, w); err != nil {
		return err
	}
	p.find(c, store)
	p.figures.watchWorker(w, p.settings.NodeTTL)
	p.hurry.Working.Store(true)
	p.starting.Add(1)
	p.workers.Add(1)
	p.start(func(ctx context.Context) error {
		defer p.workers.Done()
		return w.Run(ctx)
	})
	return nil
}

// untilTold is for commands that run until they are told to end. Told so while they start, they have
// not failed either: to a service manager that is no reason to start them again.
func untilTold(run func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		err := run(c)
		if c.Context().Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
}

// start runs a part until the common context ends.
func (p *parts) start(run func(context.Context) error) {
	p.group.Go(func() error {
		err := run(p.ctx)
		if err != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

// ready waits until all parts are ready. It returns false if they end before that; wait then says
// why.
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

// streamsEvery is how often at most a server looks whether a stream is missing. A look takes a request
// for each stream, the most of all that a server without work asks for.
const streamsEvery = time.Second

// lastRound is how long the parts may take to end once the worker among them has, whose own end has
// its own bound.
const lastRound = 5 * time.Second

var errLeftBehind = errors.New("some part of this process did not end when it was asked to, and is left behind")

// wait returns when all parts have ended, and releases what they held. Whatever a part waits for,
// it has at most lastRound from the moment at which all must end.
func (p *parts) wait() error {
	ended := make(chan error, 1)
	go func() {
		err := p.group.Wait()
		p.close()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-p.ctx.Done():
	}
	p.workers.Wait()
	late := time.NewTimer(lastRound)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return cmp.Or(cause(p.ctx), errLeftBehind)
	}
}

// cause returns why the parts must end, if one of them has failed.
func cause(ctx context.Context) error {
	if why := context.Cause(ctx); !errors.Is(why, context.Canceled) {
		return why
	}
	return nil
}

func (p *parts) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
	p.closers = nil
}
