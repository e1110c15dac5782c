package task

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/reason"
	"millrace/task/value"
	"millrace/task/where"
)

// placed is a task that is meant for n1 or n2.
func placed(noNode string, pending time.Duration) Submitted {
	spec := &Spec{Handler: "noop", Timeout: Timeout{Pending: value.Duration(pending)}, Place: Place{Nodes: []string{"n1", "n2"}, NoNode: noNode, Queue: "images"}}
	e := Submitted{Work: Work{Spec: spec, Route: "@n1.5"}}
	if pending > 0 {
		e.StartBy = noon.Add(pending)
	}
	return e
}

func TestPlacementDuty(t *testing.T) {
	gone := noon.Add(time.Hour)
	nobody := Surroundings{Unserved: gone}
	expire := Expire{Detail: "start timeout: no node that it is meant for took work for 2m0s"}
	bound := Expire{Detail: "pending timeout: not started by 2026-03-01T15:00:00Z"}
	for name, c := range map[string]struct {
		given  Submitted
		around Surroundings
		who    string
		by     time.Time
		what   string
		then   Command
	}{
		"its node serves":           {placed("", 0), Surroundings{Serving: 1, Able: []string{"n1"}}, "node n1", at(1).Add(5 * time.Second), "as soon as", nil},
		"its node serves, bounded":  {placed(NoNodeFail, 3*time.Hour), Surroundings{Serving: 1}, "node n1", noon.Add(3 * time.Hour), "as soon as", bound},
		"another one does":          {placed(NoNodeFail, 0), Surroundings{Unserved: gone, Able: []string{"n2"}}, "scheduler", gone, "move it to node n2", Reassign{From: "@n1.5", To: "@n2.5", Reason: "node n1 takes no new work"}},
		"never seen, another does":  {placed("", 0), Surroundings{Able: []string{"n2"}}, "scheduler", at(1), "move it to node n2", Reassign{From: "@n1.5", To: "@n2.5", Reason: "node n1 takes no new work"}},
		"none, by default":          {placed("", 0), nobody, "operator", gone.Add(2 * time.Minute), "bring one of the nodes n1, n2 back", expire},
		"none, expire":              {placed(NoNodeExpire, 0), nobody, "operator", gone.Add(2 * time.Minute), "release", expire},
		"none, expire at its bound": {placed(NoNodeExpire, 3*time.Hour), nobody, "operator", noon.Add(3 * time.Hour), "release", bound},
		"none, wait":                {placed(NoNodeWait, 0), nobody, "operator", at(1).Add(5 * time.Second), "since 2026-03-01T13:00:00Z", nil},
		"none, wait for a bound":    {placed(NoNodeWait, 3*time.Hour), nobody, "operator", noon.Add(3 * time.Hour), "back", bound},
		"none, fail":                {placed(NoNodeFail, 0), nobody, "operator", gone.Add(time.Second), "back", GiveUp{Reason: reason.Unplaced, Detail: "no node that it is meant for takes work: n1, n2"}},
		"none, fallback":            {placed(NoNodeFallback, 0), nobody, "scheduler", gone, `queue "images"`, Reassign{From: "@n1.5", To: "images.5", Reason: "no node that it is meant for takes new work: fallback"}},
	} {
		d := Owes(given(c.given), c.around, settings)
		if d.Who != c.who || !d.By.Equal(c.by) || !strings.Contains(d.What, c.what) || d.Else == "" || !reflect.DeepEqual(d.Command, c.then) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, d, c)
		}
	}
}

