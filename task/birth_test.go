package task

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/reason"
)

// The fold and Born find the same birth in a history, after every step.
func TestOneBirth(t *testing.T) {
	const id = ID("01JNA0000000000000000BRTH1")
	work := func(command string) Work {
		return Work{Spec: &job.Spec{Run: &job.Run{Shell: command}}, Route: "default.5"}
	}
	birth := func(seq uint64, w Work) Recorded { return Recorded{Seq: seq, At: noon, Event: Submitted{Work: w}} }
	onChain := func(seq uint64, w Work) Recorded {
		return Recorded{Seq: seq, Chain: true, At: noon, Event: Submitted{Work: w}}
	}
	started := func(seq, offer uint64) Recorded {
		return Recorded{Seq: seq, Chain: true, At: noon, Event: AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: offer}}
	}
	held, due := work("a"), Submitted{Work: work("a"), Due: noon.Add(time.Hour)}
	held.Holds = []string{HoldSignal}
	for name, c := range map[string]struct {
		history []Recorded
		want    string
		state   State
		rivals  int
	}{
		"the first counts":                       {[]Recorded{birth(1, work("a")), birth(2, work("b"))}, "a", Pending, 1},
		"the same again is no rival":             {[]Recorded{birth(1, work("a")), birth(2, work("a"))}, "a", Pending, 0},
		"until a claim says otherwise":           {[]Recorded{birth(1, work("a")), birth(2, work("b")), started(3, 2)}, "b", Running, 0},
		"a claim of the first":                   {[]Recorded{birth(1, work("a")), birth(2, work("b")), started(3, 1)}, "a", Running, 0},
		"a claim of one that was due":            {[]Recorded{{Seq: 1, At: noon, Event: due}, birth(2, work("b")), started(3, 2)}, "b", Running, 0},
		"the chain's own counts":                 {[]Recorded{onChain(1, work("a")), birth(2, work("b"))}, "a", Pending, 0},
		"also if it comes second":                {[]Recorded{birth(1, work("b")), onChain(2, work("a"))}, "a", Pending, 0},
		"what a signal holds stays held":         {[]Recorded{onChain(1, held), birth(2, work("b")), {Seq: 3, At: noon, Event: Queued{Work: work("b"), Attempt: 1}}}, "a", Held, 0},
		"also for an offer of its turn":          {[]Recorded{onChain(1, held), {Seq: 2, At: noon, Event: Queued{Work: work("b"), Attempt: 1, After: 1}}}, "a", Held, 0},
		"a second one on the chain is none":      {[]Recorded{onChain(1, work("a")), onChain(2, work("b"))}, "a", Pending, 0},
		"nor is one after a claim":               {[]Recorded{birth(1, work("a")), started(2, 1), onChain(3, work("b")), birth(4, work("b"))}, "a", Running, 0},
		"no more than a few rivals are kept":     {[]Recorded{birth(1, work("a")), birth(2, work("b")), birth(3, work("c")), birth(4, work("d")), birth(5, work("e")), birth(6, work("f"))}, "a", Pending, MaxRivals},
		"a cancel binds to the first":            {[]Recorded{birth(1, work("a")), birth(2, work("b")), {Seq: 3, Chain: true, At: noon, Event: CancelConfirmed{}}}, "a", Cancelled, 0},
		"an offer follows a birth on the chain":  {[]Recorded{onChain(1, work("a")), {Seq: 2, At: noon, Event: Queued{Work: work("a"), Attempt: 1, After: 1}}, started(3, 2)}, "a", Running, 0},
		"a birth offer of another is no offer":   {[]Recorded{onChain(1, work("a")), birth(2, work("a"))}, "a", Pending, 0},
		"a due one on the chain waits for it":    {[]Recorded{{Seq: 1, Chain: true, At: noon, Event: due}}, "a", Scheduled, 0},
		"and a claim names the turn, not a head": {[]Recorded{onChain(1, work("a")), started(2, 1)}, "a", Running, 0},
	} {
		k := Task{ID: id}
		for _, r := range c.history {
			k.Apply(r)
		}
		if k.Spec.Run.Shell != c.want || k.State != c.state || len(k.Rivals) != c.rivals {
			t.Errorf("%s: the fold has %q, %s, %d rivals; want %q, %s, %d", name, k.Spec.Run.Shell, k.State, len(k.Rivals), c.want, c.state, c.rivals)
		}
		if i := Born(c.history); c.history[i].Event.(Submitted).Spec.Run.Shell != c.want {
			t.Errorf("%s: Born finds %d", name, i)
		}
	}
}

// A birth on the chain has no offer until one is placed. Claims of any other offer are stale.
func TestBirthOnTheChain(t *testing.T) {
	k := Evolve(Task{ID: "01JNA0000000000000000BRTH1"}, Recorded{Seq: 7, Chain: true, At: noon, Event: Submitted{Work: Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}}})
	next, missing := NextOffer(&k)
	if !missing || next.After != 7 || next.Attempt != 1 || next.Reason != reason.Born {
		t.Errorf("the offer is %+v, %v", next, missing)
	}
	if d := Owes(k, Surroundings{}, settings); d.Who != "scheduler" || d.What != "place its next offer (born)" {
		t.Errorf("it owes %+v", d)
	}
	if e, err := Decide(k, Claim{Node: "n", Session: "s", Offer: 8}, noon); !errors.Is(err, ErrStale) {
		t.Errorf("a claim under an offer that is a birth itself: %+v, %v", e, err)
	}
	if _, err := Decide(k, Claim{Node: "n", Session: "s", Offer: 8, After: 7}, noon); err != nil {
		t.Error(err)
	}
}

