package job

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/verb"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Schedules is millrace schedule.
func (a *Commands) Schedules() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "schedule", Aliases: []string{"schedules", "sched", "sc"},
		Short: "Schedules: tasks at set times",
		Example: `  millrace schedule add nightly --cron "30 2 * * *" --timezone Europe/Berlin backup
  millrace schedule add tidy --every 15m --overlap skip -- /usr/local/bin/tidy
  millrace schedule next nightly -n 10
  millrace schedule next --cron "30 2 * * *" --timezone Europe/Berlin --from 2026-03-28 -n 3
  millrace schedule show nightly
  millrace schedule grid --by hour
  millrace schedule backfill nightly --from 2026-02-01 --to 2026-02-08 --max-parallel 4`,
	})
	c.AddCommand(a.scheduleAdd(), a.scheduleList(), a.scheduleShow(), a.scheduleGrid(), difference(a, task.DefSchedule, a.CompleteSchedules, definitions.ScheduleIn), a.scheduleRun(),
		a.scheduleNext(), a.scheduleBackfill())
	return c
}

// whenFlags are the flags that say when a schedule makes tasks.
type whenFlags struct {
	job.Schedule
	every, jitter, spread, window settings.Span
}

func (f *whenFlags) flags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.Cron, "cron", "", "`expression` of 5 fields, of 6 with seconds first, or a descriptor such as @daily")
	f.every.Least = job.MinEvery
	fs.Var(&f.every, "every", "at a fixed interval, which never drifts")
	fs.StringVar(&f.At, "at", "", "once, at a `time` of the zone: \"2026-03-01 12:00\"")
	fs.StringVar(&f.Timezone, "timezone", "", "IANA `name` of the zone (default UTC)")
	fs.StringVar(&f.Start, "start", "", "no planned runs before this `time`; --every counts from it")
	fs.StringVar(&f.End, "end", "", "no planned runs after this `time`")
	fs.StringVar(&f.DST, "dst", "", "what to do when clocks change: "+strings.Join(job.DSTs, ", ")+" (default once, or twice if --cron leaves the hour open)")
	fs.Var(&f.jitter, "jitter", "delay each planned run by a random time up to this")
	fs.Var(&f.spread, "spread", "delay all planned runs by one time up to this, which follows from the name")
	fs.StringArrayVar(&f.Calendar, "calendar", nil, "`window` without planned runs: \"2026-12-24..2026-12-26\", \"sat,sun\", \"mon-fri 22:00-06:00\" (repeat it)")
}

// policyFlags are the flags for overlapping and missed ticks.
func (f *whenFlags) policyFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.CatchUp, "catchup", "", "which planned runs to make up for that passed while the server was away: "+strings.Join(job.CatchUps, ", ")+" (default last)")
	f.window.Least = time.Millisecond
	fs.Var(&f.window, "catchup-window", "how old planned runs may be to be made up for (default 24h)")
	fs.StringVar(&f.Overlap, "overlap", "", "while earlier tasks run: "+strings.Join(job.Overlaps, ", ")+" (default allow)")
	settings.Count(fs, &f.Depth, "depth", "", "how many planned runs may wait with --overlap queue (default 1)")
	fs.IntVar(&f.PauseAfter, "pause-after", 0, "pause when so many tasks in a row have failed; 0 for never (default)")
}

// when returns the schedule of the flags.
func (f *whenFlags) when() job.Schedule {
	s := f.Schedule
	s.Every, s.Jitter, s.Spread, s.CatchUpWindow = value.Duration(f.every.D), value.Duration(f.jitter.D), value.Duration(f.spread.D), value.Duration(f.window.D)
	return s
}

