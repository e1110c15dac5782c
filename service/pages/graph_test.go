package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/httpapi"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/output"
	"millrace/task/value"
)

// listOf makes a list of n children, failed of which have failed.
func listOf(n, failed int) (root term.Node) {
	root = term.Node{ID: "root", State: task.Running}
	for i := range n {
		c := term.Node{ID: task.ID(fmt.Sprint(i)), Name: fmt.Sprint(i), State: task.Finished}
		if failed > 0 && i%failed == 0 {
			c.State = task.Error
		}
		root.Children = append(root.Children, c)
	}
	return root
}

func namesOf(nodes []term.Node) (names []string) {
	for i := range nodes {
		names = append(names, nodes[i].Name+" "+nodes[i].State.String())
	}
	return names
}

// The graph of a function is its steps, one behind the other, with the children that it calls in them.
func TestGraphOfSteps(t *testing.T) {
	t.Parallel()
	parent, child, other := task.ID("01JNAT00000000000000000001"), task.ID("01JNAT00000000000000000002"), task.ID("01JNAT00000000000000000003")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	branch := view.Branch{
		Task: task.Task{ID: parent, Durable: &task.Durable{
			Steps:  []task.Step{{Name: "charge", Kind: task.StepDo, At: now, Took: value.Duration(2 * time.Second)}},
			Parked: &task.Parked{Park: task.Park{Step: "thumb", Kind: task.StepCall, Of: []task.Need{{Task: child}}}, Since: now.Add(-time.Minute)},
		}},
		Branches: []view.Branch{{Task: task.Task{ID: other}}, {Task: task.Task{ID: child}}},
	}
	n := nodeOf(&branch, now)
	if want := []string{"charge finished", "thumb held", other.Short() + " unknown"}; len(n.Children) != 3 || !slices.Equal(namesOf(n.Children)[:2], want[:2]) || n.Children[2].ID != other {
		t.Fatalf("it has %q, want %q", namesOf(n.Children), want)
	}
	if is := n.Children[1]; len(is.Needs) != 1 || is.Needs[0].Task != n.Children[0].ID || len(is.Children) != 1 || is.Children[0].ID != child || is.Text != "call; waits; 1m00s" {
		t.Errorf("the second step is %+v", is)
	}
}

func foldAt(root term.Node) (term.Node, int) { return foldBelow(root, sizeOf(&root) > mostNodes) }

func TestFold(t *testing.T) {
	t.Parallel()
	if shown, n := foldAt(listOf(mostChildren, 0)); n != 0 || len(shown.Children) != mostChildren {
		t.Errorf("of a short list %d are folded", n)
	}
	shown, n := foldAt(listOf(2000, 1000))
	if want := []string{"0 error", "1000 error", "1,998 more finished"}; n != 1998 || !slices.Equal(namesOf(shown.Children), want) {
		t.Errorf("of a list %d are folded: %q", n, namesOf(shown.Children))
	}
	if shown, n = foldAt(listOf(200, 1)); n != 200-mostChildren || len(shown.Children) != mostChildren+1 {
		t.Errorf("where all have failed %d are folded, %d are shown", n, len(shown.Children))
	}
	// A chain: a small one is shown whole; of a large one, the failed step, what it needs and what
	// needs it.
	chain := func(n, failed int) (root term.Node) {
		root = listOf(n, 0)
		for i := 1; i < n; i++ {
			root.Children[i].Needs = []task.Need{{Task: root.Children[i-1].ID}}
		}
		root.Children[failed].State = task.Error
		return root
	}
	if shown, n = foldAt(chain(100, 50)); n != 0 || len(shown.Children) != 100 {
		t.Errorf("of a chain %d are folded", n)
	}
	shown, n = foldAt(chain(400, 50))
	if want := []string{"49 finished", "50 error", "51 finished", "397 more finished"}; n != 397 || !slices.Equal(namesOf(shown.Children), want) {
		t.Errorf("of a long chain %d are folded: %q", n, namesOf(shown.Children))
	}
	// A list in a graph is folded by itself, and no folded part hides a failure.
	root := term.Node{ID: "r", Children: []term.Node{{ID: "a", Name: "a", State: task.Finished}, listOf(100, 99)}}
	root.Children[1].Needs = []task.Need{{Task: "a"}}
	if shown, n = foldAt(root); n != 98 || len(shown.Children) != 2 || len(shown.Children[1].Children) != 3 {
		t.Errorf("of a list in a graph %d are folded: %+v", n, shown)
	}
}

