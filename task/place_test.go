package task_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// placed returns a task that is meant for n1 or n2.
func placed(noNode string, pending time.Duration) task.Submitted {
	spec := &job.Spec{Handler: "noop", Timeout: job.Timeout{Pending: value.Duration(pending)}, Place: job.Place{Nodes: []string{"n1", "n2"}, NoNode: noNode, Queue: "images"}}
	e := task.Submitted{Work: task.Work{Spec: spec, Route: "@n1.5"}}
	if pending > 0 {
		e.StartBy = logtest.Noon.Add(pending)
	}
	return e
}

func TestPlacementDuty(t *testing.T) {
	gone := logtest.Noon.Add(time.Hour)
	nobody := duties.Surroundings{Unserved: gone}
	expire := task.Expire{Detail: "start timeout: no node that it is meant for took work for 2m0s"}
	bound := task.Expire{Detail: "pending timeout: not started by 2026-03-01T15:00:00Z"}
	for name, c := range map[string]struct {
		given  task.Submitted
		around duties.Surroundings
		who    string
		by     time.Time
		what   string
		then   task.Command
	}{
		"its node serves":           {placed("", 0), duties.Surroundings{Serving: 1, Able: []string{"n1"}}, "node n1", logtest.At(1).Add(5 * time.Second), "as soon as", nil},
		"its node serves, bounded":  {placed(job.NoNodeFail, 3*time.Hour), duties.Surroundings{Serving: 1}, "node n1", logtest.Noon.Add(3 * time.Hour), "as soon as", bound},
		"another one does":          {placed(job.NoNodeFail, 0), duties.Surroundings{Unserved: gone, Able: []string{"n2"}}, "scheduler", gone, "move it to node n2", task.Reassign{From: "@n1.5", To: "@n2.5", Reason: "node n1 takes no new work"}},
		"never seen, another does":  {placed("", 0), duties.Surroundings{Able: []string{"n2"}}, "scheduler", logtest.At(1), "move it to node n2", task.Reassign{From: "@n1.5", To: "@n2.5", Reason: "node n1 takes no new work"}},
		"none, by default":          {placed("", 0), nobody, "operator", gone.Add(2 * time.Minute), "start a worker that runs as node n1 or n2", expire},
		"none, expire":              {placed(job.NoNodeExpire, 0), nobody, "operator", gone.Add(2 * time.Minute), "release", expire},
		"none, expire at its bound": {placed(job.NoNodeExpire, 3*time.Hour), nobody, "operator", logtest.Noon.Add(3 * time.Hour), "release", bound},
		"none, wait":                {placed(job.NoNodeWait, 0), nobody, "operator", time.Time{}, "waiting since 2026-03-01T13:00:00Z", nil},
		"none, wait for a bound":    {placed(job.NoNodeWait, 3*time.Hour), nobody, "operator", logtest.Noon.Add(3 * time.Hour), "start a worker", bound},
		"none, fail":                {placed(job.NoNodeFail, 0), nobody, "operator", gone.Add(time.Second), "start a worker", task.GiveUp{Reason: value.Unplaced, Detail: "no node that it is meant for takes work: n1, n2"}},
		"none, fallback":            {placed(job.NoNodeFallback, 0), nobody, "scheduler", gone, `queue "images"`, task.Reassign{From: "@n1.5", To: "images.5", Reason: "no node that it is meant for takes new work: fallback"}},
	} {
		d := duties.Owes(logtest.Given(c.given), c.around, logtest.Settings)
		if d.Who != c.who || !d.By.Equal(c.by) || !strings.Contains(d.What, c.what) || d.Else == "" || !reflect.DeepEqual(d.Command, c.then) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, d, c)
		}
	}
}

