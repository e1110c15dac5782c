package task_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
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

// The fold and Born find the same birth in a history, after every step.
func TestOneBirth(t *testing.T) {
	const id = task.ID("01JNA0000000000000000BRTH1")
	work := func(command string) task.Work {
		return task.Work{Spec: &job.Spec{Run: &job.Run{Shell: command}}, Route: "default.5"}
	}
	birth := func(seq uint64, w task.Work) task.Recorded {
		return task.Recorded{Seq: seq, At: logtest.Noon, Event: task.Submitted{Work: w}}
	}
	onChain := func(seq uint64, w task.Work) task.Recorded {
		return task.Recorded{Seq: seq, Chain: true, At: logtest.Noon, Event: task.Submitted{Work: w}}
	}
	started := func(seq, offer uint64) task.Recorded {
		return task.Recorded{Seq: seq, Chain: true, At: logtest.Noon, Event: task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: offer}}
	}
	held, due := work("a"), task.Submitted{Work: work("a"), Due: logtest.Noon.Add(time.Hour)}
	held.Holds = []string{task.HoldSignal}
	for name, c := range map[string]struct {
		history []task.Recorded
		want    string
		state   task.State
		rivals  int
	}{
		"the first counts":                       {[]task.Recorded{birth(1, work("a")), birth(2, work("b"))}, "a", task.Pending, 1},
		"the same again is no rival":             {[]task.Recorded{birth(1, work("a")), birth(2, work("a"))}, "a", task.Pending, 0},
		"until a claim says otherwise":           {[]task.Recorded{birth(1, work("a")), birth(2, work("b")), started(3, 2)}, "b", task.Running, 0},
		"a claim of the first":                   {[]task.Recorded{birth(1, work("a")), birth(2, work("b")), started(3, 1)}, "a", task.Running, 0},
		"a claim of one that was due":            {[]task.Recorded{{Seq: 1, At: logtest.Noon, Event: due}, birth(2, work("b")), started(3, 2)}, "b", task.Running, 0},
		"the chain's own counts":                 {[]task.Recorded{onChain(1, work("a")), birth(2, work("b"))}, "a", task.Pending, 0},
		"also if it comes second":                {[]task.Recorded{birth(1, work("b")), onChain(2, work("a"))}, "a", task.Pending, 0},
		"what a signal holds stays held":         {[]task.Recorded{onChain(1, held), birth(2, work("b")), {Seq: 3, At: logtest.Noon, Event: task.Queued{Work: work("b"), Attempt: 1}}}, "a", task.Held, 0},
		"also for an offer of its turn":          {[]task.Recorded{onChain(1, held), {Seq: 2, At: logtest.Noon, Event: task.Queued{Work: work("b"), Attempt: 1, After: 1}}}, "a", task.Held, 0},
		"a second one on the chain is none":      {[]task.Recorded{onChain(1, work("a")), onChain(2, work("b"))}, "a", task.Pending, 0},
		"nor is one after a claim":               {[]task.Recorded{birth(1, work("a")), started(2, 1), onChain(3, work("b")), birth(4, work("b"))}, "a", task.Running, 0},
		"no more than a few rivals are kept":     {[]task.Recorded{birth(1, work("a")), birth(2, work("b")), birth(3, work("c")), birth(4, work("d")), birth(5, work("e")), birth(6, work("f"))}, "a", task.Pending, task.MaxRivals},
		"a cancel binds to the first":            {[]task.Recorded{birth(1, work("a")), birth(2, work("b")), {Seq: 3, Chain: true, At: logtest.Noon, Event: task.CancelConfirmed{}}}, "a", task.Cancelled, 0},
		"an offer follows a birth on the chain":  {[]task.Recorded{onChain(1, work("a")), {Seq: 2, At: logtest.Noon, Event: task.Queued{Work: work("a"), Attempt: 1, After: 1}}, started(3, 2)}, "a", task.Running, 0},
		"a birth offer of another is no offer":   {[]task.Recorded{onChain(1, work("a")), birth(2, work("a"))}, "a", task.Pending, 0},
		"a due one on the chain waits for it":    {[]task.Recorded{{Seq: 1, Chain: true, At: logtest.Noon, Event: due}}, "a", task.Scheduled, 0},
		"and a claim names the turn, not a head": {[]task.Recorded{onChain(1, work("a")), started(2, 1)}, "a", task.Running, 0},
	} {
		k := task.Task{ID: id}
		for _, r := range c.history {
			k.Apply(r)
		}
		if k.Spec.Run.Shell != c.want || k.State != c.state || len(k.Rivals) != c.rivals {
			t.Errorf("%s: the fold has %q, %s, %d rivals; want %q, %s, %d", name, k.Spec.Run.Shell, k.State, len(k.Rivals), c.want, c.state, c.rivals)
		}
		if i := task.Born(c.history); c.history[i].Event.(task.Submitted).Spec.Run.Shell != c.want {
			t.Errorf("%s: Born finds %d", name, i)
		}
	}
}

