package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/task/schedule"
)

func (a *app) scheduleNext() *cobra.Command {
	var o output
	var w whenFlags
	var from, name string
	var n int
	c := &cobra.Command{
		Use: "next [NAME | --cron EXPR | --every D | --at TIME] [flags]", Aliases: []string{"preview"},
		Short: "Show the next ticks of a schedule, or of an expression without any server",
		Long: `Shows the ticks that come next, with what the change of clocks, delays and the calendar have to do with them: of a stored schedule,
or of what the flags say; that needs no server. --from without a zone of its own is a time of --timezone.`,
		Example: `  millrace schedule next nightly -n 10
  millrace schedule next --cron "30 2 * * *" --timezone Europe/Berlin --dst twice --from 2026-10-24 -n 3`,
		Args: takes(0, 1, "schedule"), ValidArgsFunction: a.completeSchedules,
		DisableFlagsInUseLine: true,
	}
	w.flags(c)
	fs := c.Flags()
	fs.StringVar(&from, "from", "", "ticks from this `time` on (default now)")
	fs.IntVarP(&n, "count", "n", 5, "how many, at most 10000")
	fs.StringVar(&name, "name", "preview", "the `name` that decides H, --spread and --jitter")
	o.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if n < 1 || n > 10_000 {
			return misuse(c, "--count is %d, want 1 to 10000", n)
		}
		var plan *schedule.Plan
		if len(args) == 1 {
			if w.Cron != "" || w.every.set || w.At != "" {
				return misuse(c, "a schedule's name and --cron, --every or --at: choose one")
			}
			name = args[0]
			cl, err := a.connect(c.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			asking, cancel := a.asking(c.Context())
			defer cancel()
			stored, err := cl.Schedule(asking, name)
			if err != nil {
				return err
			}
			if stored.Paused != nil {
				a.note("it is paused: %s", cmp.Or(stored.Paused.Reason, "no reason was given"))
			}
			if plan, err = stored.Plan(); err != nil {
				return err
			}
		} else {
			var err error
			if plan, err = schedule.Compile(name, w.when(), a.now()); err != nil {
				return misuse(c, "%w", err)
			}
		}
		after := a.now()
		if from != "" {
			var err error
			if after, err = parseAbsolute(from, a.now().In(plan.Zone())); err != nil {
				return misuse(c, "--from: %w", err)
			}
			after = after.Add(-time.Nanosecond) // from then on
			if len(args) == 0 && w.every.set && w.Start == "" {
				s := w.when()
				if plan, err = schedule.Compile(name, s, after.Add(time.Nanosecond)); err != nil {
					return misuse(c, "%w", err)
				}
			}
		}
		return a.printNext(plan, name, after, n, o.json())
	}
	return c
}

// shownTick is a tick as JSON shows it.
type shownTick struct {
	schedule.Tick
	// Local is the tick on the clock of the schedule's zone.
	Local string `json:"local"`
}

// printNext prints the ticks after a time.
func (a *app) printNext(plan *schedule.Plan, name string, after time.Time, n int, asJSON bool) error {
	ticks := []shownTick{}
	for len(ticks) < n {
		t, ok := plan.Next(after)
		if !ok {
			break
		}
		ticks = append(ticks, shownTick{t, zoned(t.At, plan)})
		after = t.At
	}
	if asJSON {
		return a.writeJSON(struct {
			Zone  string      `json:"timezone"`
			DST   string      `json:"dst"`
			Ticks []shownTick `json:"ticks"`
		}{plan.Zone().String(), plan.Policy(), ticks})
	}
	t := table{header: []string{"TICK", "UTC", "FIRES", "NOTE"}, foot: []string{fmt.Sprintf("%s in %s, dst %s", plural(len(ticks), "tick"), plan.Zone(), plan.Policy())}}
	if len(ticks) == 0 {
		t.foot = []string{"nothing comes any more"}
	}
	for _, k := range ticks {
		fires := ""
		if !k.Due.Equal(k.At) {
			fires = k.Due.In(plan.Zone()).Format("15:04:05.000")
		}
		t.add(plain(k.Local), plain(k.At.UTC().Format(time.RFC3339)), plain(fires), plain(k.Note))
	}
	return a.print(t)
}