// whole is a tree of tasks whose names do harm on a page that does not escape them.
func whole(start time.Time) view.Branch {
	id := func(i int) task.ID { return task.ID(fmt.Sprintf("01K0000000000000000000%04d", i)) }
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	b := view.Branch{Task: task.Task{ID: id(0), State: task.Running, Work: task.Work{Job: "etl"}, SubmittedAt: start, Children: &task.Children{}}}
	for i, name := range hostile {
		child := task.Task{ID: id(i + 1), State: task.States()[i%len(task.States())], SubmittedAt: at(i), StartedAt: at(i + 1), Since: at(i + 3), Ran: value.Duration(2 * time.Second), Reason: name, Message: name}
		if i > 0 {
			child.Needs = &task.Needs{Of: []task.Need{{Task: id(i), When: name}}}
		}
		b.Branches = append(b.Branches, view.Branch{Name: name, Task: child})
	}
	b.Branches = append(b.Branches, view.Branch{Name: "unmade", Task: task.Task{ID: id(900)}})
	return b
}

// Whatever the names of steps, each view of a tree has only its own elements, links to its tasks,
// and shows the state of each.
func TestGraphEscapes(t *testing.T) {
	t.Parallel()
	s := New(&httpapi.Server{})
	start := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	tree := whole(start)
	for _, as := range []string{"graph", "gantt", "list"} {
		l := s.newLook(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tasks/x/graph?as="+as, nil), httpapi.Caller{Name: "ada", Role: rights.Operator}, &graphPage, url.Values{})
		l.Sight = &answers.Sight{Now: start.Add(time.Minute)}
		node := nodeOf(&tree, l.Now)
		d := &graphData{ID: tree.Task.ID, As: as}
		d.rows(&tree, "", "", 0, l.Now, namesIn(&node))
		d.Retries = d.retries(l)
		d.Drawing = term.Draw(&node)
		d.gantt(l.Now)
		l.Data = d
		page, err := s.shapes()["graph"].whole(l)
		if err != nil {
			t.Fatal(err)
		}
		(&place{T: t}).harmless(as, string(page))
		for _, b := range tree.Branches[:len(hostile)] {
			if !strings.Contains(string(page), `href="../../tasks/`+string(b.Task.ID)) {
				t.Errorf("%s does not lead to %s", as, b.Task.ID)
			}
		}
		for _, want := range []string{wording.Span(2 * time.Second), "unmade", "Retry from", `task.retry?id=` + string(tree.Branches[7].Task.ID)} {
			if !strings.Contains(string(page), want) {
				t.Errorf("%s does not say %q", as, want)
			}
		}
	}
}

// Bars of a whole lie on one axis: thin while a task waits, thick while it runs.
func TestGantt(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	d := &graphData{Rows: []graphRow{
		{Task: task.Task{ID: "r", State: task.Running, SubmittedAt: at(0), Children: &task.Children{}}},
		{Depth: 1, Task: task.Task{ID: "a", State: task.Finished, SubmittedAt: at(0), StartedAt: at(20), Since: at(40)}},
		{Depth: 1, Task: task.Task{ID: "b", State: task.Pending, SubmittedAt: at(50)}},
		{Depth: 1, Task: task.Task{ID: "c"}},
		{Depth: 1, Task: task.Task{ID: "d", State: task.Cancelled, Reason: value.Skipped, SubmittedAt: at(40), Since: at(40)}},
	}}
	d.gantt(at(100))
	if !d.From.Equal(at(0)) || !d.To.Equal(at(100)) || len(d.Lanes) != 5 || !d.Lanes[4].Skipped || d.Lanes[1].Skipped || axisOf(d.From, d.To)[1] != 25*time.Second {
		t.Fatalf("%v to %v, %d lanes", d.From, d.To, len(d.Lanes))
	}
	type place struct{ x, width float64 }
	for i, want := range []struct{ waits, bars []place }{{[]place{{0, 200}}, []place{{200, 800}}}, {[]place{{0, 200}}, []place{{200, 200}}}, {[]place{{500, 500}}, nil}, {nil, nil}} {
		places := func(bars []bar) (all []place) {
			for _, b := range bars {
				all = append(all, place{b.X, b.Width})
			}
			return all
		}
		if got := d.Lanes[i]; !slices.Equal(places(got.Waits), want.waits) || !slices.Equal(places(got.Bars), want.bars) {
			t.Errorf("lane %d is %+v, want %+v", i, got, want)
		}
	}
}

// The page of a whole shows its graph, its time line and a list, whatever the names of steps, and chooses the output.
func TestRunOfSteps(t *testing.T) {
	t.Parallel()
	s := New(&httpapi.Server{})
	start := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	tree := whole(start)
	l := s.newLook(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tasks/x", nil), httpapi.Caller{Name: "ada", Role: rights.Operator}, &taskPage, url.Values{})
	l.Sight = &answers.Sight{Now: start.Add(time.Minute)}
	node := nodeOf(&tree, l.Now)
	g := &graphData{ID: tree.Task.ID, Drawing: term.Draw(&node)}
	g.rows(&tree, "", "", 0, l.Now, namesIn(&node))
	g.gantt(l.Now)
	if is := g.choose(""); len(is) != 1 || !is[0].State.Failed() || g.Chosen != is[0].ID {
		t.Errorf("by itself it shows the output of %+v", is)
	}
	if is := g.choose(string(tree.Branches[2].Task.ID)); len(is) != 1 || is[0].ID != tree.Branches[2].Task.ID {
		t.Errorf("asked for a step it shows the output of %+v", is)
	}
	for _, all := range []string{allSteps, string(tree.Task.ID)} {
		if is := g.choose(all); len(is) != len(hostile) {
			t.Errorf("asked for %s it shows the output of %d tasks", all, len(is))
		}
	}
	data := &taskData{Task: tree.Task, Graph: g, Lanes: g.Lanes, From: g.From, To: g.To}
	data.Output.Several, data.Output.Lines = 2, []line{{Step: hostile[0]}}
	l.Data = data
	page, err := s.shapes()["task"].whole(l)
	if err != nil {
		t.Fatal(err)
	}
	(&place{T: t}).harmless("the run", string(page))
	for _, want := range []string{`class="steps"`, `class="lanes"`, `class="phone"`, `href="./x?step=` + string(tree.Branches[1].Task.ID) + `#printed"`, `class="by"`, `href="../tasks/` + string(tree.Branches[1].Task.ID)} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the run does not have %s", want)
		}
	}
}

