package view

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

// Plan says where a task of a job would run, or may be claimed.
type Plan struct {
	// Job or Task is the subject of the plan.
	Job  string  `json:"job,omitempty"`
	Task task.ID `json:"task,omitempty"`
	// Route is where it would be, or is, offered; "" for a parent.
	Route placement.Route `json:"route,omitempty"`
	// Queue and Needs are its requirements of nodes, and NoNode is what happens while no node meets
	// them.
	Queue  string             `json:"queue,omitempty"`
	Needs  placement.Selector `json:"needs,omitempty"`
	NoNode string             `json:"no_node,omitempty"`
	// Prefers says in words which nodes are preferred, and for how long it is left to them.
	Prefers string `json:"prefers,omitempty"`
	// Windows say in words whether its window and that of its queue are open. PerNode says how many
	// may run on one node. Budgets say what they allow, and their usage if one of them holds the
	// task. Rules say what its other rules allow.
	Windows []string    `json:"windows,omitempty"`
	PerNode []string    `json:"per_node,omitempty"`
	Budgets []string    `json:"budgets,omitempty"`
	Rules   []RuleWords `json:"rules,omitempty"`
	// Children are the nodes that would each get a child.
	Children []string `json:"children,omitempty"`
	// Nodes tells for each node whether it may run the task, and which rule excludes it.
	Nodes []node.Verdict `json:"nodes"`
	// Seq is the sequence of the log that the nodes reflect.
	Seq uint64 `json:"seq"`
	// Parent says that it is, or would be, a parent.
	Parent bool `json:"parent,omitempty"`
}

// RuleWords is what a rule of a job allows.
type RuleWords struct {
	// Rule is the name of the rule in [job.Rules].
	Rule string `json:"rule"`
	// Words say what it allows.
	Words []string `json:"words"`
}

// PlanTask judges the nodes for a task; now is for its windows. The error wraps [task.ErrUnknown]
// if there is no such task.
func PlanTask(ctx context.Context, v View, id task.ID, now time.Time) (Plan, error) {
	t, err := GetTask(ctx, v, id)
	if err != nil {
		return Plan{}, err
	}
	nodes, err := v.List(ctx, Query{Kind: Nodes})
	if err != nil {
		return Plan{}, err
	}
	p := planOf(ctx, v, &t, &nodes, now)
	if err := p.rules(ctx, v, &t, t.Spec, now); err != nil {
		return p, err
	}
	return p, p.spent(ctx, v, &t)
}

// spent adds the budgets that hold a task, if the view knows limits.
func (p *Plan) spent(ctx context.Context, v View, t *task.Task) error {
	if !t.Budgeted() || !t.Admissible() {
		return nil
	}
	s, err := v.Standing(ctx, t.ID, 0)
	if s == nil || err != nil {
		return err
	}
	for i := range s.Counters {
		if c := &s.Counters[i]; c.Full && c.Budget != nil {
			p.Budgets = append(p.Budgets, fmt.Sprintf("limit %s is used up, %s, until %s", c.Name, c.Budget.Words(), c.Budget.Resets.UTC().Format(time.RFC3339)))
		}
	}
	return nil
}

// rules adds the conditions, besides nodes, on when and how many tasks of a spec may start. The
// spec is the task's own, or its job's, whose keys are not expanded.
func (p *Plan) rules(ctx context.Context, v View, t *task.Task, spec *job.Spec, now time.Time) error {
	if spec == nil {
		return nil
	}
	now, err := timeOf(ctx, v, now)
	if err != nil {
		return err
	}
	asked := *t
	asked.Spec = spec
	for i := range job.Rules {
		r := &job.Rules[i]
		if !r.Has(spec) {
			continue
		}
		closed, err := postponed(ctx, v, &asked, r, now)
		if err != nil {
			return err
		}
		var words []string
		if r.Words != nil {
			words = r.Words(spec)
		}
		switch {
		case r.Name == value.PerNode:
			p.PerNode = words
		case r.Name == "budget":
			p.Budgets = words
		case r.Question == job.Condition:
			p.Windows = append(p.Windows, cmp.Or(closed, "inside of the window "+spec.Window))
		case words != nil:
			if closed != "" {
				words = append(words, closed)
			}
			p.Rules = append(p.Rules, RuleWords{r.Name, words})
		}
	}
	name := t.RateQueue()
	if name == "" || p.Parent {
		return nil
	}
	said, err := GetQueue(ctx, v, name)
	if err != nil || said.Always() {
		return err
	}
	wait, err := Flow(ctx, v, said.Valve, now)
	if err != nil {
		return err
	}
	words := "inside of " + said.Words()
	if wait != nil {
		words = wait.Detail
	}
	p.Windows = append(p.Windows, fmt.Sprintf("queue %q: %s", name, words))
	return nil
}