func (a *Commands) scheduleAdd() *cobra.Command {
	var o settings.Output
	var w whenFlags
	var run verb.RunFlags
	var delay settings.Span
	var seen settings.Seen
	var file string
	var notify []string
	var dry bool
	c := &cobra.Command{
		Use: "add NAME [JOB] [flags] [-- COMMAND ARG...]", Aliases: []string{"create", "set", "put", "apply"},
		Short: "Store a schedule: of a job, or of a command",
		Long: `Stores a schedule under a name, or replaces it; a paused schedule stays paused. It makes tasks of a
stored job, which it looks up each time, or of a command after "--". One of --cron, --every, --at and --delay says when.
With -f, a file in YAML or JSON has everything: {name, schedule: {cron, …}, task: {job, params, …}}. A job file may hold a schedule, too.`,
		Example: `  millrace schedule add nightly --cron "30 2 * * *" --timezone Europe/Berlin --overlap skip backup
  millrace schedule add pulse --every 10s -- /bin/true
  millrace schedule add dump --cron @daily --node db1 --retries 3 --timeout 2h --unique dump -- pg_dump shop
  millrace schedule add once --delay 2h backup -p full=true`,
		DisableFlagsInUseLine: true,
	}
	fs := c.Flags()
	settings.InGroup(fs, settings.GroupTicks, func() {
		w.flags(c)
		w.policyFlags(c)
		fs.Var(&delay, "delay", "once, so much later than now")
	})
	run.TaskFlags(c, "spread-over")
	notifyFlag(c, &notify)
	fs.StringVarP(&file, "file", "f", "", "definition `file`, or - for stdin")
	fs.BoolVar(&dry, "dry-run", false, "check it and print its next planned runs; store nothing")
	seen.Flag(c, "schedule")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := a.definition(c, &w, &run, &delay, file, args)
		if err != nil {
			return err
		}
		if len(notify) > 0 {
			if d.Notify, err = parseNotify(notify); err != nil {
				return term.Misuse(c, "%w", err)
			}
		}
		if err := d.Validate(); err != nil {
			return term.Misuse(c, "schedule %s: %w", d.Name, err)
		}
		if dry {
			next, _, err := d.Over(nil, a.Now())
			if err != nil {
				return term.Misuse(c, "schedule %s: %w", d.Name, err)
			}
			plan, err := next.Plan()
			if err != nil {
				return term.Misuse(c, "%w", err)
			}
			return a.printNext(plan, a.Now(), time.Time{}, 5, o.JSON())
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		if delay.Given { // once more, by the log's time
			d.When.At = a.hence(delay.D)
		}
		asking, cancel := a.Asking(c.Context())
		defer cancel()
		if run.Files != "" {
			if d.Make.Files, err = a.FilesFor(c, cl, run.Files); err != nil {
				return err
			}
		}
		revision, changed, err := cl.PutSchedule(asking, *d, seen.Revisions()...)
		if err != nil {
			return err
		}
		verb.Of(a.App).Foresee(c.Context(), cl, &d.Make)
		a.remark(d)
		if o.JSON() {
			return a.WriteJSON(map[string]any{"name": d.Name, "revision": revision, "changed": changed})
		}
		what := "unchanged"
		if changed {
			what = "stored"
		}
		_, err = fmt.Fprintf(a.Out, "schedule %s %s (revision %d)\n", d.Name, what, revision)
		return err
	}
	return c
}

// definition makes a schedule from the command line.
func (a *Commands) definition(c *cobra.Command, w *whenFlags, run *verb.RunFlags, delay *settings.Span, file string, args []string) (*schedule.Definition, error) {
	if file != "" {
		if len(args) > 0 {
			return nil, term.Misuse(c, "%q is too much: -f says all", args[0])
		}
		return a.definitionFile(c, file)
	}
	d := &schedule.Definition{When: w.when()}
	names, argv, err := settings.SplitCommand(c, args, 2)
	if err != nil {
		return nil, err
	}
	if d.Name = names[0]; d.Name == "" {
		return nil, term.Misuse(c, "the schedule's name is missing")
	}
	if d.Make, err = run.Wanted(c, names[1], argv, a.In); err != nil {
		return nil, term.Misuse(c, "%w", err)
	}
	if delay.Given {
		if d.When.At != "" {
			return nil, term.Misuse(c, "--at and --delay are both given; choose one")
		}
		d.When.At = a.hence(delay.D)
	}
	return d, nil
}

