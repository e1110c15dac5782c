package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/internal/cli/verb"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/schedule"
)

func (a *Commands) scheduleRun() *cobra.Command {
	var f verb.RunFlags
	var counts bool
	c := &cobra.Command{
		Use: "run NAME", Aliases: []string{"trigger"}, Short: "Make a task of a schedule now",
		Long: `Makes a task of a schedule now, even while the schedule is paused. The task names the schedule; its planned run is
the time of the call. It does not count for the schedule's overlap, and is told if one runs already. With --respect-overlap
it counts as a planned run does: it is refused if the overlap has no room for it, and later ones find that it runs.`,
		Args: settings.Takes(1, 1, "schedule"), ValidArgsFunction: a.CompleteSchedules,
	}
	fs := c.Flags()
	fs.StringArrayVarP(&f.Params, "param", "p", nil, "parameter `name=value` over those of the schedule (repeat it)")
	fs.StringVar(&f.ParamsIn, "params", "", "parameters as a JSON object, `JSON|@file|-`; --param wins over it")
	fs.StringArrayVarP(&f.Labels, "label", "l", nil, "label `name=value` (repeat it)")
	fs.StringVarP(&f.Queue, "queue", "q", "", "`queue` to wait in")
	fs.BoolVar(&counts, "respect-overlap", false, "count for the overlap of the schedule, as a planned run does")
	fs.BoolVar(&f.Wait, "wait", false, "wait for the end")
	fs.BoolVarP(&f.Follow, "follow", "f", false, "show the output until the end")
	f.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if counts && (len(f.Params) > 0 || f.ParamsIn != "" || len(f.Labels) > 0 || f.Queue != "") {
			return term.Misuse(c, "--respect-overlap makes a task as the schedule does: leave out --param, --params, --label and --queue")
		}
		over := birth.Submission{Queue: f.Queue}
		var err error
		if over.Params, over.Texts, err = settings.Params(f.ParamsIn, f.Params, a.In); err != nil {
			return term.Misuse(c, "%w", err)
		}
		if over.Labels, err = settings.Labels(f.Labels); err != nil {
			return term.Misuse(c, "%w", err)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		asking, cancel := a.Asking(c.Context())
		var receipt client.Receipt
		if counts {
			receipt, err = cl.RunScheduleCounted(asking, args[0])
		} else {
			if running, err := cl.Running(asking, args[0]); err == nil && len(running) > 0 {
				a.Note("task %s of schedule %s has not ended; --respect-overlap counts for its overlap", running[0].ID, args[0])
			}
			receipt, err = cl.RunSchedule(asking, args[0], over)
		}
		cancel() // what follows may take as long as the task
		if err != nil {
			return err
		}
		return look.Of(a.App).Made(c.Context(), cl, receipt, look.Until{Follow: f.Follow, Wait: f.Wait, JSON: f.JSON()})
	}
	return c
}

