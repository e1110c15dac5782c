package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/integration/bench"
	"millrace/integration/load"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/task/value"
)

// loadFlags are the flags of a load test.
type loadFlags struct {
	profile settings.Choice
	spacing settings.Choice
	rate    float64
	length  time.Duration

	baseline, report string

	keep         int
	disk, memory value.Size
}

// loadRounds is how many rounds a load test has by default: fewer cannot be judged.
const loadRounds = 5

func (f *loadFlags) add(c *cobra.Command) {
	f.profile, f.spacing = settings.Choice{Of: load.Names()}, settings.Choice{Value: load.Spacings[0], Of: load.Spacings}
	fs := c.Flags()
	fs.Var(&f.profile, "profile", "measure only a `load` with arrivals at a given rate; docs/load.md lists them")
	fs.Float64Var(&f.rate, "rate", 0, "`arrivals` of the load in a second (default: the profile's)")
	settings.Period(fs, &f.length, "for", "how long tasks arrive, a `duration` (default: the profile's)")
	fs.Var(&f.spacing, "arrivals", "whether tasks arrive at random or evenly: `poisson` or even")
	fs.StringVar(&f.baseline, "baseline", "", "compare with the JSON of an earlier --profile in a `file`, and end with 8 if something is worse beyond noise")
	fs.IntVar(&f.keep, "keep-tasks", 0, "`number` of ended tasks that the server keeps (default: all)")
	fs.TextVar(&f.disk, "most-disk", value.Size(0), "end with 8 if the server takes more `bytes` of disk, such as 1GiB")
	fs.TextVar(&f.memory, "most-memory", value.Size(0), "end with 8 if it takes more `bytes` of memory")
	fs.StringVar(&f.report, "report", "", "also write a page with charts to a `file`, such as load.html; it needs nothing else")
}

// plan returns the requested plan.
func (f *loadFlags) plan(c *cobra.Command) (p load.Plan, asked bool, err error) {
	if f.profile.Value == "" {
		for _, name := range []string{"rate", "for", "arrivals", "baseline", "report", "keep-tasks", "most-disk", "most-memory"} {
			if c.Flags().Changed(name) {
				return p, false, term.Misuse(c, "--%s is about a load: say which with --profile", name)
			}
		}
		return p, false, nil
	}
	if p, err = load.NewPlan(f.profile.Value, f.rate, f.length, f.spacing.Value); err != nil {
		return p, true, term.MisuseOf(err)
	}
	return p, true, nil
}

// loadReport is printed as JSON: a result, and its comparison with an earlier one.
type loadReport struct {
	load.Result
	Findings []load.Finding `json:"findings,omitempty"`
}

func (a *app) benchLoad(ctx context.Context, cfg bench.Config, sync string, plan load.Plan, f *loadFlags, o *settings.Output) error {
	r := loadReport{Result: load.Result{Profile: plan.Name, Rate: plan.Rate, Seconds: plan.For.Seconds(), Spacing: plan.Spacing, Version: wording.ThisBuild().Version}}
	was, err := f.earlier(&r.Result, cfg.Rounds)
	if err != nil {
		return err
	}
	if err := load.Writable(f.report); err != nil {
		return term.MisuseOf(err)
	}
	for i := range cfg.Rounds {
		round, err := a.benchRound(ctx, cfg, sync, plan, f.keep, fmt.Sprintf("round %d of %d, ", i+1, cfg.Rounds))
		if err != nil {
			return err
		}
		r.Rounds = append(r.Rounds, round)
	}
	if was != nil {
		if r.Findings, err = load.Compare(was, &r.Result); err != nil {
			return err
		}
	}
	if err := errors.Join(a.printLoad(&r, o), load.WritePage(f.report, &r.Result, r.Findings, nil)); err != nil {
		return err
	}
	if over := (load.Bounds{Disk: int64(f.disk), Memory: int64(f.memory)}).Over(&r.Result); over != nil {
		return &term.Fault{Code: term.ExitWorse, Err: over}
	}
	if slices.ContainsFunc(r.Findings, func(f load.Finding) bool { return f.Worse }) {
		return term.ExitWith(term.ExitWorse)
	}
	return nil
}

// earlier reads the result to compare with, before anything is measured; nil for none.
func (f *loadFlags) earlier(is *load.Result, rounds int) (*load.Result, error) {
	if f.baseline == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.baseline)
	if err != nil {
		return nil, term.MisuseOf(err)
	}
	var was load.Result
	if err := json.Unmarshal(text, &was); err != nil {
		return nil, term.MisuseOf(fmt.Errorf("%s is no result of bench --profile --json: %w", f.baseline, value.Plainly(err)))
	}
	if err := load.Comparable(&was, is, rounds); err != nil {
		return nil, term.MisuseOf(fmt.Errorf("%s: %w", f.baseline, err))
	}
	return &was, nil
}

func (a *app) printLoad(r *loadReport, o *settings.Output) error {
	if o.JSON() {
		return a.WriteJSON(r)
	}
	if err := a.Print(loadTable(&r.Result)); err != nil || r.Findings == nil {
		return err
	}
	return a.Print(findingsTable(r.Findings))
}

// benchRound measures one round on a server of its own, so that rounds do not influence each other.
func (a *app) benchRound(ctx context.Context, cfg bench.Config, sync string, plan load.Plan, keep int, which string) (load.Round, error) {
	_, stop, err := a.benchSetUp(ctx, &cfg, sync, freshServer(sync, settings.Off, keeping(keep)...))
	if err != nil {
		return load.Round{}, err
	}
	defer stop()
	say := cfg.Progress
	cfg.Progress = func(what string) { say(which + what) }
	return bench.Load(ctx, cfg, plan)
}

func findingsTable(all []load.Finding) term.Table {
	t := term.Table{Title: "Beside the baseline", Header: []string{"WHAT", "WAS", "IS", "TIMES AS BAD", "VERDICT"},
		Foot: []string{"medians; worse is what is worse by a twentieth or more at the lower end of its interval: docs/load.md"}}
	for _, f := range all {
		t.Add(term.Plain(f.What), term.Plain(load.Figure(f.Was)), term.Plain(load.Figure(f.Is)), term.Plain(f.Interval()), term.Plain(f.Verdict()))
	}
	return t
}

func loadTable(r *load.Result) term.Table {
	t := term.Table{Title: fmt.Sprintf("%s: %v arrivals a second (%s) for %v s", r.Profile, r.Rate, r.Spacing, r.Seconds), Header: []string{"ROUND"}}
	for i := range r.Rounds {
		t.Header = append(t.Header, strconv.Itoa(i+1))
	}
	for _, row := range r.Rows() {
		cells := []term.Cell{term.Plain(row.What)}
		for _, v := range row.Values {
			cells = append(cells, term.Plain(v))
		}
		t.Add(cells...)
	}
	t.Foot = []string{"times are from when an arrival was to come"}
	return t
}
