package task

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/reason"
	"millrace/task/value"
	"millrace/task/where"
)

// placed returns a task that is meant for n1 or n2.
func placed(noNode string, pending time.Duration) Submitted {
	spec := &job.Spec{Handler: "noop", Timeout: job.Timeout{Pending: value.Duration(pending)}, Place: job.Place{Nodes: []string{"n1", "n2"}, NoNode: noNode, Queue: "images"}}
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
		"its node serves, bounded":  {placed(job.NoNodeFail, 3*time.Hour), Surroundings{Serving: 1}, "node n1", noon.Add(3 * time.Hour), "as soon as", bound},
		"another one does":          {placed(job.NoNodeFail, 0), Surroundings{Unserved: gone, Able: []string{"n2"}}, "scheduler", gone, "move it to node n2", Reassign{From: "@n1.5", To: "@n2.5", Reason: "node n1 takes no new work"}},
		"never seen, another does":  {placed("", 0), Surroundings{Able: []string{"n2"}}, "scheduler", at(1), "move it to node n2", Reassign{From: "@n1.5", To: "@n2.5", Reason: "node n1 takes no new work"}},
		"none, by default":          {placed("", 0), nobody, "operator", gone.Add(2 * time.Minute), "bring one of the nodes n1, n2 back", expire},
		"none, expire":              {placed(job.NoNodeExpire, 0), nobody, "operator", gone.Add(2 * time.Minute), "release", expire},
		"none, expire at its bound": {placed(job.NoNodeExpire, 3*time.Hour), nobody, "operator", noon.Add(3 * time.Hour), "release", bound},
		"none, wait":                {placed(job.NoNodeWait, 0), nobody, "operator", at(1).Add(5 * time.Second), "since 2026-03-01T13:00:00Z", nil},
		"none, wait for a bound":    {placed(job.NoNodeWait, 3*time.Hour), nobody, "operator", noon.Add(3 * time.Hour), "back", bound},
		"none, fail":                {placed(job.NoNodeFail, 0), nobody, "operator", gone.Add(time.Second), "back", GiveUp{Reason: reason.Unplaced, Detail: "no node that it is meant for takes work: n1, n2"}},
		"none, fallback":            {placed(job.NoNodeFallback, 0), nobody, "scheduler", gone, `queue "images"`, Reassign{From: "@n1.5", To: "images.5", Reason: "no node that it is meant for takes new work: fallback"}},
	} {
		d := Owes(given(c.given), c.around, settings)
		if d.Who != c.who || !d.By.Equal(c.by) || !strings.Contains(d.What, c.what) || d.Else == "" || !reflect.DeepEqual(d.Command, c.then) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, d, c)
		}
	}
}

// A move is one fact, whichever of several movers wins. It makes the old offer stale, and an offer
// on the new route becomes due.
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

// A task that is not due yet can be released, too. It then needs a new timer.
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

func TestBirthOfAPlacedTask(t *testing.T) {
	j := &job.Job{Name: "j", Queue: "images", Spec: job.Spec{Handler: "x", Place: job.Place{Nodes: []string{"n1", "n2"}}}}
	e, err := Birth(Submission{Job: "j"}, j, 1, noon)
	both := where.Asked{Needs: where.Selector{{Key: where.LabelNode, Op: where.OpIn, Values: []string{"n2", "n1"}}}} // in any order
	if err != nil || e.Route != both.Route(5) || e.Spec.Place.Queue != "images" || j.Place.Queue != "" {
		t.Errorf("born on %s with %+v, %v; the job has %+v", e.Route, e.Spec.Place, err, j.Place)
	}
	if queue, needs := e.Asks(); queue != "" || needs.String() != "node in (n1,n2)" || e.QueueName() != "images" || e.RateQueue() != "" {
		t.Errorf("its route asks for queue %q and %q; it is shown in queue %q, under the rate of %q", queue, needs, e.QueueName(), e.RateQueue())
	}
	e, err = Birth(Submission{Job: "j", Nodes: []string{"n3"}, NoNode: job.NoNodeFail}, j, 1, noon)
	if err != nil || e.Route != "@n3.5" || e.Spec.Place.NoNode != job.NoNodeFail || j.Place.Nodes[0] != "n1" {
		t.Errorf("born on %s with %+v, %v; the job has %+v", e.Route, e.Spec.Place, err, j.Place)
	}
	if _, err := Birth(Submission{Job: "j", Nodes: []string{"a.b"}}, j, 1, noon); err == nil {
		t.Error("a node that has no name was taken")
	}
}

// If a submission names nodes for a job with label requirements, both apply.
func TestNamedNodesWithLabels(t *testing.T) {
	gpu := where.Selector{{Key: "gpu", Op: where.OpExists}}
	for name, c := range map[string]struct {
		place job.Place
		s     Submission
		route where.Route
		needs string
	}{
		"labels":            {job.Place{Labels: gpu}, Submission{Nodes: []string{"a", "b"}}, "", "gpu,node in (a,b)"},
		"avoided":           {job.Place{Avoid: []string{"c"}}, Submission{Nodes: []string{"a"}}, "", "node!=c,node=a"},
		"neither":           {job.Place{}, Submission{Nodes: []string{"a"}}, "@a.5", ""},
		"so many, anywhere": {job.Place{Count: 3, Spread: "zone"}, Submission{Nodes: []string{"a"}}, "@a.5", ""},
		"on all":            {job.Place{Mode: job.PlaceAll, Labels: gpu, Late: job.LateInclude}, Submission{Nodes: []string{"a"}}, "", "gpu,node=a"},
		"preferred":         {job.Place{Labels: gpu, Sticky: job.StickyJob}, Submission{Nodes: []string{"a"}}, "", "gpu,node=a"},
	} {
		e, err := Birth(c.s, &job.Job{Name: "j", Spec: job.Spec{Handler: "h", Place: c.place}}, 1, noon)
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
	one := job.Place{Avoid: []string{"a"}}.With(&job.Place{Nodes: []string{"a"}, Each: true})
	if err := one.Validate(); err != nil {
		t.Errorf("one task on each that is named, of a job that avoids one of them: %v", err)
	}
}

// A named node leaves a task to nodes named earlier, a few times. The first never does.
func TestYields(t *testing.T) {
	named := given(Submitted{Work: Work{Spec: &job.Spec{Handler: "x", Place: job.Place{Nodes: []string{"n1", "n2", "n3", "n4", "n5", "n6"}}}, Route: "~abc.5"}})
	for node, upTo := range map[string]int{"n1": 0, "n2": 2, "n3": 4, "n5": 8, "n6": 8, "stranger": 0} {
		for deliveries := 1; deliveries < 12; deliveries++ {
			if got := named.Yields(node, deliveries); got != (deliveries <= upTo) {
				t.Errorf("%s, delivery %d: %v", node, deliveries, got)
			}
		}
	}
	for name, p := range map[string]job.Place{"one node": {Nodes: []string{"n1"}}, "labels": {Nodes: []string{"n1", "n2"}, Labels: selects("gpu")}, "any": {}} {
		k := given(Submitted{Work: Work{Spec: &job.Spec{Handler: "x", Place: p}, Route: "~abc.5"}})
		if k.Yields("n2", 1) {
			t.Errorf("%s: it yields", name)
		}
	}
}