// A move is one fact. The offer before it is stale, and one on the new route is
// missing, whoever moved it and however many wanted to.
func TestMove(t *testing.T) {
	first := given(placed("", time.Hour))
	move := Reassign{From: "@n1.5", To: "@n2.5", Reason: "n1 is gone"}
	e, err := Decide(first, move, noon)
	if err != nil || e != (Reassigned{From: "@n1.5", To: "@n2.5", Reason: "n1 is gone"}) {
		t.Fatalf("decided %+v, %v", e, err)
	}
	moved := Evolve(first, Recorded{Seq: 7, Chain: true, At: at(7), Event: e})
	next, missing := NextOffer(&moved)
	if !missing || next.After != 7 || next.Route != "@n2.5" || next.Attempt != 1 || !next.StartBy.Equal(first.StartBy) || moved.State != Pending {
		t.Errorf("after the move the offer %+v is missing (%v) of %+v", next, missing, moved)
	}
	if _, err := Decide(moved, Claim{Node: "n1", Offer: 1}, noon); !errors.Is(err, ErrStale) {
		t.Errorf("a claim by the old offer: %v, want it stale", err)
	}
	if e, err := Decide(moved, move, noon); e != nil || err != nil {
		t.Errorf("the same move again: %+v, %v", e, err)
	}
	if _, err := Decide(moved, Reassign{From: "@n1.5", To: "images.5"}, noon); !errors.Is(err, ErrElsewhere) {
		t.Errorf("another move from where it was: %v", err)
	}
	offered := Evolve(moved, Recorded{Seq: 8, At: at(8), Event: next})
	if e, err := Decide(offered, Claim{Node: "n2", Offer: 8, After: 7}, noon); err != nil || e == nil {
		t.Errorf("the claim by the new offer: %+v, %v", e, err)
	}
	e, err = Decide(offered, Unbind{Reason: "ada"}, noon)
	if err != nil || e != (Reassigned{From: "@n2.5", To: "images.5", Reason: "ada"}) {
		t.Errorf("released to %+v, %v", e, err)
	}
	shared := Evolve(offered, Recorded{Seq: 9, Chain: true, At: at(9), Event: e})
	if _, err := Decide(shared, Unbind{}, noon); !errors.Is(err, ErrShared) {
		t.Errorf("released again: %v, want ErrShared", err)
	}
	for state, h := range map[error][]Event{ErrUnknown: nil, ErrEnded: finished, ErrNotWaiting: running} {
		if _, err := Decide(given(h...), move, noon); !errors.Is(err, state) {
			t.Errorf("moved when it cannot be: %v, want %v", err, state)
		}
	}
	if _, err := Decide(first, Reassign{From: "@n1.5", To: "nowhere"}, noon); err == nil {
		t.Error("moved to what is no route")
	}
}

