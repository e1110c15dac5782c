package node

import (
	"reflect"
	"strings"
	"testing"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
)

// fleet returns a node for each rule.
func fleet() []Node {
	able := func(id ID, more func(*Node)) Node {
		n := Node{ID: id, State: Ready, Profile: Profile{Queues: []string{"default"}, Slots: 4, Probes: true, Labels: map[string]string{"zone": "eu"}}}
		if more != nil {
			more(&n)
		}
		return n
	}
	return []Node{
		able("able", nil),
		able("avoided", nil),
		able("cordoned", func(n *Node) { n.Standing = Standing{Order: OrderCordon, By: "ada"} }),
		able("draining", func(n *Node) { n.State, n.Reason = Draining, "asked to end" }),
		able("far", func(n *Node) { n.Labels["zone"] = "us" }),
		able("offline", func(n *Node) { n.State, n.Reason = Offline, "its heartbeat ran out" }),
		able("other", func(n *Node) { n.Queues = []string{"other"} }),
		able("quarantined", func(n *Node) { n.State = Quarantined }),
		able("retired", func(n *Node) { n.State = Retired }),
		able("small", func(n *Node) { n.Slots = 1 }),
		able("unproved", func(n *Node) { n.State = Online }),
	}
}

func TestEligible(t *testing.T) {
	spec := &job.Spec{Handler: "x", Slots: 2, Place: job.Place{
		Labels: placement.Selector{{Key: "zone", Op: placement.OpIn, Values: []string{"eu"}}}, Avoid: []string{"avoided"}, Queue: "default",
	}}
	want := map[ID]Rule{
		"able": "", "avoided": RuleAvoid, "cordoned": RuleCordoned, "draining": RuleDraining, "far": RuleLabel, "offline": RuleOffline,
		"other": RuleQueue, "quarantined": RuleQuarantined, "retired": RuleRetired, "small": RuleSlots, "unproved": RuleUnproved,
	}
	for i, v := range Eligible(fleet(), WantOf(spec, "default")) {
		if v.Rule != want[v.Node] || (v.Rule == "") != (i == 0) {
			t.Errorf("%d: %s is excluded by %q (%s), want %q", i, v.Node, v.Rule, v.Why, want[v.Node])
		}
		delete(want, v.Node)
	}
	if len(want) > 0 {
		t.Errorf("nothing was said of %v", want)
	}
	named := WantOf(&job.Spec{Place: job.Place{Nodes: []string{"other"}}}, "default")
	for _, v := range Eligible(fleet(), named) {
		if (v.Node == "other") != (v.Rule == "") || v.Node == "able" && v.Rule != RuleName {
			t.Errorf("of a task for a named node: %+v", v)
		}
	}
	// With labels beside names, both apply, and so does the queue.
	both := WantOf(&job.Spec{Place: job.Place{Nodes: []string{"able", "far", "other"}, Labels: spec.Place.Labels}}, "default")
	rules := map[ID]Rule{"able": "", "far": RuleLabel, "other": RuleQueue, "avoided": RuleName}
	for _, v := range Eligible(fleet(), both) {
		if rule, ok := rules[v.Node]; ok && v.Rule != rule {
			t.Errorf("of a task for named nodes with labels: %+v, want %q", v, rule)
		}
	}
}

func TestChoose(t *testing.T) {
	var nodes []Node
	for _, name := range []string{"c1", "a2", "b1", "a1", "a3"} {
		nodes = append(nodes, Node{ID: ID(name), Profile: Profile{Labels: map[string]string{"rack": name[:1]}}})
	}
	bare := append(nodes[:len(nodes):len(nodes)], Node{ID: "a0"})
	if names, spares := Choose(bare, 4, "rack"); strings.Join(names, " ") != "a1 b1 c1 a2" || strings.Join(spares, " ") != "a3 a0" {
		t.Errorf("with one that is in no rack: %v, then %v", names, spares)
	}
	for _, c := range []struct {
		count         int
		spread        string
		names, spares string
	}{
		{2, "", "a1 a2", "a3 b1 c1"},
		{3, "rack", "a1 b1 c1", "a2 a3"},
		{4, "rack", "a1 b1 c1 a2", "a3"},
		{9, "rack", "a1 b1 c1 a2 a3", ""},
		{2, "nothing", "a1 a2", "a3 b1 c1"},
	} {
		names, spares := Choose(nodes, c.count, c.spread)
		if strings.Join(names, " ") != c.names || strings.Join(spares, " ") != c.spares {
			t.Errorf("%d over %q: %v, %v", c.count, c.spread, names, spares)
		}
	}
}