// hence returns the time that long from now, in a schedule's form: a whole second that has not
// passed yet.
func (a *Commands) hence(d time.Duration) string {
	return a.Now().Add(d + time.Second).UTC().Truncate(time.Second).Format(time.RFC3339)
}

// remark notes how the days of a schedule that was just stored are read.
func (a *Commands) remark(d *schedule.Definition) {
	if plan, err := schedule.Compile(d.Name, d.When, time.Time{}); err == nil && plan.Remark() != "" {
		a.Note("schedule %s: %s", d.Name, plan.Remark())
	}
}

func (a *Commands) definitionFile(c *cobra.Command, file string) (*schedule.Definition, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(a.In, settings.MaxFile))
	} else {
		data, err = settings.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	d, err := jobfile.ParseSchedule(file, "", data)
	if err != nil {
		return nil, term.Misuse(c, "%w", err)
	}
	return &d, nil
}

func (a *Commands) scheduleList() *cobra.Command {
	return (&connect.Reading[[]client.ScheduleRow]{
		Use: "ls", Short: "List the schedules: their latest task, missed planned runs, and the next one of each",
		Long: `Lists the schedules with their latest task, the planned runs of the last 24 hours that got no task, and the
next one on the clock of the schedule's zone. Tasks and planned runs need a millrace server.`,
		Watch: true,
		Read: func(ctx context.Context, cl *client.Client, _ *connect.Sight, _ string) ([]client.ScheduleRow, error) {
			return some(cl.ScheduleRows(ctx))
		},
		Request: func(ctx context.Context, cl *client.Client, _ string, q connect.Question) ([]client.ScheduleRow, error) {
			then, err := cl.ScheduleList(ctx, client.MomentRequest{At: q.At})
			return some(then.Rows(err))
		},
		Alone: "no millrace server answers, so latest tasks and missed runs are not known",
		Table: scheduleList.Table, Names: scheduleList.Names, Called: "names",
	}).Command(a.App)
}

var scheduleList = connect.ListOf("schedule", wording.ScheduleColumns)

// shownSchedule is a schedule in the JSON of `schedule show`.
type shownSchedule struct {
	client.ScheduleView
	Changes []client.ShownFact `json:"changes"`

	plan    *schedule.Plan
	records []events.Record // of its changes
}

func (a *Commands) scheduleShow() *cobra.Command {
	var since string
	limit := 20
	return (&connect.Reading[shownSchedule]{
		Use: "show NAME", Aliases: []string{"describe"},
		Short: "Show a schedule, what became of its planned runs and which come next",
		Long: `Shows a schedule: the planned runs that it should have had, what the log holds of each, and the next ones.
A past one without a task and without a reason is a hole.`,
		Of: "schedule", Complete: a.CompleteSchedules,
		Flags: func(c *cobra.Command) {
			c.Flags().StringVar(&since, "since", "24h", "planned runs since a `time`: 2h or 7d ago, 2026-03-01")
			settings.Count(c.Flags(), &limit, "limit", "", "how many of those, the latest")
		},
		Check: func() error {
			if _, err := view.ParsePast(since, a.Now()); err != nil {
				return fmt.Errorf("--since: %w", err)
			}
			if limit < 1 || limit > 1000 {
				return fmt.Errorf("--limit is %d, want 1 to 1000", limit)
			}
			return nil
		},
		Read: func(ctx context.Context, cl *client.Client, s *connect.Sight, name string) (is shownSchedule, err error) {
			from, err := view.ParsePast(since, s.Now()) // by the log's time
			if err != nil {
				return is, fmt.Errorf("--since: %w", err)
			}
			if is.ScheduleView, err = cl.ScheduleOf(ctx, s.View, s.Point(), name, from, limit); err != nil {
				return is, err
			}
			if is.records, err = definitionFacts(ctx, s.View, task.DefSchedule, name); err != nil {
				return is, err
			}
			is.Changes = client.ShowFacts(is.records)
			is.plan, err = is.Plan()
			return is, err
		},
		Print: func(is shownSchedule, s *connect.Sight) error {
			details := scheduleDetails(&is)
			s.Mark(&details, a.Now())
			changes := changeLines(is.records, func(at time.Time) string { return wording.ClockIn(at, is.plan.Zone()) })
			if _, err := fmt.Fprint(a.Out, changes); err != nil {
				return err
			}
			if err := a.Print(details); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(a.Out); err != nil {
				return err
			}
			return a.Print(tickTable(&is))
		},
	}).Command(a.App)
}

