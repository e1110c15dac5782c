package client

import (
	"context"
	"fmt"
	"strings"

	"millrace/node"
	"millrace/task"
)

// Plan says where a task of a job would run, or may be claimed at present.
type Plan struct {
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

// PlanTask judges nodes, as they were at a sequence, for a task.
func (c *Client) PlanTask(ctx context.Context, t *task.Task, nodes []node.Node, at uint64) Plan {
	want := node.WantOfTask(t)
	if t.Spec.Parental() {
		want = node.WantOf(t.Spec, t.Route.Queue())
	}
	p := Plan{Task: t.ID, Route: t.Route, Queue: want.Queue, Needs: want.Needs, Nodes: node.Eligible(nodes, want), Seq: at, Parent: t.Spec.Parental()}
	if t.Spec != nil {
		node.Prefer(p.Nodes, nodes, &t.Spec.Place, c.RanOn(ctx, t))
		p.Prefers = t.Spec.Place.PreferWords()
		if len(want.Nodes) > 0 || len(want.Needs) > 0 {
			if p.NoNode = t.Spec.Place.NoNode; p.NoNode == "" {
				p.NoNode = task.NoNodeExpire
			}
		}
	}
	if p.Parent {
		p.Route = ""
		p.Children = node.Expand(t, nodes, at).Names
	}
	return p
}

// PlanJob judges nodes, as they were at a sequence, for a task of a job that is submitted as s says; what
// it is given besides its place does not matter. The error wraps [ErrInvalid] if a field is wrong.
func (c *Client) PlanJob(ctx context.Context, job task.Job, s task.Submission, nodes []node.Node, at uint64) (Plan, error) {
	if err := job.Spec.Validate(); err != nil {
		return Plan{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	prefers := job.Place.PreferWords()
	// What it is to be given when it is submitted decides about its limits, not its place.
	job.Concurrency, job.Rate, job.Unique = nil, nil, task.Unique{}
	if strings.Contains(job.Place.Sticky, "{") {
		job.Place.Sticky = "" // nor is it known whose task it will be
	}
	s.Job, s.Spec = "", nil
	birth, err := task.Birth(s, &job, 0, c.Now())
	if err != nil {
		return Plan{}, fmt.Errorf("job %s: %w: %w", job.Name, ErrInvalid, err)
	}
	t := task.Evolve(task.Task{}, task.Recorded{Seq: 1, At: c.Now(), Event: birth})
	p := c.PlanTask(ctx, &t, nodes, at)
	if p.Job = job.Name; s.Place == nil && len(s.Nodes) == 0 {
		p.Prefers = prefers
	}
	return p, nil
}

// RanOn is the node to which a task sticks; "" if there is none, or if it cannot be found out.
func (c *Client) RanOn(ctx context.Context, t *task.Task) string {
	if t.Spec == nil || t.Spec.Place.Sticky == "" {
		return ""
	}
	if t.Spec.Place.Sticky == task.StickyAttempt {
		return t.Node
	}
	name, err := t.StickyName()
	if err != nil || name == "" {
		return ""
	}
	ran, _ := c.store.Ran(ctx, name) // an explanation says what is known
	return ran.Node
}
