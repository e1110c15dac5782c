package pages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

var graphPage = page{name: "graph", path: "/tasks/{id}/graph", verb: rights.TaskTree, show: showGraph, inFiles: true}

// Bounds of what a graph shows.
const (
	mostChildren  = 30  // of a list; beyond it only failed or running ones are drawn singly
	mostNodes     = 300 // of the whole; beyond it only those, and what they need or what needs them
	mostRead      = 5000
	mostBelow     = 150 // tasks of which the page of a task reads the graph: one costs about half a millisecond
	mostBeside    = 60  // as mostNodes, of what stands on the page of its task
	mostPrinted   = 50  // tasks whose output is interleaved, of which outputsAtOnce are read at once
	outputsAtOnce = 8
)

type graphData struct {
	ID   task.ID
	What string
	// As is graph, gantt or list.
	As      string
	Views   []tab
	Drawing term.Drawing
	Lanes   []lane
	From    time.Time
	To      time.Time
	Rows    []graphRow
	// Folded is how many tasks are not drawn singly.
	Folded int
	All    bool
	// Large tells that there are more children than are read.
	Large int
	// Many tells that there are more than mostBelow, for which the page of the task leads to that of the graph.
	Many bool
	// Retries are the buttons of the tasks at which a retry continues.
	Retries []button
	// Chosen is the task whose output stands beside the graph; "" for none, or all.
	Chosen task.ID
}

// graphRow is a task of a whole in a list.
type graphRow struct {
	task.Task
	Name string
	// Path is its name after those of its ancestors, without the first.
	Path  string
	Depth int
	Took  time.Duration
}

func showGraph(ctx context.Context, l *look) (any, error) {
	id, err := taskIn(l.r)
	if err != nil {
		return nil, err
	}
	root, err := view.GetTask(ctx, l.View, id)
	if err != nil {
		return nil, err
	}
	d := &graphData{ID: id, What: root.What(), As: l.Asked("as"), All: l.Asked("fold") == "none"}
	l.Title = "Graph of task " + id.Short()
	if d.As != "gantt" && d.As != "list" {
		d.As = "graph"
	}
	for _, as := range []string{"graph", "gantt", "list"} {
		asked := as
		if as == "graph" {
			asked = ""
		}
		d.Views = append(d.Views, tab{Name: as, Link: l.Here("as", asked), Here: as == d.As})
	}
	if err := d.read(ctx, l, &root, mostNodes); err != nil {
		return nil, err
	}
	if d.As == "gantt" {
		d.gantt(l.Now)
	}
	return d, nil
}

// read reads a task and its descendants, and lays them out. Of more than most the notable ones stand singly.
func (d *graphData) read(ctx context.Context, l *look, root *task.Task, most int) error {
	if root.Children != nil && len(root.Children.Names) > mostRead {
		d.Large = len(root.Children.Names)
		return nil
	}
	tree, err := view.Tree(ctx, l.View, l.View, root.ID)
	if err != nil {
		return err
	}
	whole := nodeOf(&tree, l.Now)
	shown := whole
	if !d.All {
		shown, d.Folded = foldBelow(whole, sizeOf(&whole) > most || l.Asked("fold") == "most")
	}
	d.rows(&tree, "", "", 0, l.Now, namesIn(&shown))
	d.Retries = d.retries(l)
	d.Drawing = term.Draw(&shown)
	return nil
}

// manyBelow tells whether more than mostBelow tasks are below one. Their ids follow from its, and lie together with those
// of others of its millisecond, of which it looks at a thousand.
func (l *look) manyBelow(ctx context.Context, id task.ID) bool {
	from, to := task.DerivedRange(id)
	from += task.ID(strings.Repeat("0", max(len(id)-len(from), 0)))
	below := map[task.ID]bool{id: true}
	for _, most := range []int{mostBelow + 1, view.MaxLimit} {
		page, err := l.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{After: from, OldestFirst: true, Limit: most}})
		if n := len(page.Tasks); err != nil || n <= mostBelow || page.Tasks[mostBelow].ID >= to {
			return false
		}
		for before := 0; before < len(below); { // a child may stand before its parent
			before = len(below)
			for i := range page.Tasks {
				if t := &page.Tasks[i]; below[t.Parent] {
					below[t.ID] = true
				}
			}
		}
	}
	return len(below)-1 > mostBelow
}