// A task that is not due yet can be released, too; its timer is then armed anew.
func TestReleaseBeforeItIsDue(t *testing.T) {
	later := placed("", 0)
	later.Due = noon.Add(time.Hour)
	held := given(later)
	e, err := Decide(held, Unbind{Reason: "ada"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	moved := Evolve(held, Recorded{Seq: 5, Chain: true, At: at(5), Event: e})
	if next, missing := NextOffer(&moved); !missing || next.After != 5 || next.Route != "images.5" || !next.Due.Equal(later.Due) || moved.State != Scheduled {
		t.Errorf("the offer %+v is missing (%v) of %+v", next, missing, moved)
	}
}

func TestPlaceValidate(t *testing.T) {
	many := make([]string, MaxPlaceNodes+1)
	for want, p := range map[string]Place{
		"":                             {Mode: PlaceNodes, Nodes: []string{"a", "b"}, NoNode: NoNodeWait, Queue: "q"},
		"leave place.labels and place": {Nodes: []string{"a"}, Each: true, Avoid: []string{"b"}},
		"none are named":               {Each: true},
		"place.count is -1":            {Count: -1},
		"place.count takes so many":    {Mode: PlaceAll, Count: 2},
		"set place.count":              {Spread: "rack"},
		`place.late is "never"`:        {Mode: PlaceAll, Late: "never"},
		"place.late is for":            {Late: LateIgnore},
		"place.labels: mem":            {Labels: where.Selector{{Key: "mem", Op: where.OpGreater, Values: []string{"much"}}}},
		`place.avoid: "b" is named`:    {Avoid: []string{"b", "b"}},
		`place.mode is "some"`:         {Mode: "some"},
		"name at least one node":       {Mode: PlaceNodes},
		"leave one of them out":        {Mode: PlaceAny, Nodes: []string{"a"}},
		`place.nodes: node name "@a"`:  {Nodes: []string{"@a"}},
		`"a" is named twice`:           {Nodes: []string{"a", "b", "a"}},
		"at most 64":                   {Nodes: many},
		`place.no_node is "pray"`:      {Nodes: []string{"a"}, NoNode: "pray"},
		"it chooses none":              {NoNode: NoNodeWait},
		`place.queue: queue name "@a"`: {Nodes: []string{"a"}, Queue: "@a"},
	} {
		s := Spec{Handler: "x", Place: p}
		checkError(t, want, s.Validate(), want)
	}
	for _, p := range []Place{
		{Mode: PlaceAll, Labels: where.Selector{{Key: "gpu", Op: where.OpExists}}, Avoid: []string{"a"}, Late: LateInclude, NoNode: NoNodeFail},
		{Mode: PlaceAll, Nodes: []string{"a", "b"}},
		{Nodes: []string{"a"}, Labels: where.Selector{{Key: "gpu", Op: where.OpExists}}, Avoid: []string{"b"}, NoNode: NoNodeWait},
		{Nodes: []string{"a"}, Each: true},
		{Count: 3, Spread: "rack"},
		{Labels: where.Selector{{Key: "zone", Op: where.OpIn, Values: []string{"eu"}}}, NoNode: NoNodeFallback},
	} {
		s := Spec{Handler: "x", Place: p}
		checkError(t, "valid", s.Validate(), "")
	}
}

func TestBirthOfAPlacedTask(t *testing.T) {
	job := &Job{Name: "j", Queue: "images", Spec: Spec{Handler: "x", Place: Place{Nodes: []string{"n1", "n2"}}}}
	e, err := Birth(Submission{Job: "j"}, job, 1, noon)
	both := where.Asked{Needs: where.Selector{{Key: where.LabelNode, Op: where.OpIn, Values: []string{"n2", "n1"}}}} // in any order
	if err != nil || e.Route != both.Route(5) || e.Spec.Place.Queue != "images" || job.Place.Queue != "" {
		t.Errorf("born on %s with %+v, %v; the job has %+v", e.Route, e.Spec.Place, err, job.Place)
	}
	if queue, needs := e.Asks(); queue != "" || needs.String() != "node in (n1,n2)" || e.QueueName() != "images" || e.RateQueue() != "" {
		t.Errorf("its route asks for queue %q and %q; it is shown in queue %q, under the rate of %q", queue, needs, e.QueueName(), e.RateQueue())
	}
	e, err = Birth(Submission{Job: "j", Nodes: []string{"n3"}, NoNode: NoNodeFail}, job, 1, noon)
	if err != nil || e.Route != "@n3.5" || e.Spec.Place.NoNode != NoNodeFail || job.Place.Nodes[0] != "n1" {
		t.Errorf("born on %s with %+v, %v; the job has %+v", e.Route, e.Spec.Place, err, job.Place)
	}
	if _, err := Birth(Submission{Job: "j", Nodes: []string{"a.b"}}, job, 1, noon); err == nil {
		t.Error("a node that has no name was taken")
	}
}

// Who names nodes for a job that asks for labels gets both.
func TestNamedNodesWithLabels(t *testing.T) {
	gpu := where.Selector{{Key: "gpu", Op: where.OpExists}}
	for name, c := range map[string]struct {
		place Place
		s     Submission
		route where.Route
		needs string
	}{
		"labels":            {Place{Labels: gpu}, Submission{Nodes: []string{"a", "b"}}, "", "gpu,node in (a,b)"},
		"avoided":           {Place{Avoid: []string{"c"}}, Submission{Nodes: []string{"a"}}, "", "node!=c,node=a"},
		"neither":           {Place{}, Submission{Nodes: []string{"a"}}, "@a.5", ""},
		"so many, anywhere": {Place{Count: 3, Spread: "zone"}, Submission{Nodes: []string{"a"}}, "@a.5", ""},
		"on all":            {Place{Mode: PlaceAll, Labels: gpu, Late: LateInclude}, Submission{Nodes: []string{"a"}}, "", "gpu,node=a"},
		"preferred":         {Place{Labels: gpu, Sticky: StickyJob}, Submission{Nodes: []string{"a"}}, "", "gpu,node=a"},
	} {
		e, err := Birth(c.s, &Job{Name: "j", Spec: Spec{Handler: "h", Place: c.place}}, 1, noon)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.route == "" {
			c.route = where.SelectorRoute(where.DefaultQueue, e.Spec.Needs(), where.DefaultPriority)
		}
		if got := e.Spec.Needs().String(); e.Route != c.route || got != c.needs {
			t.Errorf("%s: it waits on %s for %q, want %s for %q", name, e.Route, got, c.route, c.needs)
		}
	}
	one := Place{Avoid: []string{"a"}}.with(&Place{Nodes: []string{"a"}, Each: true})
	if err := one.validate(); err != nil {
		t.Errorf("one task on each that is named, of a job that avoids one of them: %v", err)
	}
}

// A node that is named leaves a task to those that are named before it, a few times; the first never does.
func TestYields(t *testing.T) {
	named := given(Submitted{Work: Work{Spec: &Spec{Handler: "x", Place: Place{Nodes: []string{"n1", "n2", "n3", "n4", "n5", "n6"}}}, Route: "~abc.5"}})
	for node, upTo := range map[string]int{"n1": 0, "n2": 2, "n3": 4, "n5": 8, "n6": 8, "stranger": 0} {
		for deliveries := 1; deliveries < 12; deliveries++ {
			if got := named.Yields(node, deliveries); got != (deliveries <= upTo) {
				t.Errorf("%s, delivery %d: %v", node, deliveries, got)
			}
		}
	}
	for name, p := range map[string]Place{"one node": {Nodes: []string{"n1"}}, "labels": {Nodes: []string{"n1", "n2"}, Labels: selects("gpu")}, "any": {}} {
		k := given(Submitted{Work: Work{Spec: &Spec{Handler: "x", Place: p}, Route: "~abc.5"}})
		if k.Yields("n2", 1) {
			t.Errorf("%s: it yields", name)
		}
	}
}
