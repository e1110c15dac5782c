package view

import (
	"context"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
)

// The rules that postpone tasks are asked here with what the log says, as a claim asks them
// ([duties.Ask]). Those that choose a node ([job.Choice]) are asked about each node, all others once.

// postponed says in words why a rule would postpone a task, or end it, if a node claimed it at a
// time; "" if the rule lets it start.
func postponed(ctx context.Context, v View, t *task.Task, rule *job.Rule, at time.Time) (string, error) {
	if rule.Then == "" || rule.Question == job.Choice || !rule.Has(t.Spec) {
		return "", nil
	}
	read := duties.Read{Calendar: calendars(ctx, v)}
	if t.Spec.Guarded() && t.Job != "" {
		is, err := v.Get(ctx, Breaker(t.Job))
		if err != nil {
			return "", err
		}
		read.Circuit = *is.Breaker
	}
	ruling, err := duties.Ask(t, task.By{Rule: rule.Name, At: at}, read)
	return ruling.Words(), err
}

// calendars returns how to read calendars.
func calendars(ctx context.Context, v View) func(name string) (task.Definition, error) {
	return func(name string) (task.Definition, error) {
		is, err := v.Get(ctx, Definition(task.Named(task.DefCalendar, name)))
		if err != nil {
			return task.Definition{}, err
		}
		return *is.Definition, nil
	}
}

// maxPlaces is how many nodes are asked whether they have a place for a task.
const maxPlaces = 20

// verdicts judges the nodes for a task: by what it requires of them, and for a place. Ran is the node
// to which it sticks, "" if there is none. A view that lists no tasks does not know the places.
func verdicts(ctx context.Context, v View, t *task.Task, nodes []node.Node, want node.Want, ran string, at time.Time) []node.Verdict {
	all := node.Eligible(nodes, want)
	if t.Spec == nil {
		return all
	}
	node.Prefer(all, nodes, &t.Spec.Place, ran)
	counters, err := t.OnNode()
	if len(counters) == 0 || err != nil {
		return all
	}
	for i := range all[:min(len(all), maxPlaces)] {
		if n := &all[i]; n.Rule == "" {
			n.Rule, n.Why = crowded(ctx, v, t, n.Node, counters, at)
		}
	}
	slices.SortStableFunc(all, func(a, b node.Verdict) int { return min(len(a.Rule), 1) - min(len(b.Rule), 1) })
	return all
}

// crowded returns the rule by which a node has no place for a task, and says why; "" if it has one.
func crowded(ctx context.Context, v View, t *task.Task, id node.ID, counters []limit.Counter, at time.Time) (node.Rule, string) {
	page, err := v.List(ctx, Query{Kind: Tasks, Filter: Filter{Node: string(id), States: []task.State{task.Running, task.Cancelling}, Limit: MaxLimit}})
	if err != nil {
		return "", "" // an explanation gives what is known
	}
	for _, c := range counters {
		by := task.By{Rule: value.PerNode, At: at, Limit: c.Name, Self: &task.Known{Node: string(id)}}
		for i := range page.Tasks {
			others, _ := page.Tasks[i].OnNode() // a counter that cannot be named was not claimed
			if page.Tasks[i].ID != t.ID && limit.Named(others, c.Name) != nil {
				by.Ends = append(by.Ends, page.Tasks[i].Epoch)
			}
		}
		ruling, err := duties.Ask(t, by, duties.Read{Max: c.Max})
		if err == nil && ruling.Command != nil {
			return node.Rule(by.Rule), ruling.Words()
		}
	}
	return "", ""
}