// Beside tells whether the graph leaves room for the output beside it, Wide whether it does in a wide window.
func (d *graphData) Beside() bool { return d.Drawing.Width < 760 }

// Wide is explained at Beside.
func (d *graphData) Wide() bool { return d.Drawing.Width < 1100 }

// Row is that of a task; nil if it is not shown.
func (d *graphData) Row(id task.ID) *graphRow {
	if i := slices.IndexFunc(d.Rows, func(r graphRow) bool { return r.ID == id }); i >= 0 {
		return &d.Rows[i]
	}
	return nil
}

// printing are the tasks from one on that run a program themselves, and have begun: it, and those below it.
func (d *graphData) printing(from int) (all []*graphRow) {
	for i := from; i < len(d.Rows) && (i == from || d.Rows[i].Depth > d.Rows[from].Depth); i++ {
		if r := &d.Rows[i]; r.Task.Children == nil && !r.StartedAt.IsZero() {
			all = append(all, r)
		}
	}
	return all
}

// choose chooses the tasks whose output is shown: with "all" all of them, or the asked one, for a parent those
// below it; else the first that has failed, or one that runs, or the last that began.
func (d *graphData) choose(asked string) []*graphRow {
	if asked == allSteps {
		return d.printing(0)
	}
	if i := slices.IndexFunc(d.Rows, func(r graphRow) bool { return string(r.ID) == asked }); i >= 0 {
		d.Chosen = d.Rows[i].ID
		if d.Rows[i].Task.Children == nil {
			return []*graphRow{&d.Rows[i]}
		}
		return d.printing(i)
	}
	rank := func(r *graphRow) int {
		switch {
		case r.Depth == 0: // a function prints itself
			return 2
		case r.State.Failed():
			return 0
		case r.State.Terminal():
			return 3
		}
		return 1
	}
	all := d.printing(0)
	slices.SortStableFunc(all, func(a, b *graphRow) int {
		if by := cmp.Compare(rank(a), rank(b)); by != 0 || rank(a) == 0 {
			return by
		}
		return b.StartedAt.Compare(a.StartedAt)
	})
	all = all[:min(len(all), 1)]
	for _, r := range all {
		d.Chosen = r.ID
	}
	return all
}

