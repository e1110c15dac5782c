// Command millrace-bench measures a millrace: `millrace bench` starts it.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"millrace/events/jet"
	"millrace/integration/bench"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/task"
	"millrace/worker/process"
	"millrace/worker/process/child"
)

func main() { connect.Bench.Main(commands) }

// commands are those of the program.
func commands(a *connect.App) []*cobra.Command {
	of := &app{a}
	return []*cobra.Command{of.command(), of.memberCommand()}
}

// app is one run of the command.
type app struct{ *connect.App }

func (a *app) command() *cobra.Command {
	var o settings.Output
	var cfg bench.Config
	var sync string
	var memory int
	var metrics bool
	var chatter chatterFlags
	var loads loadFlags
	c := &cobra.Command{
		Use:   connect.Bench.Name,
		Short: connect.Bench.Short,
		Long: `Measures no-op tasks beside the bare messages that every task needs, and process tasks
beside plain fork and exec, in turn against the same server, so that the ratios hold on
a noisy machine. It starts a "millrace server" of its own in a temporary directory,
read model included, and removes it afterwards. Run nothing else on the machine meanwhile.`,
		Example: `  millrace bench
  millrace bench --json --rounds 5
  millrace bench --sync always
  millrace bench --growth 1000,100000,1000000
  millrace bench --steps 100000 --future 1000000
  millrace bench --log-bytes 1GB
  millrace bench --records 500000
  millrace bench --idle 1000
  millrace bench --follow 100
  millrace bench --files 1GiB
  millrace bench --schedules 20000
  millrace bench --nodes 1000 --node-queues 100
  millrace bench --nodes 1000 --node-servers 3
  millrace bench --pages 1000000
  millrace bench --forget 100000
  millrace bench --through 10000000
  millrace bench --profile mixed --rate 300 --for 1m --json`,
		Args: settings.Takes(0, 0, ""),
	}
	fs := c.Flags()
	fs.IntVar(&cfg.Tasks, "tasks", 50_000, "`number` of no-op tasks in a round")
	fs.IntVar(&cfg.Rounds, "rounds", 3, "`number` of rounds; the median counts (5 with --profile)")
	fs.IntVar(&cfg.Slots, "slots", 256, "`number` of tasks in flight (1024 with --sync always)")
	fs.IntVar(&cfg.Processes, "processes", 2000, "`number` of process tasks in a round")
	fs.IntVar(&cfg.Latencies, "latencies", 500, "`number` of single tasks that are timed")
	fs.IntSliceVar(&cfg.Growth, "growth", nil, "`sizes` of the log, in tasks, at which the cost of a task is measured")
	fs.IntVar(&cfg.Keys, "keys", 0, "`number` of keys over which tasks with limits are spread, to measure what limits cost")
	fs.IntVar(&cfg.Steps, "steps", 0, "`number` of steps of a graph in which each needs two others (default: not measured)")
	fs.IntVar(&cfg.Future, "future", 0, "`number` of tasks that are due in years, to measure their cost for tasks that run now")
	fs.IntVar(&memory, "memory-tasks", 200_000, "`number` of finished tasks by which the server's memory is measured, 0 to leave it out")
	fs.StringVar(&sync, "sync", "1s", "how often the server flushes to disk: always, or a `duration`")
	fs.BoolVar(&metrics, "metrics", false, "have the server collect metrics for Prometheus")
	chatter.add(fs)
	loads.add(c)
	o.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		plan, loaded, err := loads.plan(c)
		if err != nil {
			return err
		}
		if chatter.asked() {
			return a.benchChatter(c.Context(), cfg, sync, &chatter, &o)
		}
		if sync == "always" && !fs.Changed("slots") {
			cfg.Slots = 1024 // a flush takes its time, however many share it
		}
		if loaded {
			if !fs.Changed("rounds") {
				cfg.Rounds = loadRounds
			}
			return a.benchLoad(c.Context(), cfg, sync, plan, &loads, &o)
		}
		report, err := a.bench(c.Context(), cfg, sync, memory, metrics)
		if err != nil {
			return err
		}
		if o.JSON() {
			return a.WriteJSON(report)
		}
		return a.Print(benchTable(&report))
	}
	return c
}

func (a *app) bench(ctx context.Context, cfg bench.Config, sync string, memory int, metrics bool) (bench.Report, error) {
	address := settings.Off
	if metrics {
		address = "127.0.0.1:0"
	}
	product, stop, err := a.benchSetUp(ctx, &cfg, sync, freshServer(sync, address))
	if err != nil {
		return bench.Report{}, err
	}
	defer stop()
	var resting *bench.MemoryRun
	if memory > 0 {
		if resting, stop, err = a.benchMemory(ctx, cfg, product, sync, address); err != nil {
			return bench.Report{}, err
		}
		defer stop()
	}
	report, err := bench.Run(ctx, cfg)
	if err != nil {
		return report, err
	}
	if cfg.Future > 0 {
		if report.Future, err = a.benchFuture(ctx, cfg, product, sync, address); err != nil {
			return report, err
		}
	}
	if resting == nil {
		return report, nil
	}
	used, err := resting.Finish(ctx, memory)
	report.Memory, report.BytesPerTask = &used, used.PerTask
	return report, err
}

