package pages

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
)

var (
	nodesPage = page{name: "nodes", path: "/nodes", entry: "Nodes", verb: rights.NodeList, show: showNodes, inFiles: true}
	nodePage  = page{name: "node", path: "/nodes/{id}", verb: rights.NodeGet, show: showNode, inFiles: true}
)

// Bounds of what the page of a node shows.
const (
	shownHours    = 24
	shownOfNode   = 50 // tasks
	shownSessions = 200
)

type nodesData struct {
	list[client.NodeView]
	// Unserved are the tasks that wait for one node alone, which does not take them.
	Unserved []client.UnservedNode
	// Measured are the columns of what tasks have used, by which the rows can be sorted; Sorted is that by which they are.
	Measured []string
	Sorted   string
}

// Sorts tells whether a column can sort the rows.
func (d *nodesData) Sorts(name string) bool { return slices.Contains(d.Measured, name) }

func showNodes(ctx context.Context, l *look) (any, error) {
	d := &nodesData{}
	page, err := l.nodes(ctx)
	d.set(page.Nodes, err)
	d.columns = term.Choose(wording.NodeColumns(l.Now, l.Past), "node", "state", "since", "busy", "queues", "sessions", "flap", "version", "next step")
	d.Unserved = page.Unserved
	used, err := l.site.used.get(latestKey{l.inFile() + " " + l.At, l.Now.Truncate(latestFor)}, func() (usedBy, error) { return findUsed(ctx, l.View) })
	if d.Wrong == nil {
		d.fail(err)
	}
	for _, m := range measures {
		of := used[m.name]
		if len(of) == 0 {
			continue
		}
		d.Measured = append(d.Measured, m.name)
		d.columns = slices.Insert(d.columns, len(d.columns)-1, term.Number(strings.ToUpper(m.name), 0, func(n *client.NodeView) string {
			if is, there := of[string(n.ID)]; there {
				return m.text(is)
			}
			return ""
		}))
		if d.Sorted = l.Asked("sort"); d.Sorted == m.name {
			slices.SortStableFunc(d.Rows, func(a, b client.NodeView) int { return cmp.Compare(of[string(b.ID)], of[string(a.ID)]) })
		}
	}
	return d, nil
}

// usedBy is what the latest measured task of each node has used, by the name of the measure.
type usedBy map[string]map[string]int64

// findUsed looks at the latest tasks: a node that has had none of them is missing.
func findUsed(ctx context.Context, v view.View) (usedBy, error) {
	latest, err := v.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Limit: countedRuns}})
	all := usedBy{}
	for _, m := range measures {
		all[m.name] = map[string]int64{}
		for i := range slices.Backward(latest.Tasks) { // so the latest stays
			if t := &latest.Tasks[i]; t.Usage != nil && m.is(t.Usage) > 0 {
				all[m.name][t.Node] = m.is(t.Usage)
			}
		}
	}
	return all, err
}

// nodes returns all nodes, in the past without their heartbeats.
func (l *look) nodes(ctx context.Context) (client.NodePage, error) {
	return client.NodesOf(ctx, l.View, l.Sums, l.Now, l.Rules.Node, &client.NodeListRequest{})
}

type nodeData struct {
	client.NodeView
	Order   string
	Buttons []button
	Running table[task.Task]
	// Latest are its tasks of the last hours, of which Smalls has what they used.
	Latest    table[task.Task]
	Smalls    []small
	Stretches []bar
	From      time.Time
	Ups       int
	Facts     []fact
	Older     int
}

func showNode(ctx context.Context, l *look) (any, error) {
	id := node.ID(l.r.PathValue("id"))
	records, err := view.All(ctx, l.View, view.Node(id))
	if err != nil {
		return nil, err
	}
	n, err := view.GetNode(ctx, l.View, id)
	if err != nil {
		return nil, err
	}
	l.Title = "Node " + string(id)
	d := &nodeData{NodeView: client.ViewNode(n, l.Now, l.Rules.Node), From: l.Now.Add(-shownHours * time.Hour)}
	d.Order = n.Standing.Order.String()
	if !l.Past {
		if err := l.ask(ctx, rights.NodeGet, map[string]node.ID{"id": id}, &d.NodeView); err != nil {
			return nil, err
		}
	}
	d.Buttons = l.buttons("nodes", string(id), &d.NodeView)
	page, err := l.tasks(ctx, client.ListRequest{Filter: view.Filter{Node: string(id), States: []task.State{task.Running, task.Cancelling}, Limit: shownOfNode}, Progress: true})
	d.Running.set(page.Tasks, err)
	latest, err := l.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Node: string(id), Since: d.From, Limit: shownBars}})
	d.Latest.set(latest.Tasks, err)
	d.Smalls = smalls(latest.Tasks)
	d.Latest.cut(shownRuns)
	for _, s := range stretches(id, records, d.From, l.Now) {
		b := span{d.From, l.Now}.bar(s.From, s.To, 1, s.State.String()+" for "+wording.Span(s.To.Sub(s.From)))
		b.State = s.State.String()
		d.Stretches = append(d.Stretches, b)
		if s.State == node.Ready {
			d.Ups++
		}
	}
	d.Facts, d.Older = factsOf(records)
	return d, nil
}

// stretch is a time in which a node was in one state.
type stretch struct {
	State    node.State
	From, To time.Time
	Seq      uint64
}

// stretches returns the states of a node within a time, by its facts: the latest ones, at most
// shownSessions.
func stretches(id node.ID, records []events.Record, from, to time.Time) (all []stretch) {
	n := node.Node{ID: id}
	add := func(s stretch) {
		if s.State == node.Unknown || !s.To.After(from) || !s.From.Before(s.To) {
			return
		}
		if s.From.Before(from) {
			s.From = from
		}
		all = append(all, s)
	}
	var open stretch
	for i := range records {
		n = node.Evolve(n, records[i].Node())
		if n.State == open.State {
			continue
		}
		at := wording.FactTime(&records[i])
		open.To = at
		add(open)
		open = stretch{State: n.State, From: at, Seq: records[i].Seq}
	}
	open.To = to
	add(open)
	return all[max(len(all)-shownSessions, 0):]
}