// begun returns when the first descendant of a row started; zero if none has.
func (d *graphData) begun(of int) (first time.Time) {
	for i := of + 1; i < len(d.Rows) && d.Rows[i].Depth > d.Rows[of].Depth; i++ {
		if at := d.Rows[i].StartedAt; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// retries are the buttons of the descendants at which a retry continues.
func (d *graphData) retries(l *look) (all []button) {
	for i := range d.Rows {
		r := &d.Rows[i]
		if i == 0 || !r.State.Failed() || r.Task.Children != nil {
			continue
		}
		for _, b := range l.buttons("tasks", string(r.ID), &r.Task) {
			if b.Verb == rights.TaskRetry {
				b.Label = "Retry from " + r.Path
				b.Why = "It runs again, under the same id, and then what was skipped for its sake. What has finished stays."
				all = append(all, b)
			}
		}
	}
	return all
}

// StepLink leads to a task of a graph, or to its output on this page; "" for anything else.
func (l *look) StepLink(id task.ID) string {
	if _, err := task.ParseID(string(id)); err != nil {
		return ""
	}
	if l.of.name == taskPage.name {
		return l.Self() + "?" + l.keeping("at", "fold", "step", string(id)) + "#printed"
	}
	return l.Link("tasks", string(id))
}

// nodeOf converts a task and its descendants for drawing.
func nodeOf(b *view.Branch, now time.Time) term.Node {
	t := &b.Task
	n := term.Node{ID: t.ID, Name: b.Name, State: t.State, Text: "not made yet"}
	if item, ok := t.Item(); ok && n.Name != "" {
		n.Name = item // says more than its place in the list
	} else if n.Name == "" || b.Spawned {
		n.Name = t.What()
	}
	n.Handler = slices.Contains([]string{job.OnSuccess, job.OnFailure, job.OnCancel, job.OnExit}, b.Name)
	if t.State != task.Unknown {
		n.Text = wording.State(t.State, t.Reason)
		if took := tookOf(t, now); took > 0 {
			n.Text = wording.Words(fmt.Sprintf("%s %s", t.State, wording.Span(took)), t.Reason)
		}
	}
	if t.Needs != nil {
		n.Needs = t.Needs.Of
	}
	for i := range b.Branches {
		n.Children = append(n.Children, nodeOf(&b.Branches[i], now))
	}
	if t.Durable != nil {
		n.Children = stepsOf(t, n.Children, now)
	}
	return n
}

// stepsOf are the steps of a function, each behind the one before it, with the children that it calls in it.
// Behind them are the task's other children.
func stepsOf(t *task.Task, children []term.Node, now time.Time) (steps []term.Node) {
	called := map[task.ID]bool{}
	for _, k := range t.Durable.Taken() {
		n := wording.StepNode(t.ID, &k, now)
		for _, child := range k.Children {
			if i := slices.IndexFunc(children, func(c term.Node) bool { return c.ID == child }); i >= 0 {
				n.Children, called[child] = append(n.Children, children[i]), true
			}
		}
		steps = append(steps, n)
	}
	return append(steps, slices.DeleteFunc(children, func(c term.Node) bool { return called[c.ID] })...)
}

// tookOf returns how long a task has run: its last attempt, or for a parent all of it.
func tookOf(t *task.Task, now time.Time) time.Duration {
	switch {
	case t.Children != nil && t.State.Terminal():
		return t.Since.Sub(t.SubmittedAt)
	case t.Live() && !t.StartedAt.IsZero():
		return max(now.Sub(t.StartedAt), 0)
	case t.Live():
		return max(now.Sub(t.SubmittedAt), 0)
	}
	return t.Ran.Std()
}

// notable tells whether a node, or one below it, is of interest: it has failed, or is active.
func notable(n *term.Node) bool {
	switch n.State {
	case task.Error, task.Abnormal, task.Running, task.Retrying, task.Cancelling:
		return true
	}
	return slices.ContainsFunc(n.Children, func(c term.Node) bool { return notable(&c) })
}

// foldBelow reduces a graph: in long lists, and everywhere in a large graph, it keeps notable nodes and their
// neighbours, and counts the others by their states.
func foldBelow(of term.Node, large bool) (term.Node, int) {
	keep := func(*term.Node) bool { return true }
	list := !slices.ContainsFunc(of.Children, func(c term.Node) bool { return len(c.Needs) > 0 && beside(&c, of.Children) })
	if large || list && len(of.Children) > mostChildren {
		near := neighbours(of.Children)
		left := mostChildren
		keep = func(c *term.Node) bool {
			if near[c.ID] && (left > 0 || !list) {
				left--
				return true
			}
			return false
		}
	}
	var kept []term.Node
	counts, n := map[task.State]int{}, 0
	for i := range of.Children {
		c := of.Children[i]
		if !keep(&c) {
			counts[c.State]++
			n += sizeOf(&c)
			continue
		}
		inner, more := foldBelow(c, large)
		kept, n = append(kept, inner), n+more
	}
	for _, s := range append(task.States(), task.Unknown) {
		if counts[s] > 0 {
			text := s.String()
			if s == task.Unknown {
				text = "not made yet"
			}
			kept = append(kept, term.Node{ID: task.ID(fmt.Sprintf("%s %s", of.ID, text)), Name: count(counts[s]) + " more", Text: text, State: s})
		}
	}
	of.Children = kept
	return of, n
}

// neighbours returns the notable ones among nodes beside each other, what they need, and what needs
// them.
func neighbours(nodes []term.Node) map[task.ID]bool {
	near, there := map[task.ID]bool{}, map[task.ID]bool{}
	for i := range nodes {
		there[nodes[i].ID] = notable(&nodes[i])
	}
	for i := range nodes {
		n := &nodes[i]
		if there[n.ID] {
			near[n.ID] = true
		}
		for _, need := range n.Needs {
			if there[n.ID] {
				near[need.Task] = true
			}
			if there[need.Task] {
				near[n.ID] = true
			}
		}
	}
	return near
}

// beside tells whether a node needs any of some.
func beside(n *term.Node, nodes []term.Node) bool {
	return slices.ContainsFunc(n.Needs, func(need task.Need) bool {
		return slices.ContainsFunc(nodes, func(o term.Node) bool { return o.ID == need.Task })
	})
}

func sizeOf(n *term.Node) int {
	size := 1
	for i := range n.Children {
		size += sizeOf(&n.Children[i])
	}
	return size
}

// namesIn returns the ids of a graph.
func namesIn(n *term.Node) map[task.ID]bool {
	all := map[task.ID]bool{n.ID: true}
	for i := range n.Children {
		for id := range namesIn(&n.Children[i]) {
			all[id] = true
		}
	}
	return all
}

// rows adds a task and its descendants, as far as they are shown.
func (d *graphData) rows(b *view.Branch, above, name string, depth int, now time.Time, shown map[task.ID]bool) {
	if !shown[b.Task.ID] {
		return
	}
	if name == "" {
		name = b.Task.What()
	}
	path := above + name
	d.Rows = append(d.Rows, graphRow{b.Task, name, path, depth, tookOf(&b.Task, now)})
	if depth > 0 {
		above = path + "/"
	}
	for i := range b.Branches {
		name := b.Branches[i].Name
		if item, ok := b.Branches[i].Task.Item(); ok && name != "" {
			name = item
		}
		d.rows(&b.Branches[i], above, name, depth+1, now, shown)
	}
}

// gantt lays out the rows over the time of the whole: how long each waited, and how long it last
// ran.
func (d *graphData) gantt(now time.Time) {
	ends := func(t *task.Task) time.Time {
		if t.State.Terminal() {
			return t.Since
		}
		return now
	}
	for i := range d.Rows {
		t := &d.Rows[i].Task
		if t.State == task.Unknown {
			continue
		}
		if d.From.IsZero() || t.SubmittedAt.Before(d.From) {
			d.From = t.SubmittedAt
		}
		if end := ends(t); end.After(d.To) {
			d.To = end
		}
	}
	over := span{d.From, d.To}
	for i := range d.Rows {
		r := &d.Rows[i]
		row := lane{Name: r.Path, State: r.State, Took: r.Took, Skipped: r.State == task.Cancelled && r.Reason == value.Skipped}
		began, end := r.StartedAt, ends(&r.Task)
		if r.Task.Children != nil { // it began with the first of its parts
			began = d.begun(i)
		}
		if r.State != task.Unknown {
			waited := end
			if !began.IsZero() {
				waited = began
				row.Bars = append(row.Bars, over.bar(began, end, 2, r.Name+": "+wording.Span(r.Took)))
			}
			if wait := waited.Sub(r.SubmittedAt); wait > 0 {
				row.Waits = append(row.Waits, over.bar(r.SubmittedAt, waited, 1, r.Name+" waited "+wording.Span(wait)))
			}
		}
		row.Link = []string{"tasks", string(r.ID)}
		d.Lanes = append(d.Lanes, row)
	}
}