func TestExpandOverNodes(t *testing.T) {
	expand := func(p job.Place) task.Children {
		e, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "x", Place: p}}, nil, 0, noon)
		if err != nil {
			t.Fatal(err)
		}
		parent := task.Evolve(task.Task{}, task.Recorded{Seq: 1, At: noon, Event: e})
		return Expand(&parent, fleet(), 42).Children
	}
	zone := placement.Selector{{Key: "zone", Op: placement.OpIn, Values: []string{"eu"}}}
	for _, c := range []struct {
		place job.Place
		want  task.Children
	}{
		{job.Place{Mode: job.PlaceAll}, task.Children{AtSeq: 42, Names: []string{"able", "avoided", "far", "small"}, Spares: []string{}}},
		{job.Place{Mode: job.PlaceAll, Labels: zone, Avoid: []string{"avoided"}}, task.Children{AtSeq: 42, Names: []string{"able", "small"}, Spares: []string{}}},
		{job.Place{Count: 2}, task.Children{AtSeq: 42, Names: []string{"able", "avoided"}, Spares: []string{"far", "small"}}},
		{job.Place{Count: 9, Labels: zone}, task.Children{AtSeq: 42, Names: []string{"able", "avoided", "small"}, Spares: []string{}}},
		{job.Place{Mode: job.PlaceAll, Nodes: []string{"offline", "nobody"}}, task.Children{AtSeq: 42, Names: []string{"offline", "nobody"}}},
	} {
		if got := expand(c.place); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", c.place, got, c.want)
		}
	}
}

// Labels that an operator has changed stay changed, whatever the worker announces next.
func TestLabels(t *testing.T) {
	n := given(registered...)
	own := n.Labels
	set, empty := "eu", ""
	change := func(labels map[string]*string) {
		t.Helper()
		e, err := Decide(n, Label{Labels: labels, Reason: "r"})
		if err != nil || e == nil {
			t.Fatalf("%+v, %v", e, err)
		}
		n = Evolve(n, Recorded{Seq: n.Head + 1, At: at(n.Head + 1), Event: e})
		if again, err := Decide(n, Label{Labels: labels}); again != nil || err != nil {
			t.Errorf("twice: %+v, %v", again, err)
		}
	}
	change(map[string]*string{"zone": &set, "gpu": &empty})
	if n.Labels["zone"] != "eu" || len(n.Labels) < 2 || n.Standing.Order != OrderServe {
		t.Errorf("labels %v", n.Labels)
	}
	n = Evolve(n, Recorded{Seq: n.Head + 1, At: at(9), Event: Registered{Session: "s2", Profile: Profile{Labels: map[string]string{"zone": "us", "mem": "8"}}}})
	if want := map[string]string{"zone": "eu", "gpu": "", "mem": "8"}; !reflect.DeepEqual(n.Labels, want) {
		t.Errorf("after a restart the labels are %v, want %v", n.Labels, want)
	}
	change(map[string]*string{"zone": nil, "mem": nil})
	if want := map[string]string{"gpu": ""}; !reflect.DeepEqual(n.Labels, want) {
		t.Errorf("removed, the labels are %v, want %v (%v at first)", n.Labels, want, own)
	}
	for _, bad := range []map[string]*string{{"node": &set}, {"slots": nil}, {"": &set}, {"a b": &set}} {
		if e, err := Decide(n, Label{Labels: bad}); err == nil {
			t.Errorf("%v: %+v", bad, e)
		}
	}
	if e, err := Decide(Node{ID: "x"}, Label{Labels: map[string]*string{"a": &set}}); err == nil {
		t.Errorf("a node that nobody knows: %+v", e)
	}
}
