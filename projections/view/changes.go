package view

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"millrace/task"
	"millrace/task/node"
)

// Difference is the change of everything between two places in the log.
type Difference struct {
	// Things are the changed subjects: nodes, queues, limits, and definitions, by kind and name.
	Things []Differs `json:"things"`
	// Counts are the numbers of tasks by state at both places; states without tasks are missing.
	Counts map[string][2]int `json:"counts,omitzero"`
	// Steps counts the tasks whose state changed, by both states: "pending to finished", or "new to
	// pending" for a new task.
	Steps map[string]int `json:"steps,omitzero"`
	// Tasks are the first of these tasks, by id, and More counts the others.
	Tasks []Stepped `json:"tasks"`
	More  int       `json:"more,omitempty"`
}

// None tells whether there is no difference.
func (d *Difference) None() bool { return len(d.Things) == 0 && len(d.Steps) == 0 }

// Name keeps the names of so many tasks at most, and counts the others.
func (d *Difference) Name(most int) {
	if n := len(d.Tasks); n > most {
		d.Tasks, d.More = d.Tasks[:most], d.More+n-most
	}
}

// Differs is a changed subject.
type Differs struct {
	// Kind is node, queue, limit, or the kind of a definition, such as job. Name is its name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// How is new, gone or changed. Changes are the differences of a changed one.
	How     string   `json:"how"`
	Changes []Change `json:"changes,omitempty"`
}

// Values of [Differs.How].
const (
	New     = "new"
	Gone    = "gone"
	Changed = "changed"
)

// Stepped is a task whose state changed.
type Stepped struct {
	// Task is its id. What says in words what it runs.
	Task task.ID `json:"task"`
	What string  `json:"what,omitempty"`
	// Was is the state before, missing for a new task, and Is the one after. Node runs the task, or
	// ran it last.
	Was  task.State `json:"was,omitzero"`
	Is   task.State `json:"is"`
	Node string     `json:"node,omitempty"`
}

// DiffAll returns the change of everything between two places. It includes only tasks that the
// filter selects by unchanging properties; most is how many tasks are named.
func DiffAll(ctx context.Context, before, after Whole, f Filter, most int) (Difference, error) {
	d := Difference{Things: []Differs{}, Counts: map[string][2]int{}, Steps: map[string]int{}, Tasks: []Stepped{}}
	was, err := things(ctx, before)
	if err != nil {
		return d, err
	}
	is, err := things(ctx, after)
	if err != nil {
		return d, err
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b [2]string) int { return strings.Compare(a[0]+"\x00"+a[1], b[0]+"\x00"+b[1]) }) {
		a, there := was[key]
		b, here := is[key]
		differs := Differs{Kind: key[0], Name: key[1]}
		switch {
		case !there:
			differs.How = New
		case !here:
			differs.How = Gone
		default:
			if differs.How, differs.Changes = Changed, diff(a, b); len(differs.Changes) == 0 {
				continue
			}
		}
		d.Things = append(d.Things, differs)
	}
	if err := d.count(ctx, before, after, f); err != nil {
		return d, err
	}
	return d, d.step(ctx, before, after, f, most)
}

// count counts the tasks at both places.
func (d *Difference) count(ctx context.Context, before, after Whole, f Filter) error {
	for i, w := range []Whole{before, after} {
		c, err := w.Count(ctx, Query{Kind: Tasks, Filter: f})
		if err != nil {
			return err
		}
		for state, n := range c.States() {
			both := d.Counts[state.String()]
			both[i] = n
			d.Counts[state.String()] = both
		}
	}
	return nil
}

// step finds the tasks whose state has changed.
func (d *Difference) step(ctx context.Context, before, after Whole, f Filter, most int) error {
	steps, err := after.Steps(ctx, before, f, most)
	if err != nil {
		return err
	}
	for of, n := range steps.Of {
		d.Steps[stepped(of[0], of[1])] += n
		d.More += n
	}
	for i := range steps.First {
		d.name(steps.Was[i], &steps.First[i])
		d.More--
	}
	return nil
}

// stepped is the change of a state in words.
func stepped(was, is task.State) string {
	from := New
	if was != task.Unknown {
		from = was.String()
	}
	return from + " to " + is.String()
}

// name adds a task whose state was another one.
func (d *Difference) name(was task.State, t *task.Task) {
	d.Tasks = append(d.Tasks, Stepped{t.ID, t.What(), was, t.State, t.Node})
}

// things returns the fields of everything but tasks, by kind and name.
func things(ctx context.Context, w Whole) (map[[2]string]map[string]json.RawMessage, error) {
	all := map[[2]string]map[string]json.RawMessage{}
	add := func(kind, name string, thing any) error {
		fields, err := fieldsIn(thing)
		all[[2]string{kind, name}] = fields
		return err
	}
	nodes, err := w.List(ctx, Query{Kind: Nodes})
	if err != nil {
		return nil, err
	}
	for i := range nodes.Nodes {
		if n := &nodes.Nodes[i]; n.State != node.Unknown {
			if err := add(Nodes.String(), string(n.ID), n); err != nil {
				return nil, err
			}
		}
	}
	queues, err := w.List(ctx, Query{Kind: Queues})
	if err != nil {
		return nil, err
	}
	for i := range queues.Queues {
		if err := add(Queues.String(), queues.Queues[i].Name, &queues.Queues[i]); err != nil {
			return nil, err
		}
	}
	defined, err := w.List(ctx, Query{Kind: Definitions})
	if err != nil {
		return nil, err
	}
	for def, is := range defined.Definitions {
		if !is.Exists() {
			continue
		}
		if err := add(def.Kind(), def.Name(), is.Edition); err != nil {
			return nil, err
		}
	}
	known, _, err := LimiterOf(ctx, w, w)
	if err != nil {
		return nil, err
	}
	p, err := w.Point(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range known.Counters(p.At, 0) {
		if err := add("limit", c.Name, c); err != nil {
			return nil, err
		}
	}
	return all, nil
}
