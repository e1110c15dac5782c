package job

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/limit"
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
	c.AddCommand(a.jobApply(), a.jobList(), a.jobShow(), a.history("job", definitions.ErrNoJob, a.CompleteJobs), difference(a, task.DefJob, a.CompleteJobs, definitions.JobIn), a.jobValidate(), a.jobSchema(), a.jobBreaker())
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
	return (&connect.Reading[[]client.JobRow]{
		Use: "ls", Short: "List the jobs, with their schedules and latest tasks",
		Read: func(ctx context.Context, cl *client.Client, _ *connect.Sight, _ string) ([]client.JobRow, error) {
			return some(cl.JobRows(ctx))
		},
		Request: func(ctx context.Context, cl *client.Client, _ string, q connect.Question) ([]client.JobRow, error) {
			then, err := cl.JobList(ctx, client.MomentRequest{At: q.At})
			return some(then.Rows(err))
		},
		Alone: "no millrace server answers, so the latest tasks are not known",
		Table: jobList.Table, Names: jobList.Names, Called: "names",
	}).Command(a.App)
}

var jobList = connect.ListOf("job", wording.JobColumns)

func (a *Commands) jobShow() *cobra.Command {
	return a.show("job", "Print a job, in the form that apply reads, and who changed it last", a.CompleteJobs,
		func(ctx context.Context, cl *client.Client, s *connect.Sight, name string, revision uint64, changes []events.Record) (is edition, err error) {
			j, err := editionOf(s, changes, name, definitions.JobIn, func() (definitions.StoredJob, error) { return cl.JobAt(ctx, name, revision) })
			if err != nil {
				return is, err
			}
			circuit, err := jobCircuit(ctx, s.View, &j.Job)
			is = edition{revision: j.Revision, changed: j.Changed, below: circuitLine(circuit), json: struct {
				definitions.StoredJob
				Changes []client.ShownFact `json:"changes"`
				Circuit *limit.Circuit     `json:"circuit,omitempty"`
			}{j, client.ShowFacts(changes), circuit}}
			if is.text, is.unfit = jobfile.Marshal(j.Job); is.unfit != nil {
				is.unfit = fmt.Errorf("%w; -o json prints it as it is stored", is.unfit)
			}
			return is, err
		})
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
