package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task/schedule"
)

func (a *Commands) scheduleNext() *cobra.Command {
	var o settings.Output
	var w whenFlags
	var from, until, name string
	var n int
	c := &cobra.Command{
		Use: "next [NAME | --cron EXPR | --every D | --at TIME] [flags]", Aliases: []string{"preview"},
		Short: "Show the next planned runs of all schedules, of one, or of an expression without any server",
		Long: `Shows the next planned runs, with notes on changes of clocks, delays and the calendar: of all stored schedules in the order
in which they are due, of one of them, or of an expression in the flags, which needs no server. --from
and --until without a zone of their own are times of --timezone.`,
		Example: `  millrace schedule next --until 18:00
  millrace schedule next nightly -n 10
  millrace schedule next --cron "30 2 * * *" --timezone Europe/Berlin --dst twice --from 2026-10-24 -n 3`,
		Args: settings.Takes(0, 1, "schedule"), ValidArgsFunction: a.CompleteSchedules,
		DisableFlagsInUseLine: true,
	}
	w.flags(c)
	fs := c.Flags()
	fs.StringVar(&from, "from", "", "planned runs from this `time` on (default now)")
	fs.StringVar(&until, "until", "", "planned runs until this `time`; then as many as there are, up to 10000")
	settings.Count(fs, &n, "count", "n", "how many, at most 10000 (default 5, of all schedules 20)")
	settings.Count(fs, &n, "limit", "", "the same as --count")
	fs.StringVar(&name, "name", "preview", "the `name` from which H, --spread and --jitter follow")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		chosen := w.Cron != "" || w.every.Given || w.At != ""
		everything := len(args) == 0 && !chosen
		switch {
		case c.Flags().Changed("count") || c.Flags().Changed("limit"):
		case until != "":
			n = maxNext
		case everything:
			n = 20
		default:
			n = 5
		}
		if n < 1 || n > maxNext {
			return term.Misuse(c, "--count is %d, want 1 to %d", n, maxNext)
		}
		if everything {
			return a.allNext(c, from, until, cmp.Or(w.Timezone, "UTC"), n, &o)
		}
		var plan *schedule.Plan
		if len(args) == 1 {
			if chosen {
				return term.Misuse(c, "a schedule's name and --cron, --every or --at: choose one")
			}
			name = args[0]
			cl, err := a.Connect(c.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			asking, cancel := a.Asking(c.Context())
			defer cancel()
			stored, err := cl.Schedule(asking, name)
			if err != nil {
				return err
			}
			if stored.Paused != nil {
				a.Note("it is paused: %s", cmp.Or(stored.Paused.Reason, "no reason was given"))
			}
			if plan, err = stored.Plan(); err != nil {
				return err
			}
		} else {
			var err error
			if plan, err = schedule.Compile(name, w.when(), a.Now()); err != nil {
				return term.Misuse(c, "%w", err)
			}
			if err := plan.Slip(); err != nil {
				return term.Misuse(c, "%w", err)
			}
		}
		after, last, err := a.between(c, from, until, plan.Zone())
		if err != nil {
			return err
		}
		if from != "" && len(args) == 0 && w.every.Given && w.Start == "" {
			if plan, err = schedule.Compile(name, w.when(), after.Add(time.Nanosecond)); err != nil {
				return term.Misuse(c, "%w", err)
			}
		}
		return a.printNext(plan, after, last, n, o.JSON())
	}
	return c
}

// maxNext bounds how many ticks are shown.
const maxNext = 10_000

// allNext shows the next ticks of all schedules.
func (a *Commands) allNext(c *cobra.Command, from, until, zone string, n int, o *settings.Output) error {
	place, err := time.LoadLocation(zone)
	if err != nil {
		return term.Misuse(c, "--timezone: %w", err)
	}
	after, last, err := a.between(c, from, until, place)
	if err != nil {
		return err
	}
	return a.Brief(func(ctx context.Context, cl *client.Client, _ []string) error {
		stored, broken := cl.Schedules(ctx)
		if broken != nil && len(stored) == 0 {
			return broken
		}
		plans, byName, paused := map[string]*schedule.Plan{}, map[string]*schedule.Stored{}, 0
		for i := range stored {
			s := &stored[i]
			plan, err := s.Plan()
			if err != nil {
				broken = errors.Join(broken, fmt.Errorf("schedule %s: %w", s.Name, err))
				continue
			}
			if s.Paused != nil {
				paused++
				continue
			}
			plans[s.Name], byName[s.Name] = plan, s
		}
		ticks := schedule.Timeline(plans, after, last, n)
		if paused > 0 {
			a.Note("%s paused: left out", wording.Plural(paused, "schedule"))
		}
		if o.JSON() {
			return errors.Join(a.WriteJSON(ticks), broken)
		}
		return errors.Join(a.Print(timelineTable(ticks, byName, plans, a.Now())), broken)
	})(c, nil)
}