// benchMemory begins to measure the memory of a fresh server, which comes to rest while others are
// measured.
func (a *app) benchMemory(ctx context.Context, cfg bench.Config, product, sync, address string) (*bench.MemoryRun, func(), error) {
	cfg.Progress("memory of the server: the first tasks")
	fresh, err := bench.StartServer(ctx, product, sync, address)
	if err != nil {
		return nil, nil, err
	}
	cfg.ServerMemory, cfg.ServerTime = fresh.Memory, fresh.Time
	cfg.Dial = func(name string) (*nats.Conn, error) {
		return jet.Connect(jet.ConnectConfig{Server: fresh.URL, Name: name, Log: a.Logger()})
	}
	resting, err := bench.StartMemory(ctx, cfg)
	if err != nil {
		fresh.Stop()
		return nil, nil, err
	}
	return resting, func() { resting.Close(); fresh.Stop() }, nil
}

// benchProgress prints what is measured, or waited for: on a terminal in one line that is
// rewritten, else in one line each.
func (a *app) benchProgress() (say func(what string), stop func()) {
	line := a.Progress()
	return func(what string) {
		if term.Terminal(a.Errs) {
			line.Say("measuring: "+what, task.Task{Since: time.Now()})
			return
		}
		a.Note("measuring: %s", what)
	}, line.Stop
}

// benchFuture measures the cost of tasks that are due much later, on two servers, one of which has
// none.
func (a *app) benchFuture(ctx context.Context, cfg bench.Config, product, sync, address string) (*bench.Future, error) {
	var on [2]bench.Config
	for i := range on {
		server, err := bench.StartServer(ctx, product, sync, address)
		if err != nil {
			return nil, err
		}
		defer server.Stop()
		on[i] = cfg
		on[i].ServerTime, on[i].ServerMemory = server.Time, server.Memory
		on[i].Dial = func(name string) (*nats.Conn, error) {
			return jet.Connect(jet.ConnectConfig{Server: server.URL, Name: name, Log: a.Logger()})
		}
	}
	f, err := bench.MeasureFuture(ctx, on[0], on[1])
	return &f, err
}

// serverStart starts a server of the millrace at a path.
type serverStart func(ctx context.Context, product string) (*bench.Server, error)

// freshServer starts one whose data are in a temporary directory.
func freshServer(sync, metrics string, more ...string) serverStart {
	return func(ctx context.Context, product string) (*bench.Server, error) {
		return bench.StartServer(ctx, product, sync, metrics, more...)
	}
}

// benchSetUp starts a server and a runner of processes, and completes cfg with them. It returns the
// path of the millrace that is measured.
func (a *app) benchSetUp(ctx context.Context, cfg *bench.Config, sync string, start serverStart) (product string, stop func(), err error) {
	var s settings.Values
	if err := settings.ReadSync(&s, sync); err != nil {
		return "", nil, term.MisuseOf(fmt.Errorf("--sync is %q: %w", sync, err))
	}
	if product, err = connect.Product(); err != nil {
		return "", nil, err
	}
	runner, err := child.NewRunner(child.Config{Guard: []string{product, serve.GuardName}, Log: a.Logger()})
	if err != nil {
		return "", nil, err
	}
	tasks := &process.Tasks{Runner: runner, Node: "bench"}
	working, stopWorking := context.WithCancel(ctx)
	// As in a worker, but there may be thousands here; it ends with working.
	go func() { _ = settings.Ease(working, 0, settings.Briskly) }()
	say, quiet := a.benchProgress()
	end := func() { quiet(); stopWorking(); tasks.Close(); runner.Close() }
	cfg.Commands, cfg.Progress = tasks, say
	cfg.Layout.SyncAlways = s.SyncAlways
	server, err := start(ctx, product)
	if err != nil {
		end()
		return "", nil, err
	}
	cfg.Dial = func(name string) (*nats.Conn, error) {
		return jet.Connect(jet.ConnectConfig{Server: server.URL, Name: name, Log: a.Logger()})
	}
	cfg.ServerMemory, cfg.ServerTime, cfg.ServerDisk, cfg.Pages = server.Memory, server.Time, server.Disk, server.Pages
	cfg.Again = func(ctx context.Context, keeps int) error {
		return server.Again(ctx, product, sync, settings.Off, keeping(keeps)...)
	}
	return product, func() { server.Stop(); end() }, nil
}

