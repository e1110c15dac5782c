// Command millrace-chaos breaks a millrace on purpose: `millrace chaos` starts it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"millrace/events/jet"
	"millrace/integration/chaos"
	"millrace/integration/load"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
)

// Exit codes of `millrace chaos`, beside the common ones.
const (
	exitChaosBroken  = 2
	exitChaosUnknown = 3
)

func main() { connect.Chaos.Main(commands) }

// commands are those of the program.
func commands(a *connect.App) []*cobra.Command {
	of := &app{a}
	return []*cobra.Command{of.command(), of.logCommand(), of.pushCommand()}
}

// app is one run of the command.
type app struct{ *connect.App }

func (a *app) command() *cobra.Command {
	var o settings.Output
	var cfg chaos.Config
	var scenario string
	var plan bool
	var page string
	c := &cobra.Command{
		Use:   connect.Chaos.Name,
		Short: connect.Chaos.Short,
		Long: `Starts a NATS server, schedulers and workers, each as a process of its own on loopback
and behind a proxy of its own. It submits tasks, and kills, stops and cuts off the
processes of the scenario. When everything has ended it checks the log: is an acknowledged
task lost, has a task two results, is one stuck, does a read model differ from the log?
It prints how long it took to notice faults, to take work over and to come back.

The same seed gives the same faults at the same times, for the same duration, workers,
schedulers and settings; --plan prints them. The scenarios:

` + scenarioLines() + `
A scenario that has a dot or a slash in its name is a YAML file with steps of your own:

  steps:
    - {at: 2s, fault: kill, target: worker-1, for: 10s}
    - {at: 5s, fault: blackhole, target: workers, for: 3s}
    - {at: 9s, fault: delay, target: scheduler-1, for: 3s, delay: 100ms}

Faults: ` + faultWords() + `.
Targets: server, worker-N, scheduler-N, workers, schedulers, all, callers (whose clock may be
wrong: schedules are made, too, and their ticks counted), and pusher and cache, with which half of the short tasks run with files.

Exit codes: 0 no promise was broken; 2 one was; 3 unknown: the command line or the file
is wrong, a process could not be started, or the log could not be read.`,
		Example: `  millrace chaos
  millrace chaos --scenario server-restart --seed 7 --duration 2m
  millrace chaos --scenario mix --seed 7 --plan
  millrace chaos --scenario ./outage.yaml --json
  millrace chaos --scenario kill --report chaos.html`,
		Args: func(c *cobra.Command, args []string) error { return untold(settings.Takes(0, 0, "")(c, args)) },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return untold(settings.FlagError(c, err)) })
	fs := c.Flags()
	fs.StringVar(&scenario, "scenario", "mix", "`name` of a scenario, or a YAML file with steps")
	fs.Uint64Var(&cfg.Seed, "seed", 1, "`number` from which the plan and the tasks follow")
	cfg.Duration = time.Minute
	settings.Period(fs, &cfg.Duration, "duration", "how `long` to submit tasks and make faults")
	fs.IntVar(&cfg.Workers, "workers", 3, "`number` of workers")
	fs.IntVar(&cfg.Schedulers, "schedulers", 2, "`number` of schedulers")
	fs.IntVar(&cfg.Slots, "slots", 8, "`number` of tasks that a worker runs at once")
	fs.Float64Var(&cfg.Rate, "rate", 10, "`number` of tasks submitted in a second")
	fs.IntVar(&cfg.Tasks, "tasks", 0, "`number` of tasks at most, 0 for as many as the rate gives")
	fs.StringVar(&cfg.Older, "older", "", "`folder` with millrace and millrace-chaos of another version, for the scenario upgrade and the fault older")
	settings.Period(fs, &cfg.Settling, "settle", "how `long` after the last fault no task may end before the open tasks count as stuck (default 20s and four times --ack-wait)")
	fs.BoolVar(&plan, "plan", false, "print the faults and their times, and do nothing")
	fs.BoolVar(&cfg.Keep, "keep", false, "keep the data and the output of the processes, and print where")
	fs.StringVar(&page, "report", "", "also write a page with charts of the load, and of what was broken when, to a `file`, such as chaos.html")
	o.Flags(c)
	_ = c.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(chaos.ScenarioNames(), cobra.ShellCompDirectiveDefault))
	flags := settings.AddFlags(fs, settings.Dev, settings.Staying)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, origins, err := a.LoadSettings(flags, settings.Dev)
		if err != nil {
			return untold(err)
		}
		if err := a.chaosConfig(&cfg, s, origins, scenario); err != nil {
			return untold(err)
		}
		if err := load.Writable(page); err != nil {
			return untold(err)
		}
		steps, err := cfg.Planned()
		switch {
		case err != nil:
			return untold(err)
		case plan:
			return a.printPlan(steps, o.JSON())
		}
		if cfg.Program, err = connect.Product(); err != nil {
			return untold(err)
		}
		report, err := a.chaos(c.Context(), cfg, o.JSON())
		if err == nil && report.Load != nil {
			err = load.WritePage(page, report.Load, nil, report.Breaks)
		}
		if err != nil {
			return untold(err)
		}
		return term.ExitWith(map[chaos.Verdict]int{chaos.OK: term.ExitOK, chaos.Broken: exitChaosBroken, chaos.Unknown: exitChaosUnknown}[report.Verdict])
	}
	return c
}

