package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/events/jet"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/internal/metrics"
	"millrace/internal/observe"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/task/quota"
	"millrace/worker"
)

// figures are a process's metrics for Prometheus. Methods of a nil one do nothing.
type figures struct {
	monitor     *observe.Monitor
	connections *observe.Connections
	server      *observe.Server
	limits      *metrics.Limits
}

// listen opens the address of the settings, if they have one, before anything else is started.
// serveFigures serves what is added afterwards.
func (p *parts) listen(role string) error {
	if p.settings.Metrics == "" {
		return nil
	}
	m, err := observe.Listen(p.ctx, p.settings.Metrics, p.log)
	if err != nil {
		return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("choose another address with --metrics, with port 0 for a free one, or --metrics off; each process of a machine needs its own")}
	}
	p.closers = append(p.closers, m.Close)
	f := &figures{monitor: m, connections: &observe.Connections{}}
	b := wording.ThisBuild()
	m.Add(f.connections, observe.Build{Version: b.Version, Commit: b.Commit, Go: b.Go, NATSServer: b.Server, Role: role})
	m.Expect(f.connections.Check())
	p.figures = f
	return nil
}

// serveFigures begins to answer. /readyz says no until everything is ready.
func (p *parts) serveFigures() {
	f := p.figures
	if f == nil {
		return
	}
	started := make(chan struct{})
	go func() { p.starting.Wait(); close(started) }()
	f.monitor.Expect(observe.Check{Name: "start", Ask: func(time.Time) error {
		select {
		case <-started:
			return nil
		default:
			return errors.New("not everything is up yet")
		}
	}})
	p.start(f.monitor.Run)
	say := p.log.Info
	message := "metrics are served, without asking who reads them"
	if f.monitor.Exposed() {
		say = p.log.Warn
		message = "metrics are served beyond this machine, without asking who reads them: names of queues and nodes are among them; let a firewall or proxy decide who may"
	}
	say(message, "url", f.monitor.URL())
}

func (f *figures) connected(name string, store *jet.Store) {
	if f != nil {
		f.connections.Add(name, store.Connected)
	}
}

// watchLog adds whether the log takes messages.
func (f *figures) watchLog(l *observe.Log) {
	if f != nil {
		f.monitor.Add(l)
		f.monitor.Expect(l.Check())
	}
}

// Patience of the checks: how many rounds of a loop may be missing, and how long a round may take.
const (
	missedRounds = 3
	slowRound    = 10 * time.Second
)

// watchServer adds metrics of a server's parts. It is called before they start, and returns the
// heartbeats that the scheduler must read.
func (f *figures) watchServer(p *parts, projector *projections.Projector, store *jet.Store, config *scheduler.Config) (scheduler.Heartbeats, error) {
	last, err := store.Last(p.ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics begin where the log ends now: %w", err)
	}
	known, _, err := projector.Store.Nodes(p.ctx)
	if err != nil {
		return nil, err
	}
	counts, _, err := projector.Store.Counts(p.ctx)
	if err != nil {
		return nil, err
	}
	names := metrics.NewQueues()
	fold := metrics.NewFold(last, known, slices.Sorted(maps.Keys(counts)), names)
	projector.Observers = append(projector.Observers, fold)
	beats := metrics.NewBeats()
	loops := metrics.NewLoops(scheduler.LoopSweep, scheduler.LoopPresence, scheduler.LoopReact, scheduler.LoopBreaker, scheduler.LoopAdmit)
	config.Looked = loops.Looked
	patience := missedRounds*config.Sweep + slowRound
	f.server = &observe.Server{
		Model: projector.Store, Settings: config.Settings, Patience: patience, Repairs: func() map[string]int64 { return nil },
		Definition: store.Definition, Names: names, Now: p.clock.Now, Failed: f.monitor.Failed,
	}
	p.watchStore(store)
	lag, limits := &metrics.Lag{}, metrics.NewLimits()
	f.limits = limits
	f.monitor.Add(fold, beats, loops, lag, f.server, limits)
	f.monitor.Expect(observe.LagCheck(lag),
		observe.LoopCheck(loops, scheduler.LoopSweep, patience),
		observe.LoopCheck(loops, scheduler.LoopPresence, patience))
	p.start(func(ctx context.Context) error {
		return observe.FollowLag(ctx, lag, store.Last, projector.Store.Reached, f.monitor.Failed)
	})
	return observe.Watched{Heartbeats: store, Beats: beats, Now: p.clock.Now}, nil
}

// watchScheduler adds metrics of the scheduler's repairs, by kind, and of its limits.
func (f *figures) watchScheduler(s *scheduler.Scheduler) {
	if f == nil {
		return
	}
	f.limits.Watch(func() []quota.CounterState {
		counters, _ := s.Limits("", 0)
		return counters
	})
	f.server.Repairs = func() map[string]int64 {
		counts := s.Repairs()
		all := make(map[string]int64, len(scheduler.RepairKinds))
		for _, kind := range scheduler.RepairKinds {
			all[string(kind)] = int64(counts[kind]) // also 0: so the first one is a rise
		}
		return all
	}
}

func (f *figures) watchWorker(w *worker.Worker, ttl time.Duration) {
	if f == nil {
		return
	}
	ask := observe.AskWorker(func() observe.Worker { return observe.Worker(w.Stats()) })
	f.monitor.Add(ask)
	f.monitor.Expect(ask.Check(ttl))
}
