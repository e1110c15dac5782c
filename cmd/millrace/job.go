package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/task"
	"millrace/task/jobfile"
)

func (a *app) jobCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "job", Aliases: []string{"jobs", "j", "def"},
		Short: "Jobs: named definitions of what to run",
		Example: `  millrace job schema > job.schema.json
  millrace job validate hello.yaml
  millrace job apply -f hello.yaml
  millrace job show hello > hello.yaml`,
	})
	c.AddCommand(a.jobApply(), a.jobList(), a.jobShow(), a.jobHistory(), a.jobRemove(), a.jobValidate(), a.jobSchema(), a.jobBreaker())
	return c
}

func (a *app) jobApply() *cobra.Command {
	return applying(a, &applied[task.Job]{
		what: "job", use: "apply -f FILE|DIR|-", read: a.readJobs, name: func(j *task.Job) string { return j.Name }, store: (*client.Client).Apply,
		before: a.pushFilesOf, after: a.foreseeJob,
	})
}

func (a *app) jobList() *cobra.Command {
	var o output
	var names bool
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the jobs, with their schedules and latest tasks", Args: takes(0, 0, "")}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names")
	o.flags(c)
	c.RunE = a.brief(func(ctx context.Context, cl *client.Client, _ []string) error {
		rows, broken := cl.JobRows(ctx)
		if rows == nil {
			rows = []client.JobRow{}
		}
		alone := errors.Is(broken, jet.ErrNoService)
		var err error
		switch {
		case broken != nil && !alone && len(rows) == 0:
			return broken
		case o.json():
			err = a.writeJSON(rows)
		case names:
			for i := range rows {
				fmt.Fprintln(a.out, rows[i].Name)
			}
		default:
			if err = a.print(jobTable(rows, a.now())); alone {
				a.note("no millrace server answers, so the latest tasks are not known")
			}
		}
		if alone {
			return err
		}
		return errors.Join(err, broken)
	})
	return c
}

func jobTable(rows []client.JobRow, now time.Time) table {
	t := table{
		header: []string{"JOB", "TITLE", "QUEUE", "SCHEDULE", "LAST", "REVISION", "CHANGED", "LABELS", "RUNS"},
		spare:  []string{"LABELS", "REVISION", "CHANGED", "QUEUE"},
		foot:   []string{plural(len(rows), "job")},
	}
	for i := range rows {
		j := &rows[i]
		t.add(plain(j.Name), plain(cut(j.Title, 40)), plain(cmp.Or(j.Queue, task.DefaultQueue)), plain(strings.Join(j.Schedules, ", ")), runCell(j.Last, now),
			plain(fmt.Sprint(j.Revision)), plain(age(j.Changed, now)), plain(pairs(j.Labels)), plain(cut(j.Text(), 80)))
	}
	return t
}

func (a *app) jobShow() *cobra.Command {
	var o output
	var revision uint64
	var at string
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info", "cat"},
		Short: "Print a job, in the form that apply reads, and who changed it last",
		Args:  takes(1, 1, "job"), ValidArgsFunction: a.completeJobs,
	}
	c.Flags().Uint64Var(&revision, "revision", 0, "as it was at a `revision`; default: as it is now")
	atFlag(c.Flags(), &at)
	o.flags(c, "yaml", "json")
	c.MarkFlagsMutuallyExclusive("at", "revision")
	c.RunE = a.momentFlag(&at, a.online(func(ctx context.Context, cl *client.Client, args []string) error {
		s, err := a.sight(ctx, cl, at, single)
		if err != nil {
			return err
		}
		asking, cancel := a.asking(ctx)
		defer cancel()
		changes, err := definitionFacts(asking, s.view, task.DefJob, args[0])
		if err != nil {
			return err
		}
		if s.past != nil {
			then := events.FoldDefinition(changes)
			if revision = then.Revision; !then.Exists() {
				return s.unknown(&jet.Absent{Kind: jet.ErrNoJob, Name: args[0]})
			}
		}
		j, err := cl.JobAt(asking, args[0], revision)
		if err != nil {
			return err
		}
		breaker, err := jobCircuit(asking, s.view, &j.Job)
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(struct {
				jet.StoredJob
				Changes []shownFact   `json:"changes"`
				Circuit *task.Circuit `json:"circuit,omitempty"`
				At      *shownPoint   `json:"at,omitempty"`
			}{j, showFacts(changes), breaker, s.past})
		}
		text, err := jobfile.Marshal(j.Job)
		if err != nil {
			return fmt.Errorf("%w; -o json prints it as it is stored", err)
		}
		then := ""
		if s.past != nil {
			then = "# " + s.words(a.now()) + "\n"
		}
		_, err = fmt.Fprintf(a.out, "%s# revision %d, stored %s\n%s%s", then, j.Revision, clock(j.Changed), changeLines(changes)+circuitLine(breaker), text)
		return err
	}))
	return c
}

func (a *app) jobHistory() *cobra.Command {
	return a.history("job", jet.ErrNoJob, a.completeJobs)
}

func (a *app) jobRemove() *cobra.Command {
	return a.removal("job", "Remove jobs; their tasks stay", a.completeJobs, (*client.Client).RemoveJob)
}

func (a *app) jobSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of a job file, for editors", Args: takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(jobfile.Schema())
			return err
		},
	}
}
