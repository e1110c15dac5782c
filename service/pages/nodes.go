package pages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
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
	// Measured says that machines were measured; Sorted is the column by which the rows are, "" by their names.
	Measured bool
	Sorted   string
}

// Sorts tells whether a column can sort the rows.
func (d *nodesData) Sorts(name string) bool { return loads[name] != nil }

func showNodes(ctx context.Context, l *look) (any, error) {
	d := &nodesData{}
	page, err := l.nodes(ctx)
	d.set(page.Nodes, err)
	d.columns = term.Choose(wording.NodeColumns(l.Now, l.Past), "node", "state", "since", "busy", "queues", "processor", "memory", "sessions", "flap", "version", "next step")
	d.Unserved = page.Unserved
	if d.Measured = slices.ContainsFunc(d.Rows, func(n client.NodeView) bool { return n.Machine.Memory > 0 }); !d.Measured {
		d.columns = slices.DeleteFunc(d.columns, func(c term.Column[client.NodeView]) bool { return loads[c.Called()] != nil })
	}
	if by := loads[l.Asked("sort")]; by != nil {
		d.Sorted = l.Asked("sort")
		slices.SortStableFunc(d.Rows, func(a, b client.NodeView) int { return cmp.Compare(by(&b.Machine), by(&a.Machine)) })
	}
	return d, nil
}

// loads are the columns by which nodes can be sorted.
var loads = map[string]func(m *node.Machine) float64{
	"memory":    func(m *node.Machine) float64 { return float64(m.MemoryUsed) / float64(max(m.Memory, 1)) },
	"processor": func(m *node.Machine) float64 { return m.Busy },
}

// machines are what heartbeats have said of machines, as far as this server has seen it.
type machines struct {
	mu sync.Mutex
	of map[node.ID][]node.Machine // guarded by mu; the oldest first, zero for a gap
}

// A point of a machine's small lines, and how many there are.
const (
	machineEvery = 30 * time.Second
	machinesKept = 60
)

// note adds what they say now, and drops a node of which there are only gaps.
func (m *machines) note(beats map[node.ID]node.Heartbeat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[node.ID][]node.Machine, len(beats))
	for id := range beats {
		all[id] = nil
	}
	maps.Copy(all, m.of)
	for id, was := range all {
		all[id] = append(was[max(0, len(was)+1-machinesKept):], beats[id].Machine)
	}
	maps.DeleteFunc(all, func(_ node.ID, was []node.Machine) bool {
		return !slices.ContainsFunc(was, func(is node.Machine) bool { return is.Processors > 0 })
	})
	m.of = all
}

// smalls are the small lines of a node's machine; none if it says nothing now, or has not said it twice.
func (m *machines) smalls(id node.ID) []small {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.of[id]
	if len(was) < 2 || was[len(was)-1].Processors == 0 {
		return nil
	}
	busy, used := make([]int64, len(was)), make([]int64, len(was))
	for i, is := range was {
		busy[i], used[i] = int64(100*is.Busy), is.MemoryUsed
		if is.Processors == 0 {
			busy[i], used[i] = -1, -1
		}
	}
	const of = "in the last half hour"
	return []small{
		smallOf("processor", of, busy, 100, func(n int64) string { return fmt.Sprintf("%d%%", n) }),
		smallOf("memory", of, used, was[len(was)-1].Memory, wording.ByteCount),
	}
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
	Machines  []small // its machine in the last half hour
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
	if !l.Past {
		d.Machines = l.site.machines.smalls(id)
	}
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