// A birth on the chain has no offer until one is placed. Claims of any other offer are stale.
func TestBirthOnTheChain(t *testing.T) {
	k := task.Evolve(task.Task{ID: "01JNA0000000000000000BRTH1"}, task.Recorded{Seq: 7, Chain: true, At: logtest.Noon, Event: task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}}})
	next, missing := task.NextOffer(&k)
	if !missing || next.After != 7 || next.Attempt != 1 || next.Reason != value.Born {
		t.Errorf("the offer is %+v, %v", next, missing)
	}
	if d := duties.Owes(k, duties.Surroundings{}, logtest.Settings); d.Who != "scheduler" || d.What != "place its next offer (born)" {
		t.Errorf("it owes %+v", d)
	}
	if e, err := task.Decide(k, task.Claim{Node: "n", Session: "s", Offer: 8}, logtest.Noon); !errors.Is(err, task.ErrStale) {
		t.Errorf("a claim under an offer that is a birth itself: %+v, %v", e, err)
	}
	if _, err := task.Decide(k, task.Claim{Node: "n", Session: "s", Offer: 8, After: 7}, logtest.Noon); err != nil {
		t.Error(err)
	}
}

func TestDiffers(t *testing.T) {
	born := func(change func(*task.Submitted)) *task.Submitted {
		e := &task.Submitted{Work: task.Work{
			Job: "j", Spec: &job.Spec{Run: &job.Run{Argv: []string{"a", "b"}}, Files: &job.Files{Bundle: "app@0123"}, Steps: []job.Step{{Name: "s", Spec: job.Spec{Files: &job.Files{Bundle: "lib@4567"}}}}},
			Params: json.RawMessage(`{"a":1,"b":[1,2]}`), Route: "default.5",
		}}
		change(e)
		return e
	}
	same := born(func(*task.Submitted) {})
	for want, change := range map[string]func(*task.Submitted){
		"":              func(e *task.Submitted) { e.StartBy, e.EndBy = logtest.Noon, logtest.Noon },
		"job":           func(e *task.Submitted) { e.Job = "k" },
		"spec.run.argv": func(e *task.Submitted) { s := *e.Spec; s.Run = &job.Run{Argv: []string{"a", "c"}}; e.Spec = &s },
		"params.b":      func(e *task.Submitted) { e.Params = json.RawMessage(`{"b":[1,3],"a":1}`) },
		"params.c":      func(e *task.Submitted) { e.Params = json.RawMessage(`{"b":[1,2],"a":1,"c":null}`) },
		"route":         func(e *task.Submitted) { e.Route = "default.6" },
		"due":           func(e *task.Submitted) { e.Due = logtest.Noon },
		"retry_of":      func(e *task.Submitted) { e.RetryOf = "x" },
		"spec.files.bundle": func(e *task.Submitted) {
			s := *e.Spec
			s.Files = &job.Files{Bundle: "app@0124"}
			e.Spec = &s
		},
	} {
		if got := same.Differs(born(change)); got != want {
			t.Errorf("they differ in %q, want %q", got, want)
		}
	}
	named := born(func(e *task.Submitted) {
		s := *e.Spec
		s.Files, s.Steps = &job.Files{Bundle: "app"}, []job.Step{{Name: "s", Spec: job.Spec{Files: &job.Files{Bundle: "lib"}}}}
		e.Spec = &s
	})
	if got := same.Differs(named); got != "" {
		t.Errorf("a name of files stands for any version; they differ in %q", got)
	}
}

func TestDerivedIDs(t *testing.T) {
	at := task.ID("01JNA0000000000000000BRTH1")
	a, b := task.DerivedID(at, "a"), task.DerivedID(at, "b")
	if parsed, err := task.ParseID(string(a)); err != nil || parsed != a || a == b || a != task.DerivedID(at, "a") || a[:10] != at[:10] {
		t.Errorf("%s and %s: %v", a, b, err)
	}
	if !a.Derived() || at.Derived() || task.ID("").Derived() {
		t.Error("the form is not recognised")
	}
	from, to := task.DerivedRange(at)
	if ids := []task.ID{from, a, to}; !slices.IsSorted(ids) || from > at && at < to && at >= from {
		t.Errorf("%s does not lie between %s and %s", a, from, to)
	}
}

