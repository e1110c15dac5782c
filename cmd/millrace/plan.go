package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/node"
	"millrace/task"
)

// plan says where a task of a job would run, or may be claimed at present.
type plan struct {
	// Job or Task is what the plan is about.
	Job  string  `json:"job,omitempty"`
	Task task.ID `json:"task,omitempty"`
	// Route is where it would be offered, or is; "" for a parent.
	Route task.Route `json:"route,omitempty"`
	// Queue and Needs are what it asks of nodes, and NoNode what happens while there is none.
	Queue  string        `json:"queue,omitempty"`
	Needs  task.Selector `json:"needs,omitempty"`
	NoNode string        `json:"no_node,omitempty"`
	// Prefers says in words which of the nodes are better, and for how long it is left to them.
	Prefers string `json:"prefers,omitempty"`
	// Children are the nodes that would get a child each.
	Children []string       `json:"children,omitempty"`
	Nodes    []node.Verdict `json:"nodes"`
	// Seq is the sequence of the log that the nodes reflect.
	Seq uint64 `json:"seq"`
	// Parent tells whether it would be one.
	Parent bool `json:"parent,omitempty"`
}

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
quarantined, cordoned or unproved. Nothing is submitted.`,
		Example: `  millrace plan -f crawl.yaml
  millrace plan crawl --labels 'zone=eu,mem>=16'`,
		Args: takes(0, 1, "job or task"), ValidArgsFunction: a.completeJobs,
	}
	fs := c.Flags()
	fs.StringVarP(&file, "file", "f", "", "job `file`; - is stdin")
	fs.StringVarP(&queue, "queue", "q", "", "`queue` to wait in (default that of the job)")
	fs.StringSliceVar(&nodes, "node", nil, "only on this `node` (repeat it)")
	place.flags(fs)
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
			read, err := a.parseJobFiles(c, []string{file})
			if err != nil {
				return err
			}
			for _, f := range read {
				if f.err != nil {
					return f.err
				}
				for _, j := range f.jobs {
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
	nodes, at, err := cl.KnownNodes(asking)
	if err != nil {
		return err
	}
	var plans []plan
	if id, err := task.ParseID(name); err == nil && len(jobs) == 0 {
		t, err := cl.Task(asking, id)
		if err != nil {
			return err
		}
		plans = append(plans, planTask(&t, nodes, at, ranOn(asking, cl, &t)))
	} else {
		if len(jobs) == 0 {
			stored, err := cl.Job(asking, name)
			if err != nil {
				return err
			}
			jobs = append(jobs, stored.Job)
		}
		for i := range jobs {
			// What it is to be given when it is submitted decides about its limits, not its place.
			job := jobs[i]
			job.Concurrency, job.Rate, job.Unique = task.Concurrency{}, task.Rate{}, task.Unique{}
			if strings.Contains(job.Place.Sticky, "{") {
				job.Place.Sticky = "" // nor is it known whose task it will be
			}
			birth, err := task.Birth(s, &job, 0, a.now())
			if err != nil {
				return fmt.Errorf("job %s: %w: %w", jobs[i].Name, client.ErrInvalid, err)
			}
			t := task.Evolve(task.Task{}, task.Recorded{Seq: 1, At: a.now(), Event: birth})
			p := planTask(&t, nodes, at, ranOn(asking, cl, &t))
			p.Job = jobs[i].Name
			if s.Place == nil {
				p.Prefers = preferText(&jobs[i].Place)
			}
			plans = append(plans, p)
		}
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

// planTask judges the nodes for one task.
func planTask(t *task.Task, nodes []node.Node, at uint64, ran string) plan {
	want := node.WantOfTask(t)
	if t.Spec.Parental() {
		want = node.WantOf(t.Spec, t.Route.Queue())
	}
	p := plan{Task: t.ID, Route: t.Route, Queue: want.Queue, Needs: want.Needs, Nodes: node.Eligible(nodes, want), Seq: at, Parent: t.Spec.Parental()}
	if t.Spec != nil {
		node.Prefer(p.Nodes, nodes, &t.Spec.Place, ran)
		p.Prefers = preferText(&t.Spec.Place)
	}
	if t.Spec != nil && (len(want.Nodes) > 0 || len(want.Needs) > 0) {
		if p.NoNode = t.Spec.Place.NoNode; p.NoNode == "" {
			p.NoNode = task.NoNodeExpire
		}
	}
	if p.Parent {
		p.Route = ""
		p.Children = node.Expand(t, nodes, at).Names
	}
	return p
}

func planTable(p *plan) table {
	title := "Job " + p.Job
	if p.Job == "" {
		title = "Task " + string(p.Task)
	}
	t := table{title: title, foot: []string{fmt.Sprintf("%s, as of sequence %d", plural(len(p.Nodes), "node"), p.Seq)}}
	t.field("offered on", string(p.Route))
	t.field("queue", p.Queue)
	t.field("nodes with", p.Needs.String())
	t.field("if there is none", p.NoNode)
	t.field("prefers", p.Prefers)
	if p.Parent {
		t.field("a task on each of", fmt.Sprintf("%d: %s", len(p.Children), join(p.Children)))
	}
	t.verdictLines(p.Nodes)
	return t
}

// preferText says which nodes a place prefers.
func preferText(p *task.Place) string {
	if !p.Prefers() {
		return ""
	}
	var parts []string
	switch p.Sticky {
	case "":
	case task.StickyJob:
		parts = append(parts, "the node on which its job ran last")
	case task.StickyAttempt:
		parts = append(parts, "the node of its last attempt")
	default:
		parts = append(parts, "the node on which "+p.Sticky+" ran last")
	}
	for _, f := range p.Prefer {
		parts = append(parts, fmt.Sprintf("nodes with %s (weight %d)", f.Labels, max(f.Weight, 1)))
	}
	wait := p.PreferWait
	if wait == 0 {
		wait = task.Duration(task.DefaultPreferWait)
	}
	return fmt.Sprintf("%s; after %v any of its nodes", strings.Join(parts, ", then "), wait)
}