// between returns the times after which and until which ticks are shown, those of --from and --until on
// the clock of a zone; the second is zero for none.
func (a *Commands) between(c *cobra.Command, from, until string, zone *time.Location) (after, last time.Time, err error) {
	now := a.Now()
	if after = now; from != "" {
		if after, err = view.ParseTime(from, now.In(zone)); err != nil {
			return after, last, term.Misuse(c, "--from: %w", err)
		}
		after = after.Add(-time.Nanosecond) // from then on
	}
	if until != "" {
		if last, err = view.ParseTime(until, now.In(zone)); err != nil {
			err = term.Misuse(c, "--until: %w", err)
		}
	}
	return after, last, err
}

func timelineTable(ticks []schedule.Upcoming, stored map[string]*schedule.Stored, plans map[string]*schedule.Plan, now time.Time) term.Table {
	t := term.Table{Header: []string{"DUE", "IN", "SCHEDULE", "ZONE", "RUNS", "NOTE"}, Spare: []string{"NOTE", "ZONE"}, Foot: []string{wording.Plural(len(ticks), "planned run")}}
	if len(ticks) == 0 {
		t.Foot = []string{"nothing comes"}
	}
	for i := range ticks {
		k := &ticks[i]
		t.Add(term.Plain(wording.ClockIn(k.Due, plans[k.Name].Zone())), term.Plain(wording.Span(max(k.Due.Sub(now), 0).Truncate(time.Second))), term.Plain(k.Name),
			term.Plain(plans[k.Name].Zone().String()), term.Plain(term.Cut(wording.What(&stored[k.Name].Definition), 40)), term.Plain(k.Note))
	}
	return t
}

// shownTick is a tick in JSON.
type shownTick struct {
	schedule.Tick
	// Local is the tick in the schedule's time zone.
	Local string `json:"local"`
}

// printNext prints the ticks after a time.
func (a *Commands) printNext(plan *schedule.Plan, after, until time.Time, n int, asJSON bool) error {
	ticks := []shownTick{}
	for len(ticks) < n {
		t, ok := plan.Next(after)
		if !ok || !until.IsZero() && t.At.After(until) {
			break
		}
		ticks = append(ticks, shownTick{t, wording.ClockIn(t.At, plan.Zone())})
		after = t.At
	}
	if asJSON {
		return a.WriteJSON(struct {
			Zone  string      `json:"timezone"`
			DST   string      `json:"dst"`
			Note  string      `json:"note,omitempty"`
			Ticks []shownTick `json:"ticks"`
		}{plan.Zone().String(), plan.Policy(), plan.Remark(), ticks})
	}
	if remark := plan.Remark(); remark != "" {
		a.Note("%s", remark)
	}
	t := term.Table{Header: []string{"PLANNED", "UTC", "DUE", "NOTE"}, Foot: []string{fmt.Sprintf("%s in %s, dst %s", wording.Plural(len(ticks), "planned run"), plan.Zone(), plan.Policy())}}
	if len(ticks) == 0 {
		t.Foot = []string{"nothing comes any more"}
		if _, later := plan.Next(after); later {
			t.Foot = []string{"nothing comes until " + wording.ClockIn(until, plan.Zone())}
		}
	}
	for _, k := range ticks {
		due := ""
		if !k.Due.Equal(k.At) {
			due = k.Due.In(plan.Zone()).Format("15:04:05.000")
		}
		t.Add(term.Plain(k.Local), term.Plain(k.At.UTC().Format(time.RFC3339)), term.Plain(due), term.Plain(k.Note))
	}
	return a.Print(t)
}