// A move is one fact, whichever of several movers wins. It makes the old offer stale, and an offer
// on the new route becomes due.
func TestMove(t *testing.T) {
	first := logtest.Given(placed("", time.Hour))
	move := task.Reassign{From: "@n1.5", To: "@n2.5", Reason: "n1 is gone"}
	e, err := task.Decide(first, move, logtest.Noon)
	if err != nil || e != (task.Reassigned{From: "@n1.5", To: "@n2.5", Reason: "n1 is gone"}) {
		t.Fatalf("decided %+v, %v", e, err)
	}
	moved := task.Evolve(first, task.Recorded{Seq: 7, Chain: true, At: logtest.At(7), Event: e})
	next, missing := task.NextOffer(&moved)
	if !missing || next.After != 7 || next.Route != "@n2.5" || next.Attempt != 1 || !next.StartBy.Equal(first.StartBy) || moved.State != task.Pending {
		t.Errorf("after the move the offer %+v is missing (%v) of %+v", next, missing, moved)
	}
	if _, err := task.Decide(moved, task.Claim{Node: "n1", Offer: 1}, logtest.Noon); !errors.Is(err, task.ErrStale) {
		t.Errorf("a claim by the old offer: %v, want it stale", err)
	}
	if e, err := task.Decide(moved, move, logtest.Noon); e != nil || err != nil {
		t.Errorf("the same move again: %+v, %v", e, err)
	}
	if _, err := task.Decide(moved, task.Reassign{From: "@n1.5", To: "images.5"}, logtest.Noon); !errors.Is(err, task.ErrElsewhere) {
		t.Errorf("another move from where it was: %v", err)
	}
	offered := task.Evolve(moved, task.Recorded{Seq: 8, At: logtest.At(8), Event: next})
	if e, err := task.Decide(offered, task.Claim{Node: "n2", Offer: 8, After: 7}, logtest.Noon); err != nil || e == nil {
		t.Errorf("the claim by the new offer: %+v, %v", e, err)
	}
	e, err = task.Decide(offered, task.Unbind{Reason: "ada"}, logtest.Noon)
	if err != nil || e != (task.Reassigned{From: "@n2.5", To: "images.5", Reason: "ada"}) {
		t.Errorf("released to %+v, %v", e, err)
	}
	shared := task.Evolve(offered, task.Recorded{Seq: 9, Chain: true, At: logtest.At(9), Event: e})
	if _, err := task.Decide(shared, task.Unbind{}, logtest.Noon); !errors.Is(err, task.ErrShared) {
		t.Errorf("released again: %v, want ErrShared", err)
	}
	for state, h := range map[error][]task.Event{task.ErrUnknown: nil, task.ErrEnded: logtest.Finished, task.ErrNotWaiting: logtest.Running} {
		if _, err := task.Decide(logtest.Given(h...), move, logtest.Noon); !errors.Is(err, state) {
			t.Errorf("moved when it cannot be: %v, want %v", err, state)
		}
	}
	if _, err := task.Decide(first, task.Reassign{From: "@n1.5", To: "nowhere"}, logtest.Noon); err == nil {
		t.Error("moved to what is no route")
	}
}