// untold gives an error the code for "no verdict", for callers that look only at the code. An
// interruption keeps its own.
func untold(err error) error {
	f := term.FaultOf(err)
	if f == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &term.Fault{Code: exitChaosUnknown, Err: f.Err, Hint: f.Hint}
}

func scenarioLines() string {
	var b strings.Builder
	for _, s := range chaos.Scenarios {
		fmt.Fprintf(&b, "  %-15s %s\n", s.Name, s.What)
	}
	return b.String()
}

func faultWords() string {
	words := make([]string, len(chaos.Faults))
	for i, f := range chaos.Faults {
		words[i] = string(f)
	}
	return strings.Join(words, ", ")
}

// chaosConfig completes the configuration from the flags.
func (a *app) chaosConfig(cfg *chaos.Config, s settings.Values, origins map[string]settings.Origin, scenario string) error {
	cfg.Scenario = scenario
	if strings.ContainsAny(scenario, "./\\") {
		text, err := os.ReadFile(scenario)
		if errors.Is(err, fs.ErrNotExist) {
			return &term.Fault{Err: fmt.Errorf("scenario: %w", err), Hint: term.Hint("`millrace chaos --help` lists the scenarios and shows what a file looks like")}
		}
		if err != nil {
			return fmt.Errorf("scenario: %w", err)
		}
		if cfg.Steps, err = chaos.ParseSteps(filepath.Base(scenario), text, cfg.Workers, cfg.Schedulers); err != nil {
			return err
		}
	}
	cfg.Layout, cfg.Rules, cfg.NodeTTL, cfg.Grace = s.Layout(), s.Task(), s.NodeTTL, s.Grace
	for _, d := range settings.All {
		text := d.Text(&s)
		if d.Name == "sync" {
			cfg.Sync = text
		}
		flag := []string{"--" + d.Flag(), text}
		cfg.Settings = append(cfg.Settings, flag...)
		if origins[d.Name] != "profile "+s.Profile {
			cfg.Given = append(cfg.Given, flag...)
		}
	}
	profile := []string{"--profile", s.Profile}
	cfg.Settings, cfg.Given = append(cfg.Settings, profile...), append(cfg.Given, profile...)
	cfg.Dial = func(url, name string) (*nats.Conn, error) {
		// Without a Log: the run cuts connections on purpose.
		return jet.Connect(jet.ConnectConfig{Server: url, Name: name})
	}
	return nil
}

func (a *app) printPlan(steps []chaos.Step, json bool) error {
	if json {
		return a.WriteJSON(steps)
	}
	for _, s := range steps {
		fmt.Fprintln(a.Out, s)
	}
	return nil
}

// chaos runs it and prints the result.
func (a *app) chaos(ctx context.Context, cfg chaos.Config, json bool) (chaos.Report, error) {
	if term.Terminal(a.Errs) && !json {
		cfg.Progress = a.chaosProgress()
	}
	report, err := chaos.Run(ctx, cfg)
	switch {
	case err != nil:
		return report, err
	case json:
		return report, a.WriteJSON(report)
	}
	return report, a.Print(chaosTable(&report))
}

// chaosProgress prints a line for every fault, and now and then one for the tasks.
func (a *app) chaosProgress() func(chaos.Progress) {
	const often = 5 * time.Second
	var told time.Duration
	return func(p chaos.Progress) {
		switch {
		case p.At < 0:
			a.Note("%s", p.What)
			return
		case p.What == "" && p.At < told+often:
			return
		case p.What == "":
			told = p.At
		}
		fmt.Fprintf(a.Errs, "%6.1fs  %5d submitted, %5d ended, %3d running  %s\n", p.At.Seconds(), p.Submitted, p.Ended, p.Running, p.What)
	}
}

