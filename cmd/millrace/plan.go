package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
	"millrace/task/jobfile"
	"millrace/view"
)

func (a *app) planCommand() *cobra.Command {
	var o output
	var file string
	var place placeFlags
	var queue string
	var nodes []string
	c := &cobra.Command{
		Use:   "plan [JOB|TASK] [-f FILE]",
		Short: "Say which nodes may run a job, and what excludes each of the others",
		Long: `Says of every node whether it may claim a task of a stored job, of a job in a file
(-f, which need not be stored), or a task that waits, and names the rule that excludes
it if not: name, avoid, queue, label or slots; or that it is retired, offline, draining,
quarantined, cordoned or unproved. It also says whether the windows of the job and of its queue are
open, and how many of its tasks may run on one node. Nothing is submitted.`,
		Example: `  millrace plan -f crawl.yaml
  millrace plan crawl --labels 'zone=eu,mem>=16'`,
		Args: takes(0, 1, "job or task"), ValidArgsFunction: a.completeJobs,
	}
	fs := c.Flags()
	fs.StringVarP(&file, "file", "f", "", "job `file`; - is stdin")
	fs.StringVarP(&queue, "queue", "q", "", "`queue` to wait in (default that of the job)")
	fs.StringSliceVar(&nodes, "node", nil, "only on this `node` (repeat it)")
	place.flags(fs, "spread")
	o.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		s := task.Submission{Queue: queue, Nodes: nodes}
		if err := place.put(&s); err != nil {
			return misuse(c, "%w", err)
		}
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		var jobs []task.Job
		if file != "" {
			read, err := parseFiles(a, c, []string{file}, jobfile.Parse)
			if err != nil {
				return err
			}
			for _, f := range read {
				if f.err != nil {
					return f.err
				}
				for _, j := range f.all {
					if name == "" || name == j.Name {
						jobs = append(jobs, j)
					}
				}
			}
			if len(jobs) == 0 {
				return misuse(c, "no job %q is in %s", name, file)
			}
		} else if name == "" {
			return misuse(c, "name a job or a task, or a file with -f")
		}
		return a.plan(c.Context(), name, jobs, s, &o)
	}
	return c
}

func (a *app) plan(ctx context.Context, name string, jobs []task.Job, s task.Submission, o *output) error {
	cl, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	asking, cancel := a.asking(ctx)
	defer cancel()
	id, isTask, err := a.jobOrTask(asking, cl, name, len(jobs) > 0)
	if err != nil {
		return err
	}
	plans := make([]view.Plan, 1)
	if isTask {
		plans[0], err = view.PlanTask(asking, cl.View(), id, cl.Now())
	} else {
		if len(jobs) == 0 {
			stored, err := cl.Job(asking, name)
			if err != nil {
				return err
			}
			jobs = append(jobs, stored.Job)
		}
		plans, err = view.PlanJobs(asking, cl.View(), jobs, s, cl.Now())
	}
	if err != nil {
		return err
	}
	if o.json() {
		return a.writeJSON(plans)
	}
	for i := range plans {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := a.print(planTable(&plans[i])); err != nil {
			return err
		}
	}
	return nil
}

// jobOrTask tells whether a name is a task's id or a part of one, and which. A job of that name goes before a part.
func (a *app) jobOrTask(ctx context.Context, cl *client.Client, name string, given bool) (task.ID, bool, error) {
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
	id, err := a.taskID(ctx, cl, name)
	if errors.Is(err, task.ErrUnknown) {
		return "", false, nil
	}
	return id, err == nil, err
}

func planTable(p *view.Plan) table {
	title := "Job " + p.Job
	if p.Job == "" {
		title = "Task " + string(p.Task)
	}
	t := table{title: title, foot: []string{fmt.Sprintf("%s, as of sequence %d", plural(len(p.Nodes), "node"), p.Seq)}}
	if on, own := p.Route.Node(); own {
		t.field("offered to", "node "+on+" alone")
	}
	t.field("queue", p.Queue)
	t.field("nodes with", p.Needs.String())
	t.field("if there is none", p.NoNode)
	t.field("prefers", p.Prefers)
	t.field("window", strings.Join(p.Windows, "; "))
	t.field("on one node", strings.Join(p.PerNode, "; "))
	if p.Parent {
		t.field("a task on each of", fmt.Sprintf("%d: %s", len(p.Children), join(p.Children)))
	}
	t.verdictLines(p.Nodes)
	return t
}