// A task that is not due yet can be released, too. It then needs a new timer.
func TestReleaseBeforeItIsDue(t *testing.T) {
	later := placed("", 0)
	later.Due = logtest.Noon.Add(time.Hour)
	held := logtest.Given(later)
	e, err := task.Decide(held, task.Unbind{Reason: "ada"}, logtest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	moved := task.Evolve(held, task.Recorded{Seq: 5, Chain: true, At: logtest.At(5), Event: e})
	if next, missing := task.NextOffer(&moved); !missing || next.After != 5 || next.Route != "images.5" || !next.Due.Equal(later.Due) || moved.State != task.Scheduled {
		t.Errorf("the offer %+v is missing (%v) of %+v", next, missing, moved)
	}
}

func TestBirthOfAPlacedTask(t *testing.T) {
	j := &job.Job{Name: "j", Queue: "images", Spec: job.Spec{Handler: "x", Place: job.Place{Nodes: []string{"n1", "n2"}}}}
	e, err := birth.Of(birth.Submission{Job: "j"}, j, 1, logtest.Noon)
	both := placement.Asked{Needs: placement.Selector{{Key: placement.LabelNode, Op: placement.OpIn, Values: []string{"n2", "n1"}}}} // in any order
	if err != nil || e.Route != both.Route(5) || e.Spec.Place.Queue != "images" || j.Place.Queue != "" {
		t.Errorf("born on %s with %+v, %v; the job has %+v", e.Route, e.Spec.Place, err, j.Place)
	}
	if queue, needs := e.Asks(); queue != "" || needs.String() != "node in (n1,n2)" || e.QueueName() != "images" || e.RateQueue() != "" {
		t.Errorf("its route asks for queue %q and %q; it is shown in queue %q, under the rate of %q", queue, needs, e.QueueName(), e.RateQueue())
	}
	e, err = birth.Of(birth.Submission{Job: "j", Nodes: []string{"n3"}, NoNode: job.NoNodeFail}, j, 1, logtest.Noon)
	if err != nil || e.Route != "@n3.5" || e.Spec.Place.NoNode != job.NoNodeFail || j.Place.Nodes[0] != "n1" {
		t.Errorf("born on %s with %+v, %v; the job has %+v", e.Route, e.Spec.Place, err, j.Place)
	}
	if _, err := birth.Of(birth.Submission{Job: "j", Nodes: []string{"a.b"}}, j, 1, logtest.Noon); err == nil {
		t.Error("a node that has no name was taken")
	}
}

// If a submission names nodes for a job with label requirements, both apply.
func TestNamedNodesWithLabels(t *testing.T) {
	gpu := placement.Selector{{Key: "gpu", Op: placement.OpExists}}
	for name, c := range map[string]struct {
		place job.Place
		s     birth.Submission
		route placement.Route
		needs string
	}{
		"labels":            {job.Place{Labels: gpu}, birth.Submission{Nodes: []string{"a", "b"}}, "", "gpu,node in (a,b)"},
		"avoided":           {job.Place{Avoid: []string{"c"}}, birth.Submission{Nodes: []string{"a"}}, "", "node!=c,node=a"},
		"neither":           {job.Place{}, birth.Submission{Nodes: []string{"a"}}, "@a.5", ""},
		"so many, anywhere": {job.Place{Count: 3, Spread: "zone"}, birth.Submission{Nodes: []string{"a"}}, "@a.5", ""},
		"on all":            {job.Place{Mode: job.PlaceAll, Labels: gpu, Late: job.LateInclude}, birth.Submission{Nodes: []string{"a"}}, "", "gpu,node=a"},
		"preferred":         {job.Place{Labels: gpu, Sticky: job.StickyJob}, birth.Submission{Nodes: []string{"a"}}, "", "gpu,node=a"},
	} {
		e, err := birth.Of(c.s, &job.Job{Name: "j", Spec: job.Spec{Handler: "h", Place: c.place}}, 1, logtest.Noon)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.route == "" {
			c.route = placement.SelectorRoute(placement.DefaultQueue, e.Spec.Needs(), placement.DefaultPriority)
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
	named := logtest.Given(task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x", Place: job.Place{Nodes: []string{"n1", "n2", "n3", "n4", "n5", "n6"}}}, Route: "~abc.5"}})
	for node, upTo := range map[string]int{"n1": 0, "n2": 2, "n3": 4, "n5": 8, "n6": 8, "stranger": 0} {
		for deliveries := 1; deliveries < 12; deliveries++ {
			if got := duties.Yields(&named, node, deliveries); got != (deliveries <= upTo) {
				t.Errorf("%s, delivery %d: %v", node, deliveries, got)
			}
		}
	}
	for name, p := range map[string]job.Place{"one node": {Nodes: []string{"n1"}}, "labels": {Nodes: []string{"n1", "n2"}, Labels: logtest.Selects("gpu")}, "any": {}} {
		k := logtest.Given(task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x", Place: p}, Route: "~abc.5"}})
		if duties.Yields(&k, "n2", 1) {
			t.Errorf("%s: it yields", name)
		}
	}
}