// What several tasks have printed stands in the order of time: the end of it, or the beginning.
func TestInterleaved(t *testing.T) {
	t.Parallel()
	p := open(t)
	start := p.client.Now()
	rows := []*graphRow{{Path: "a"}, {Path: "b"}}
	for i, r := range rows {
		r.ID = p.submit(command("date"))
		b := output.Lines{Task: r.ID, Attempt: 1, Epoch: 5}
		for n := range shownLines {
			b.Lines = append(b.Lines, output.Line{N: n + 1, Stream: output.Stdout, At: start.Add(time.Duration(2*n+i) * time.Millisecond), Text: fmt.Sprintf("%s %d", r.Path, n+1)})
		}
		if err := p.store.Print(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string][2]string{"": {"a 101", "b 200"}, "from=1": {"a 1", "b 100"}} {
		values, _ := url.ParseQuery(query)
		l := p.newLook(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tasks/x", nil), httpapi.Caller{Name: "ada", Role: rights.Operator}, &taskPage, values)
		var out outputPanel
		if err := l.see(t.Context(), func(ctx context.Context) error { out.interleave(ctx, l, rows); return nil }); err != nil || out.Wrong != nil {
			t.Fatal(err, out.Wrong)
		}
		if n := len(out.Lines); n != shownLines || out.Total != 2*shownLines || out.Lines[0].Text != want[0] || out.Lines[n-1].Text != want[1] || !slices.IsSortedFunc(out.Lines, func(a, b line) int { return a.At.Compare(b.At) }) {
			t.Errorf("%q: %d lines of %d, %q to %q", query, n, out.Total, out.Lines[0].Text, out.Lines[n-1].Text)
		}
	}
}

// The page of a task with many below it does not read them all: it leads to the page of their graph.
func TestManyBelow(t *testing.T) {
	t.Parallel()
	p := open(t)
	for most, want := range map[int]bool{mostBelow: false, mostBelow + 1: true} {
		root := task.ID(events.NewID(p.client.Now()))
		now := p.client.Now()
		for i := range most {
			id := birth.ChildID(root, fmt.Sprint(i))
			f := &events.Fact{ID: events.NewID(now), At: now, Type: events.TypeOf(task.Submitted{}), Task: id, Event: task.Submitted{Work: task.Work{Spec: command("date").Spec, Parent: root, Route: "default.5"}}}
			if _, err := p.store.Append(t.Context(), f, 0); err != nil {
				t.Fatal(err)
			}
		}
		p.seen()
		l := p.newLook(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tasks/x", nil), httpapi.Caller{Name: "ada", Role: rights.Operator}, &taskPage, url.Values{})
		if err := l.see(t.Context(), func(ctx context.Context) error {
			if is := l.manyBelow(ctx, root); is != want {
				t.Errorf("of %d below one it says %v", most, is)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