func TestDiffers(t *testing.T) {
	born := func(change func(*Submitted)) *Submitted {
		e := &Submitted{Work: Work{
			Job: "j", Spec: &job.Spec{Run: &job.Run{Argv: []string{"a", "b"}}, Files: &job.Files{Bundle: "app@0123"}, Steps: []job.Step{{Name: "s", Spec: job.Spec{Files: &job.Files{Bundle: "lib@4567"}}}}},
			Params: json.RawMessage(`{"a":1,"b":[1,2]}`), Route: "default.5",
		}}
		change(e)
		return e
	}
	same := born(func(*Submitted) {})
	for want, change := range map[string]func(*Submitted){
		"":              func(e *Submitted) { e.StartBy, e.EndBy = noon, noon },
		"job":           func(e *Submitted) { e.Job = "k" },
		"spec.run.argv": func(e *Submitted) { s := *e.Spec; s.Run = &job.Run{Argv: []string{"a", "c"}}; e.Spec = &s },
		"params.b":      func(e *Submitted) { e.Params = json.RawMessage(`{"b":[1,3],"a":1}`) },
		"params.c":      func(e *Submitted) { e.Params = json.RawMessage(`{"b":[1,2],"a":1,"c":null}`) },
		"route":         func(e *Submitted) { e.Route = "default.6" },
		"due":           func(e *Submitted) { e.Due = noon },
		"retry_of":      func(e *Submitted) { e.RetryOf = "x" },
		"spec.files.bundle": func(e *Submitted) {
			s := *e.Spec
			s.Files = &job.Files{Bundle: "app@0124"}
			e.Spec = &s
		},
	} {
		if got := same.Differs(born(change)); got != want {
			t.Errorf("they differ in %q, want %q", got, want)
		}
	}
	named := born(func(e *Submitted) {
		s := *e.Spec
		s.Files, s.Steps = &job.Files{Bundle: "app"}, []job.Step{{Name: "s", Spec: job.Spec{Files: &job.Files{Bundle: "lib"}}}}
		e.Spec = &s
	})
	if got := same.Differs(named); got != "" {
		t.Errorf("a name of files stands for any version; they differ in %q", got)
	}
}

func TestDerivedIDs(t *testing.T) {
	at := ID("01JNA0000000000000000BRTH1")
	a, b := DerivedID(at, "a"), DerivedID(at, "b")
	if parsed, err := ParseID(string(a)); err != nil || parsed != a || a == b || a != DerivedID(at, "a") || a[:10] != at[:10] {
		t.Errorf("%s and %s: %v", a, b, err)
	}
	if !a.Derived() || at.Derived() || ID("").Derived() {
		t.Error("the form is not recognised")
	}
	from, to := DerivedRange(at)
	if ids := []ID{from, a, to}; !slices.IsSorted(ids) || from > at && at < to && at >= from {
		t.Errorf("%s does not lie between %s and %s", a, from, to)
	}
}

func TestSpawning(t *testing.T) {
	parent := &Task{Work: Work{Spec: &job.Spec{Run: &job.Run{Shell: "x", User: "crawler"}}, Route: "crawl.5"}}
	run := func(user string) *job.Spec { return &job.Spec{Run: &job.Run{Shell: "y", User: user}} }
	bounds := Spawning{Children: 3, Depth: 2}
	for name, c := range map[string]struct {
		bounds       Spawning
		s            Submission
		n, ancestors int
		ok           bool
		queue        string
	}{
		"its own queue by itself": {bounds, Submission{Spec: run("crawler")}, 1, 0, true, "crawl"},
		"its own queue by name":   {bounds, Submission{Spec: run("crawler"), Queue: "crawl"}, 3, 1, true, "crawl"},
		"one too many":            {bounds, Submission{Spec: run("crawler")}, 4, 0, false, ""},
		"too deep":                {bounds, Submission{Spec: run("crawler")}, 1, 2, false, ""},
		"another queue":           {bounds, Submission{Spec: run("crawler"), Queue: "gpu"}, 1, 0, false, ""},
		"another queue, placed":   {bounds, Submission{Spec: &job.Spec{Run: &job.Run{Shell: "y", User: "crawler"}, Place: job.Place{Queue: "gpu"}}}, 1, 0, false, ""},
		"another user":            {bounds, Submission{Spec: run("root")}, 1, 0, false, ""},
		"no user":                 {bounds, Submission{Spec: run("")}, 1, 0, false, ""},
		"another user in a step":  {bounds, Submission{Spec: &job.Spec{Steps: []job.Step{{Name: "s", Spec: *run("root")}}}}, 1, 0, false, ""},
		"a job as it is defined":  {bounds, Submission{Job: "page"}, 1, 0, true, ""},
		"a job in another queue":  {bounds, Submission{Job: "page", Queue: "gpu"}, 1, 0, false, ""},
		"anywhere":                {Spawning{Children: 3, Depth: 2, Anywhere: true}, Submission{Spec: run("root"), Queue: "gpu"}, 1, 0, true, "gpu"},
	} {
		err := c.bounds.Check(parent, &c.s, c.n, c.ancestors)
		if (err == nil) != c.ok || err == nil && c.s.Queue != c.queue {
			t.Errorf("%s: %v, queue %q", name, err, c.s.Queue)
		}
	}
	if d := (Spawning{}).WithDefaults(); d.Validate() != nil || !reflect.DeepEqual(d, Spawning{Children: DefaultSpawned, Depth: DefaultSpawnDepth}) {
		t.Errorf("the defaults are %+v", d)
	}
}