func TestSpawning(t *testing.T) {
	parent := &task.Task{Work: task.Work{Spec: &job.Spec{Run: &job.Run{Shell: "x", User: "crawler"}}, Route: "crawl.5"}}
	parent.Node = "w1"
	run := func(user string) *job.Spec { return &job.Spec{Run: &job.Run{Shell: "y", User: user}} }
	at := func(p job.Place) *job.Spec { return &job.Spec{Run: run("crawler").Run, Place: p} }
	step := func(s job.Step) *job.Spec { return &job.Spec{Steps: []job.Step{s}} }
	bounds := birth.Spawning{Children: 3, Depth: 2}
	none, flat := birth.Spawning{Children: birth.NoChildren, Depth: 2}, birth.Spawning{Children: 3, Depth: birth.NoChildren}
	for name, c := range map[string]struct {
		bounds       birth.Spawning
		s            birth.Submission
		n, ancestors int
		ok           bool
		queue        string
	}{
		"its own queue by itself": {bounds, birth.Submission{Spec: run("crawler")}, 1, 0, true, "crawl"},
		"its own queue by name":   {bounds, birth.Submission{Spec: run("crawler"), Queue: "crawl"}, 3, 1, true, "crawl"},
		"one too many":            {bounds, birth.Submission{Spec: run("crawler")}, 4, 0, false, ""},
		"too deep":                {bounds, birth.Submission{Spec: run("crawler")}, 1, 2, false, ""},
		"another queue":           {bounds, birth.Submission{Spec: run("crawler"), Queue: "gpu"}, 1, 0, false, ""},
		"another queue, placed":   {bounds, birth.Submission{Spec: &job.Spec{Run: &job.Run{Shell: "y", User: "crawler"}, Place: job.Place{Queue: "gpu"}}}, 1, 0, false, ""},
		"another user":            {bounds, birth.Submission{Spec: run("root")}, 1, 0, false, ""},
		"no user":                 {bounds, birth.Submission{Spec: run("")}, 1, 0, false, ""},
		"another user in a step":  {bounds, birth.Submission{Spec: &job.Spec{Steps: []job.Step{{Name: "s", Spec: *run("root")}}}}, 1, 0, false, ""},
		"a job as it is defined":  {bounds, birth.Submission{Job: "page"}, 1, 0, true, ""},
		"a job in another queue":  {bounds, birth.Submission{Job: "page", Queue: "gpu"}, 1, 0, false, ""},
		"a node":                  {bounds, birth.Submission{Spec: at(job.Place{Nodes: []string{"w2"}})}, 1, 0, false, ""},
		"a node for itself":       {bounds, birth.Submission{Spec: run("crawler"), Nodes: []string{"w1", "w2"}}, 1, 0, false, ""},
		"a node in its place":     {bounds, birth.Submission{Spec: run("crawler"), Place: &job.Place{Nodes: []string{"w2"}, Each: true}}, 1, 0, false, ""},
		"a node in a step":        {bounds, birth.Submission{Spec: step(job.Step{Name: "s", Spec: *at(job.Place{Nodes: []string{"w2"}})})}, 1, 0, false, ""},
		"a node in a handler":     {bounds, birth.Submission{Spec: &job.Spec{Steps: step(job.Step{Name: "s", Spec: *run("crawler")}).Steps, On: &job.Handlers{Exit: &job.Step{Spec: *at(job.Place{Nodes: []string{"w2"}})}}}}, 1, 0, false, ""},
		"its parent's node":       {bounds, birth.Submission{Spec: run("crawler"), Nodes: []string{"w1"}}, 1, 0, true, "crawl"},
		"a node, anywhere":        {birth.Spawning{Children: 3, Depth: 2, Anywhere: true}, birth.Submission{Spec: run("crawler"), Nodes: []string{"w2"}}, 1, 0, true, "crawl"},
		"a job on a node":         {bounds, birth.Submission{Job: "page", Nodes: []string{"w2"}}, 1, 0, true, ""},
		"a job placed elsewhere":  {bounds, birth.Submission{Job: "page", Place: &job.Place{Queue: "gpu"}}, 1, 0, false, ""},
		"a queue in its place":    {bounds, birth.Submission{Spec: run("crawler"), Place: &job.Place{Queue: "gpu"}}, 1, 0, false, ""},
		"a queue in a step":       {bounds, birth.Submission{Spec: step(job.Step{Name: "s", Queue: "gpu", Spec: *run("crawler")})}, 1, 0, false, ""},
		"a queue, steps placed":   {bounds, birth.Submission{Spec: step(job.Step{Name: "s", Spec: *at(job.Place{Queue: "gpu"})})}, 1, 0, false, ""},
		"none at all":             {none, birth.Submission{Job: "page"}, 1, 0, false, ""},
		"none above another":      {flat, birth.Submission{Job: "page"}, 1, 0, false, ""},
		"anywhere":                {birth.Spawning{Children: 3, Depth: 2, Anywhere: true}, birth.Submission{Spec: run("root"), Queue: "gpu"}, 1, 0, true, "gpu"},
	} {
		err := c.bounds.Check(parent, &c.s, c.n, c.ancestors)
		if (err == nil) != c.ok || err == nil && c.s.Queue != c.queue {
			t.Errorf("%s: %v, queue %q", name, err, c.s.Queue)
		}
	}
	placed := &task.Task{Work: task.Work{Spec: &job.Spec{Run: parent.Spec.Run, Place: job.Place{Nodes: []string{"w1"}, Queue: "crawl"}}, Route: placement.NodeRoute("w1", 5)}}
	child := birth.Submission{Spec: run("crawler")}
	if err := bounds.Check(placed, &child, 1, 0); err != nil || child.Queue != "crawl" {
		t.Errorf("a child of a task that is placed on a node: %v, queue %q", err, child.Queue)
	}
	if d := (birth.Spawning{}).WithDefaults(); d.Validate() != nil || !reflect.DeepEqual(d, birth.Spawning{Children: birth.DefaultSpawned, Depth: birth.DefaultSpawnDepth}) {
		t.Errorf("the defaults are %+v", d)
	}
}
