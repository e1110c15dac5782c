package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/schedule"
)

// Jobs is millrace job.
func (a *Commands) Jobs() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "job", Aliases: []string{"jobs", "j", "def"},
		Short: "Jobs: named definitions of what to run",
		Example: `  millrace job schema > job.schema.json
  millrace job validate hello.yaml
  millrace job apply -f hello.yaml
  millrace job show hello > hello.yaml`,
	})
	c.AddCommand(a.jobApply(), a.jobList(), a.jobShow(), a.jobHistory(), difference(a, task.DefJob, a.CompleteJobs, definitions.JobIn), a.jobValidate(), a.jobSchema(), a.jobBreaker())
	return c
}

// remarks are those of [Commands.remark] on the schedules of a job.
func (a *Commands) remarks(j *job.Job) {
	of := schedule.OfJob(j)
	for i := range of {
		a.remark(&of[i])
	}
}

func (a *Commands) jobList() *cobra.Command {
	var o settings.Output
	var names bool
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the jobs, with their schedules and latest tasks", Args: settings.Takes(0, 0, "")}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names")
	sight := a.AtFlag(c, connect.Then{})
	o.Flags(c)
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		look := cl.JobRows
		if s.Past != nil {
			then, err := connect.Look(ctx, a.App, cl, &s, func(ctx context.Context, q connect.Question) (client.JobList, error) {
				return cl.JobList(ctx, client.MomentRequest{At: q.At})
			})(ctx)
			look = func(context.Context) ([]client.JobRow, error) { return then.Rows(err) }
		}
		asking, cancel := a.Asking(ctx)
		defer cancel()
		rows, broken := look(asking)
		if rows == nil {
			rows = []client.JobRow{}
		}
		alone := errors.Is(broken, jet.ErrNoService)
		switch {
		case broken != nil && !alone && len(rows) == 0:
			return broken
		case o.JSON():
			a.NoteMoment(&s)
			err = a.WriteJSON(rows)
		case names:
			for i := range rows {
				fmt.Fprintln(a.Out, rows[i].Name)
			}
		default:
			t := jobTable(rows, s.Now())
			s.Mark(&t, a.Now())
			if err = a.Print(t); alone {
				a.Note("no millrace server answers, so the latest tasks are not known")
			}
		}
		if alone {
			return err
		}
		return errors.Join(err, broken)
	})
	return c
}

func jobTable(rows []client.JobRow, now time.Time) term.Table {
	t := term.Table{
		Header: []string{"JOB", "TITLE", "QUEUE", "SCHEDULE", "LAST", "REVISION", "CHANGED", "LABELS", "RUNS"},
		Spare:  []string{"LABELS", "REVISION", "CHANGED", "QUEUE"},
		Foot:   []string{wording.Plural(len(rows), "job")},
	}
	for i := range rows {
		j := &rows[i]
		t.Add(term.Plain(j.Name), term.Plain(term.Cut(j.Title, 40)), term.Plain(cmp.Or(j.Queue, placement.DefaultQueue)), term.Plain(strings.Join(j.Schedules, ", ")), runCell(j.Last, now),
			term.Plain(fmt.Sprint(j.Revision)), term.Plain(wording.Age(j.Changed, now)), term.Plain(wording.Pairs(j.Labels)), term.Plain(term.Cut(j.Text(), 80)))
	}
	return t
}

func (a *Commands) jobShow() *cobra.Command {
	var o settings.Output
	var revision uint64
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info", "cat"},
		Short: "Print a job, in the form that apply reads, and who changed it last",
		Args:  settings.Takes(1, 1, "job"), ValidArgsFunction: a.CompleteJobs,
	}
	c.Flags().Uint64Var(&revision, "revision", 0, "as it was at a `revision`; default: as it is now")
	sight := a.AtFlag(c, connect.Then{})
	o.Flags(c, "yaml", "json")
	c.MarkFlagsMutuallyExclusive("at", "revision")
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		asking, cancel := a.Asking(ctx)
		defer cancel()
		changes, err := definitionFacts(asking, s.View, task.DefJob, args[0])
		if err != nil {
			return err
		}
		j, err := editionOf(&s, changes, args[0], definitions.JobIn, func() (definitions.StoredJob, error) { return cl.JobAt(asking, args[0], revision) })
		if err != nil {
			return err
		}
		circuit, err := jobCircuit(asking, s.View, &j.Job)
		if err != nil {
			return err
		}
		if o.JSON() {
			return a.WriteJSON(struct {
				definitions.StoredJob
				Changes []client.ShownFact  `json:"changes"`
				Circuit *limit.Circuit      `json:"circuit,omitempty"`
				At      *connect.ShownPoint `json:"at,omitempty"`
			}{j, client.ShowFacts(changes), circuit, s.Past})
		}
		text, err := jobfile.Marshal(j.Job)
		if err != nil {
			return fmt.Errorf("%w; -o json prints it as it is stored", err)
		}
		_, err = fmt.Fprintf(a.Out, "%s# revision %d, stored %s\n%s%s", thenLine(&s, a.Now()), j.Revision, wording.Clock(j.Changed), changeLines(changes, wording.Clock)+circuitLine(circuit), text)
		return err
	})
	return c
}

func (a *Commands) jobHistory() *cobra.Command {
	return a.history("job", definitions.ErrNoJob, a.CompleteJobs)
}

func (a *Commands) jobSchema() *cobra.Command {
	var o settings.Output // there is one form
	c := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of a job file, for editors", Args: settings.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(job.Schema())
			return err
		},
	}
	o.Flags(c)
	return c
}
