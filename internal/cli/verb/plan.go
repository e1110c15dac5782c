package verb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/jobfile"
)

// Plan is millrace plan.
func (a *Commands) Plan() *cobra.Command {
	var o settings.Output
	var file string
	var place placeFlags
	var queue string
	var nodes []string
	c := &cobra.Command{
		Use:   "plan [JOB|TASK] [-f FILE]",
		Short: "Say which nodes may run a job, and which rule excludes each of the others",
		Long: `Says of every node whether it may claim a task of a stored job, of a job in a file
(-f, which need not be stored), or a waiting task. For a node that may not it names the rule
(name, avoid, queue, label or slots) or the state (retired, offline, draining, quarantined,
cordoned or unproved). It also says whether the windows of the job and of its queue are
open, and what each other rule of the job allows. It submits nothing.`,
		Example: `  millrace plan -f crawl.yaml
  millrace plan crawl --labels 'zone=eu,mem>=16'`,
		Args: settings.Takes(0, 1, "job or task"), ValidArgsFunction: a.CompleteJobs,
	}
	fs := c.Flags()
	fs.StringVarP(&file, "file", "f", "", "job `file`; - is stdin")
	fs.StringVarP(&queue, "queue", "q", "", "`queue` to wait in (default that of the job)")
	fs.StringSliceVar(&nodes, "node", nil, "only on this `node` (repeat it)")
	place.flags(fs, "spread")
	sight := a.AtFlag(c, connect.Then{Folds: []view.Kind{view.Nodes}, Lacks: []string{"where sticky tasks ran"}})
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		s := birth.Submission{Queue: queue, Nodes: nodes}
		if err := place.put(c.Flags(), &s); err != nil {
			return term.Misuse(c, "%w", err)
		}
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		var jobs []job.Job
		if file != "" {
			read, err := settings.ParseFiles(a.In, c, []string{file}, jobfile.Parse)
			if err != nil {
				return err
			}
			for _, f := range read {
				if f.Err != nil {
					return f.Err
				}
				for _, j := range f.All {
					if name == "" || name == j.Name {
						jobs = append(jobs, j)
					}
				}
			}
			if len(jobs) == 0 {
				return term.Misuse(c, "no job %q is in %s", name, file)
			}
		} else if name == "" {
			return term.Misuse(c, "name a job or a task, or a file with -f")
		}
		return a.plan(c.Context(), sight, name, jobs, s, &o)
	}
	return c
}

func (a *Commands) plan(ctx context.Context, sight func(context.Context, *client.Client) (connect.Sight, error), name string, jobs []job.Job, s birth.Submission, o *settings.Output) error {
	cl, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	in, err := sight(ctx, cl)
	if err != nil {
		return err
	}
	asking, cancel := a.Asking(ctx)
	defer cancel()
	id, isTask, err := a.jobOrTask(asking, cl, name, len(jobs) > 0)
	if err != nil {
		return err
	}
	plans := make([]view.Plan, 1)
	if isTask {
		if err := a.Stand(ctx, cl, &in, id, 0); err != nil {
			return err
		}
		asking, cancel := a.Asking(ctx)
		defer cancel()
		plans[0], err = view.PlanTask(asking, in.View, id, in.Now())
	} else {
		if len(jobs) == 0 {
			is, err := in.View.Get(asking, view.Definition(task.Named(task.DefJob, name)))
			if err != nil {
				return err
			}
			stored, err := definitions.JobIn(name, *is.Definition)
			if err != nil {
				return in.Unknown(err)
			}
			jobs = append(jobs, stored.Job)
		}
		plans, err = view.PlanJobs(asking, in.View, jobs, s, in.Now())
	}
	if err != nil {
		return in.Unknown(err)
	}
	if o.JSON() {
		a.NoteMoment(&in)
		return a.WriteJSON(plans)
	}
	for i := range plans {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		t := planTable(&plans[i])
		in.Mark(&t, a.Now())
		if err := a.Print(t); err != nil {
			return err
		}
	}
	return nil
}

// jobOrTask tells whether a name is a task's id or a part of one, and which. A job of that name
// takes precedence over a part.
func (a *Commands) jobOrTask(ctx context.Context, cl *client.Client, name string, given bool) (task.ID, bool, error) {
	if given {
		return "", false, nil
	}
	if id, err := task.ParseID(name); err == nil {
		return id, true, nil
	}
	if _, ok := task.Part(name); !ok {
		return "", false, nil
	}
	if _, err := cl.Job(ctx, name); err == nil {
		return "", false, nil
	}
	id, err := a.TaskID(ctx, cl, name)
	if errors.Is(err, task.ErrUnknown) {
		return "", false, nil
	}
	return id, err == nil, err
}

func planTable(p *view.Plan) term.Table {
	title := "Job " + p.Job
	if p.Job == "" {
		title = "Task " + string(p.Task)
	}
	t := term.Table{Title: title, Foot: []string{fmt.Sprintf("%s, as of sequence %d", wording.Plural(len(p.Nodes), "node"), p.Seq)}}
	if on, own := p.Route.Node(); own {
		t.Field("offered to", "node "+on+" alone")
	}
	t.Field("queue", p.Queue)
	t.Field("nodes with", p.Needs.String())
	t.Field("if there is none", p.NoNode)
	t.Field("prefers", p.Prefers)
	t.Field("window", strings.Join(p.Windows, "; "))
	t.Field("on one node", strings.Join(p.PerNode, "; "))
	t.Field("budget", strings.Join(p.Budgets, "; "))
	for _, r := range p.Rules {
		t.Field(r.Rule, strings.Join(r.Words, "; "))
	}
	if p.Parent {
		t.Field("a task on each of", fmt.Sprintf("%d: %s", len(p.Children), wording.Join(p.Children)))
	}
	wording.VerdictLines(&t, p.Nodes)
	return t
}