// memberCommand is one of the NATS servers of a benchmark.
func (a *app) memberCommand() *cobra.Command {
	c := &cobra.Command{Use: bench.MemberCommand + " DIR NUMBER ROUTES", Hidden: true, Args: settings.Takes(3, -1, "directory, number, routes")}
	c.RunE = func(c *cobra.Command, args []string) error { return bench.RunMember(c.Context(), args, a.Out) }
	return c
}

// costText formats a processor time.
func costText(c *bench.Cost) string {
	return fmt.Sprintf("server %.0f µs, worker %.0f µs", c.Server, c.Worker)
}

func benchTable(r *bench.Report) term.Table {
	t := term.Table{Title: "Millrace on this machine", Header: []string{"WHAT", "MILLRACE", "BELOW IT", "RATIO"}}
	row := func(what string, here, below, ratio float64) {
		t.Add(term.Plain(what), term.Plain(fmt.Sprintf("%.0f/s", here)), term.Plain(fmt.Sprintf("%.0f/s", below)), term.Plain(fmt.Sprintf("%.2f", ratio)))
	}
	row("no-op tasks, queue filled before", r.TasksPerSecond, r.FloorTasksPerSecond, r.Ratio)
	if r.TaskCost.Server > 0 {
		t.Add(term.Plain("processor time of each"), term.Plain(costText(&r.TaskCost)), term.Plain(costText(&r.FloorTaskCost)), term.Plain(""))
	}
	row("no-op tasks, submitted meanwhile", r.AtOncePerSecond, r.FloorAtOncePerSecond, r.AtOnceRatio)
	row("bulk submission", r.SubmitPerSecond, r.FloorSubmitPerSecond, r.SubmitPerSecond/r.FloorSubmitPerSecond)
	if r.ProcessPerSecond > 0 {
		row("processes (/bin/true)", r.ProcessPerSecond, r.PlainPerSecond, r.ProcessRatio)
	}
	value := func(what, v string) { t.Add(term.Plain(what), term.Plain(v), term.Plain(""), term.Plain("")) }
	value("start latency p50, p99, max", fmt.Sprintf("%.2f, %.2f, %.2f ms", r.StartLatency.P50, r.StartLatency.P99, r.StartLatency.Max))
	value("read model behind", fmt.Sprintf("%.0f ms", r.BehindMS))
	if r.Memory != nil {
		value("server memory per finished task", fmt.Sprintf("%.0f B", r.BytesPerTask))
		value(fmt.Sprintf("server memory with %d, peak, idle", r.Memory.Tasks), fmt.Sprintf("%d, %d MiB", r.Memory.Peak>>20, r.Memory.Idle>>20))
	}
	if r.Steps > 0 {
		value(fmt.Sprintf("graph of %d steps", r.Steps), fmt.Sprintf("%.0f/s, %s", r.StepsPerSecond, costText(r.StepCost)))
	}
	for _, g := range r.Growth {
		value(fmt.Sprintf("no-op tasks, %d in the log", g.LogTasks), fmt.Sprintf("%.0f/s", g.TasksPerSecond))
	}
	if l := r.Limited; l != nil {
		t.Add(term.Plain(fmt.Sprintf("no-op tasks under %d limits", l.Keys)), term.Plain(fmt.Sprintf("%.0f/s", l.TasksPerSecond)), term.Plain("without limits"), term.Plain(fmt.Sprintf("%.2f", l.Ratio)))
		value("processor time of each", costText(&l.Cost)+"; without limits "+costText(&l.FreeCost))
		value("start latency under a limit p50, p99", fmt.Sprintf("%.2f, %.2f ms", l.StartLatency.P50, l.StartLatency.P99))
		value(fmt.Sprintf("the same while %d wait for another", l.Held), fmt.Sprintf("%.2f, %.2f ms", l.StartLatencyBehind.P50, l.StartLatencyBehind.P99))
	}
	if f := r.Future; f != nil {
		for _, m := range []struct {
			what string
			bench.Beside
		}{{"queue filled before", f.Drain}, {"submitted meanwhile", f.AtOnce}} {
			t.Add(term.Plain(fmt.Sprintf("no-op tasks, %s, %d due in years", m.what, f.Tasks)), term.Plain(fmt.Sprintf("%.0f/s", m.With)),
				term.Plain(fmt.Sprintf("%.0f/s without", m.Without)), term.Plain(fmt.Sprintf("%.2f", m.Ratio)))
			value("processor time with and without", costText(&m.CostWith)+"; "+costText(&m.CostWithout))
		}
		value("start latency with them p50, p99", fmt.Sprintf("%.2f, %.2f ms", f.StartLatency.P50, f.StartLatency.P99))
		value("submission of them", fmt.Sprintf("%.0f/s", f.SubmitPerSecond))
	}
	value("lost, duplicated", fmt.Sprintf("%d, %d of %d", r.Lost, r.Duplicated, r.Submitted))
	return t
}