func chaosTable(r *chaos.Report) term.Table {
	t := term.Table{Title: fmt.Sprintf("Chaos: %s, seed %d", r.Scenario, r.Seed)}
	colours := map[chaos.Verdict]term.Colour{chaos.OK: term.Green, chaos.Broken: term.Red, chaos.Unknown: term.Yellow}
	t.Add(term.Dim("verdict"), term.Tinted(string(r.Verdict), colours[r.Verdict]))
	t.Field("faults", tally(r.Faults))
	t.Field("tasks", fmt.Sprintf("%d, of which %d acknowledged; %s", r.Tasks, r.Acknowledged, tally(r.States)))
	t.Field("lost, duplicated, stuck", fmt.Sprintf("%d, %d, %d", r.Lost, r.DuplicatedResults, r.Stuck))
	t.Field("limits", fmt.Sprintf("%d tasks ran under them, %d were refused and %d made place; exceeded %d times", r.Limits.Tasks, r.Limits.Refused, r.Limits.Replaced, r.Limits.Exceeded))
	t.Field("decisions", fmt.Sprintf("%d made again, %d could not be", r.Decisions-r.Unjudged, r.Unjudged))
	t.Field("takeovers", fmt.Sprintf("%d by workers, %d attempts declared lost, %d late results refused", r.Takeovers, r.LostAttempts, r.LateResults))
	t.Field("detection", latencyText(r.Detection))
	t.Field("takeover", latencyText(r.Takeover))
	t.Field("reconnect to ready", latencyText(r.Reconnect))
	t.Field("start of tasks", latencyText(r.Start))
	if times := r.Times; times != nil {
		t.Field("times", fmt.Sprintf("%d delayed tasks, %d ticks, of which %d missed", times.Delayed, times.Ticks, times.Missed))
		t.Field("ticks late", latencyText(times.Late))
	}
	if f := r.Files; f != nil {
		t.Field("files", fmt.Sprintf("%d versions pushed, %d tasks had the bytes of theirs, the cache was spoilt %d times", f.Versions, f.Tasks, f.Spoiled))
	}
	t.Field("disk", r.Disk)
	t.Field("sweep repairs", fmt.Sprint(r.SweepRepairs))
	t.Field("took", fmt.Sprintf("%.1fs", r.Seconds))
	for _, b := range r.Broken {
		t.Add(term.Dim("broken"), term.Tinted(b, term.Red))
	}
	for _, odd := range r.Odd {
		t.Field("odd", odd)
	}
	t.Field("incident", r.Incident)
	if r.Verdict == chaos.OK && len(r.Odd) > 0 {
		t.Foot = append(t.Foot, "what is odd is worth a look and breaks no promise: docs/chaos.md says why")
	}
	t.Field("data", r.Dir)
	return t
}

func latencyText(l chaos.Latency) string {
	if l.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms, max %.0f ms, of %d", l.P50, l.P99, l.Max, l.Count)
}

// tally formats counts in the order of their names.
func tally[K ~string](counts map[K]int) string {
	var words []string
	for k, n := range counts {
		words = append(words, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// logCommand is the NATS server of `millrace chaos`: its process holds nothing else, so that
// it can be killed alone.
func (a *app) logCommand() *cobra.Command {
	var e serve.Embedded
	var sync string
	c := &cobra.Command{Use: chaos.LogCommand, Hidden: true, Args: settings.Takes(0, 0, "")}
	c.Flags().StringVar(&e.Data, "data", "", "`directory` of the data")
	c.Flags().StringVar(&sync, "sync", "1s", "how often it flushes to disk")
	c.Flags().StringVar(&e.User, "auth-user", "", "`name` of the user that clients must be")
	c.Flags().StringVar(&e.PasswordFile, "auth-password-file", "", "`file` with that user's password")
	e.Host, e.Set = "127.0.0.1", c.Flags()
	c.RunE = func(c *cobra.Command, _ []string) error {
		var s settings.Values
		if err := settings.ReadSync(&s, sync); err != nil {
			return term.MisuseOf(err)
		}
		server, err := e.Start(s, a.ProcessLogger())
		if err != nil {
			return err
		}
		defer server.Stop()
		remove, err := e.Publish(server)
		if err != nil {
			return err
		}
		defer remove()
		return serve.Guard(c.Context(), server)
	}
	return c
}