// planOf judges nodes for a task.
func planOf(ctx context.Context, v View, t *task.Task, page *Page, now time.Time) Plan {
	want := node.WantOfTask(t)
	if t.Spec.Parental() {
		want = node.WantOf(t.Spec, t.Route.Queue())
	}
	p := Plan{
		Task:   t.ID,
		Route:  t.Route,
		Queue:  want.Queue,
		Needs:  want.Needs,
		Nodes:  verdicts(ctx, v, t, page.Nodes, want, ranOn(ctx, v, t), now),
		Seq:    page.Point.Seq,
		Parent: t.Spec.Parental(),
	}
	if t.Spec != nil {
		p.Prefers = t.Spec.Place.PreferWords()
		if len(want.Nodes) > 0 || len(want.Needs) > 0 {
			if p.NoNode = t.Spec.Place.NoNode; p.NoNode == "" {
				p.NoNode = job.NoNodeExpire
			}
		}
	}
	if p.Parent {
		p.Route = ""
		p.Children = node.Expand(t, page.Nodes, page.Point.Seq).Names
	}
	return p
}

// PlanJobs judges the nodes for a task of each job, submitted now as s says; only the place in s
// matters. The error wraps [ErrQuery] if a field is invalid.
func PlanJobs(ctx context.Context, v View, jobs []job.Job, s birth.Submission, now time.Time) ([]Plan, error) {
	nodes, err := v.List(ctx, Query{Kind: Nodes})
	if err != nil {
		return nil, err
	}
	var plans []Plan
	for _, job := range jobs {
		t, err := newborn(job, s, now)
		if err != nil {
			return nil, err
		}
		p := planOf(ctx, v, &t, &nodes, now)
		if p.Job = job.Name; s.Place == nil && len(s.Nodes) == 0 {
			p.Prefers = job.Place.PreferWords()
		}
		if err := p.rules(ctx, v, &t, &job.Spec, now); err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// newborn is the task of a job, submitted as s says.
func newborn(of job.Job, s birth.Submission, now time.Time) (task.Task, error) {
	if err := of.Spec.Validate(); err != nil {
		return task.Task{}, wrong{err}
	}
	// The values given at submission affect its limits, not its place.
	whole := of.Spec
	of.Spec = of.Unkeyed()
	of.Unique, of.Collapse = job.Unique{}, nil
	if strings.Contains(of.Place.Sticky, "{") {
		of.Place.Sticky = "" // the sticky key is not known either
	}
	of.Params = param.Params{Defaults: of.Params.Values()}
	s.Job, s.Spec = "", nil
	made, err := birth.Of(s, &of, 0, now)
	if err != nil {
		return task.Task{}, wrong{fmt.Errorf("job %s: %w", of.Name, err)}
	}
	t := task.Evolve(task.Task{}, task.Recorded{Seq: 1, At: now, Event: made})
	for i := range job.Rules {
		if r := &job.Rules[i]; r.Question == job.Choice && r.Keys != nil {
			r.Copy(t.Spec, &whole) // nodes are asked by it, if no value is needed for that
		}
	}
	return t, nil
}

// ranOn is the node to which a task sticks; "" if there is none, or if it cannot be found out.
func ranOn(ctx context.Context, v View, t *task.Task) string {
	if t.Spec == nil || t.Spec.Place.Sticky == "" {
		return ""
	}
	if t.Spec.Place.Sticky == job.StickyAttempt {
		return t.Node
	}
	p, ok := v.(Present)
	name, err := t.StickyName()
	if !ok || err != nil || name == "" {
		return ""
	}
	ran, _ := p.Ran(ctx, name) // an explanation gives what is known
	return ran
}