func (a *Commands) scheduleBackfill() *cobra.Command {
	var o settings.Output
	var from, to string
	var parallel int
	var dry, yes bool
	c := &cobra.Command{
		Use: "backfill NAME --from TIME --to TIME", Aliases: []string{"replay"},
		Short: "Make the tasks of planned runs in a span of time, so many at once",
		Long: `Makes the tasks of the planned runs from one time to another, both included, the oldest first and at
most --max-parallel at once. The command waits for the tasks, so it must keep running. If it is interrupted, give the
same command again: a planned run that has a task gets no second one.`,
		Example: `  millrace schedule backfill nightly --from 2026-02-01 --to 2026-02-08 --max-parallel 4 --dry-run`,
		Args:    settings.Takes(1, 1, "schedule"), ValidArgsFunction: a.CompleteSchedules,
	}
	fs := c.Flags()
	fs.StringVar(&from, "from", "", "first `time`, of the schedule's zone if it names none")
	fs.StringVar(&to, "to", "", "last `time` (default now)")
	parallel = 1
	settings.Count(fs, &parallel, "max-parallel", "", "how many tasks at once, at most 1000")
	fs.BoolVar(&dry, "dry-run", false, "list the planned runs; make nothing")
	fs.BoolVarP(&yes, "yes", "y", false, "do not ask")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if from == "" {
			return term.Misuse(c, "--from is missing")
		}
		if parallel < 1 || parallel > 1000 {
			return term.Misuse(c, "--max-parallel is %d, want 1 to 1000", parallel)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		asking, cancel := a.Asking(c.Context())
		defer cancel()
		stored, err := cl.Schedule(asking, args[0])
		if err != nil {
			return err
		}
		ticks, err := client.BackfillTicks(&stored, &client.Backfill{Name: stored.Name, From: from, To: to}, a.Now(), client.MaxBackfill)
		if errors.Is(err, client.ErrInvalid) {
			return term.Misuse(c, "%w", err)
		}
		if err != nil {
			return err
		}
		plan, err := stored.Plan()
		if err != nil {
			return err
		}
		if dry {
			if o.JSON() {
				return a.WriteJSON(ticks)
			}
			for _, t := range ticks {
				if _, err := fmt.Fprintf(a.Out, "%s %s\n", wording.ClockIn(t.At, plan.Zone()), t.Note); err != nil {
					return err
				}
			}
			return nil
		}
		if !yes {
			if err := a.Confirm(c, fmt.Sprintf("make tasks of %s of schedule %s?", wording.Plural(len(ticks), "planned run"), stored.Name)); err != nil {
				return err
			}
		}
		return a.backfill(c.Context(), cl, stored.Name, plan.Zone(), ticks, parallel, o.JSON())
	}
	return c
}

// backfill makes the tasks of ticks, at most parallel unfinished ones at a time. Existing
// unfinished ones, perhaps of an interrupted call, count.
func (a *Commands) backfill(ctx context.Context, cl *client.Client, name string, zone *time.Location, ticks []schedule.Tick, parallel int, asJSON bool) (err error) {
	if len(ticks) > parallel {
		a.Note("%s, at most %d at once; if this is interrupted, give the same command again to go on", wording.Plural(len(ticks), "planned run"), parallel)
	}
	all := []client.BackfilledTick{}
	var open []task.ID
	made := 0
	defer func() {
		if err != nil {
			a.Note("%d of %d planned runs have their tasks; give the same command again to go on", len(all), len(ticks))
		}
	}()
	for _, t := range ticks {
		for len(open) >= parallel {
			if open, err = stillOpen(ctx, cl, open); err != nil {
				return err
			}
		}
		one, runs, err := a.backfillOne(ctx, cl, name, t.At)
		if err != nil {
			return err
		}
		if runs {
			open = append(open, one.Task)
		}
		what := "there already"
		if one.Made {
			what = "made"
			made++
		}
		all = append(all, one)
		if asJSON {
			continue
		}
		if _, err := fmt.Fprintf(a.Out, "%s %s %s\n", wording.ClockIn(t.At, zone), one.Task, what); err != nil {
			return err
		}
	}
	for len(open) > 0 {
		if open, err = stillOpen(ctx, cl, open); err != nil {
			return err
		}
	}
	if asJSON {
		return a.WriteJSON(all)
	}
	a.Note("%s, %s made", wording.Plural(len(ticks), "planned run"), wording.Plural(made, "task"))
	return nil
}

// backfillOne makes the task of a tick, unless it has one, and tells whether that is unfinished.
func (a *Commands) backfillOne(ctx context.Context, cl *client.Client, name string, tick time.Time) (one client.BackfilledTick, open bool, err error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	receipt, made, err := cl.RunTick(asking, name, tick)
	if err != nil {
		return one, false, err
	}
	one = client.BackfilledTick{Tick: tick, Task: receipt.ID, Made: made}
	if made {
		return one, true, nil
	}
	t, err := cl.Task(asking, receipt.ID)
	return one, !t.State.Terminal(), err
}

// stillOpen waits a moment and returns the unfinished tasks.
func stillOpen(ctx context.Context, cl *client.Client, ids []task.ID) ([]task.ID, error) {
	select {
	case <-ctx.Done():
		return ids, ctx.Err()
	case <-time.After(100 * time.Millisecond):
	}
	var open []task.ID
	for _, id := range ids {
		t, err := cl.Task(ctx, id)
		if err != nil && !errors.Is(err, task.ErrUnknown) {
			return ids, err
		}
		if !t.State.Terminal() {
			open = append(open, id)
		}
	}
	return open, nil
}