func scheduleDetails(s *shownSchedule) term.Table {
	plan := s.plan
	t := term.Table{Title: "Schedule " + s.Name}
	if s.Paused != nil {
		t.Field("paused", fmt.Sprintf("%s by %s: %s", wording.ClockIn(s.Paused.At, plan.Zone()), s.Paused.Actor, s.Paused.Reason))
	}
	t.Field("when", wording.When(&s.When))
	t.Field("days", plan.Remark())
	t.Field("zone", plan.Zone().String())
	t.Field("dst", plan.Policy())
	t.Field("start", s.When.Start)
	t.Field("end", s.When.End)
	t.Field("calendar", strings.Join(s.When.Calendar, "; "))
	if s.When.Jitter > 0 {
		t.Field("jitter", s.When.Jitter.String())
	}
	if s.When.Spread > 0 {
		t.Field("spread", s.When.Spread.String())
	}
	overlap := cmp.Or(s.When.Overlap, job.OverlapAllow)
	if overlap == job.OverlapQueue {
		overlap += fmt.Sprintf(", at most %d wait", cmp.Or(s.When.Depth, job.DefaultDepth))
	}
	t.Field("overlap", overlap)
	t.Field("catchup", fmt.Sprintf("%s, within %v", cmp.Or(s.When.CatchUp, job.CatchUpLast), cmp.Or(s.When.CatchUpWindow.Std(), job.DefaultCatchUpWindow)))
	if s.When.PauseAfter > 0 {
		t.Field("pause after", wording.Plural(s.When.PauseAfter, "failure"))
	}
	t.Field("runs", wording.What(&s.Definition))
	t.Field("with", wording.With(&s.Definition))
	for i := range s.Notify {
		t.Field("tells", s.Notify[i].Words())
	}
	t.Field("revision", fmt.Sprintf("%d, stored %s", s.Revision, wording.ClockIn(s.Changed, plan.Zone())))
	return t
}

// tickTable lays out the outcomes of past ticks, and the next ones.
func tickTable(s *shownSchedule) term.Table {
	plan := s.plan
	t := term.Table{Header: []string{"PLANNED", "BECAME", "TASK", "STATE", "TRIGGER", "WHY"}, Spare: []string{"TRIGGER", "TASK"},
		Foot: []string{fmt.Sprintf("%s, %s", wording.Plural(len(s.Ticks), "planned run"), wording.Plural(s.Holes, "hole"))}}
	for _, k := range s.Ticks {
		became := term.Plain(k.Outcome)
		if k.Outcome == client.TickHole {
			became = term.Tinted(k.Outcome, term.Red)
		}
		state := term.Plain("")
		if k.Task != "" {
			state = wording.StateCell(k.State)
		}
		t.Add(term.Plain(wording.ClockIn(k.Tick, plan.Zone())), became, term.Plain(k.Task.Short()), state, term.Plain(k.Trigger), term.Plain(k.Why))
	}
	for _, n := range s.Next {
		became := "to come"
		if s.Paused != nil {
			became = "paused"
		}
		t.Add(term.Plain(wording.ClockIn(n.At, plan.Zone())), term.Dim(became), term.Plain(""), term.Plain(""), term.Plain(""), term.Plain(n.Note))
	}
	return t
}
