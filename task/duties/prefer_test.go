package duties_test

import (
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

func TestHandsOver(t *testing.T) {
	peer := func(name string, labels ...string) duties.Peer {
		p := duties.Peer{Node: name, Labels: map[string]string{placement.LabelNode: name}}
		for _, l := range labels {
			p.Labels[l] = "yes"
		}
		return p
	}
	weighed := job.Place{Prefer: []job.Preference{{Labels: logtest.Selects("gpu"), Weight: 10}, {Labels: logtest.Selects("near"), Weight: 0}}}
	for name, c := range map[string]struct {
		place  job.Place
		self   duties.Peer
		others []duties.Peer
		ran    string
		want   placement.Route // "" if it starts here
	}{
		"no preference":                  {job.Place{}, peer("a"), []duties.Peer{peer("b", "gpu")}, "b", ""},
		"a better node":                  {weighed, peer("a"), []duties.Peer{peer("b", "gpu")}, "", placement.SelectorRoute("images", logtest.Selects("gpu"), 5)},
		"weights add up":                 {weighed, peer("a", "gpu"), []duties.Peer{peer("b", "near"), peer("c", "gpu", "near")}, "", placement.SelectorRoute("images", logtest.Selects("gpu,near"), 5)},
		"it is as good as any":           {weighed, peer("a", "near"), []duties.Peer{peer("b", "near"), peer("c")}, "", ""},
		"weight one against ten":         {weighed, peer("a", "gpu"), []duties.Peer{peer("b", "near")}, "", ""},
		"alone":                          {weighed, peer("a"), nil, "", ""},
		"it ran elsewhere":               {job.Place{Sticky: job.StickyJob}, peer("a"), []duties.Peer{peer("b")}, "b", placement.NodeRoute("b", 5)},
		"it ran here":                    {job.Place{Sticky: job.StickyJob}, peer("a"), []duties.Peer{peer("b")}, "a", ""},
		"it ran nowhere":                 {job.Place{Sticky: "{params.customer}"}, peer("a"), []duties.Peer{peer("b")}, "", ""},
		"where it ran is gone":           {job.Place{Sticky: job.StickyJob}, peer("a"), []duties.Peer{peer("c")}, "b", ""},
		"no attempt yet":                 {job.Place{Sticky: job.StickyAttempt}, peer("a"), []duties.Peer{peer("b")}, "b", ""},
		"sticky goes before weights":     {job.Place{Sticky: job.StickyJob, Prefer: weighed.Prefer}, peer("a"), []duties.Peer{peer("b", "gpu"), peer("c")}, "c", placement.NodeRoute("c", 5)},
		"here last, though worse":        {job.Place{Sticky: job.StickyJob, Prefer: weighed.Prefer}, peer("a"), []duties.Peer{peer("b", "gpu")}, "a", ""},
		"gone, then by weight":           {job.Place{Sticky: job.StickyJob, Prefer: weighed.Prefer}, peer("a"), []duties.Peer{peer("b", "gpu")}, "z", placement.SelectorRoute("images", logtest.Selects("gpu"), 5)},
		"on top of what it must have":    {job.Place{Labels: logtest.Selects("zone=eu"), Prefer: weighed.Prefer}, peer("a"), []duties.Peer{peer("b", "gpu")}, "", placement.SelectorRoute("images", logtest.Selects("zone=eu,gpu"), 5)},
		"on top of what it must not use": {job.Place{Avoid: []string{"z"}, Prefer: weighed.Prefer}, peer("a"), []duties.Peer{peer("b", "gpu")}, "", placement.SelectorRoute("images", logtest.Selects("node!=z,gpu"), 5)},
	} {
		w := logtest.Given(logtest.Preferring(c.place))
		hand, ok := duties.HandsOver(&w, c.self, c.others, c.ran)
		if ok != (c.want != "") || hand.To != c.want {
			t.Errorf("%s: handed to %q (%v), want %q", name, hand.To, ok, c.want)
		}
		if !ok {
			continue
		}
		// Over there the claim needs what the route requires, and the task says why it waits there.
		e, err := task.Decide(w, hand, logtest.At(5))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		moved := task.Evolve(w, task.Recorded{Seq: 7, Chain: true, At: logtest.At(5), Event: e})
		if queue, needs := moved.Asks(); moved.Route.Selected() && placement.SelectorRoute(queue, needs, 5) != moved.Route {
			t.Errorf("%s: on %s it asks for %q in %s", name, moved.Route, needs, queue)
		}
		if next, missing := task.NextOffer(&moved); !missing || next.Route != c.want || next.After != 7 || !strings.Contains(moved.Message, "10s") {
			t.Errorf("%s: then %+v is missing (%v), for %q", name, next, missing, moved.Message)
		}
		if _, again := duties.HandsOver(&moved, c.self, c.others, c.ran); again {
			t.Errorf("%s: it is handed over again", name)
		}
	}
}

// A handed-over task returns home once, when its time is up or no node is there. The next turn
// begins at home.
func TestHandedGoesBack(t *testing.T) {
	born := logtest.Given(logtest.Preferring(job.Place{Sticky: job.StickyJob, PreferWait: value.Duration(time.Minute)}))
	e, err := task.Decide(born, task.HandOver{To: "@b.5", Reason: "b ran it"}, logtest.At(1))
	if want := (task.Reassigned{From: "images.5", To: "@b.5", Reason: "b ran it", Until: logtest.At(1).Add(time.Minute)}); err != nil || e != want {
		t.Fatalf("decided %+v, %v; want %+v", e, err, want)
	}
	handed := task.Evolve(born, task.Recorded{Seq: 7, Chain: true, At: logtest.At(1), Event: e})
	handed = task.Evolve(handed, task.Recorded{Seq: 8, At: logtest.At(1), Event: task.Queued{Work: handed.Work, Attempt: 1, After: 7}})
	back := task.Reassign{From: "@b.5", To: "images.5"}
	for name, c := range map[string]struct {
		around duties.Surroundings
		by     time.Time
	}{
		"in time":   {duties.Surroundings{Serving: 1}, logtest.At(1).Add(time.Minute)},
		"b is gone": {duties.Surroundings{Unserved: logtest.At(9)}, logtest.At(9)},
	} {
		d := duties.Owes(handed, c.around, logtest.Settings)
		move, _ := d.Command.(task.Reassign)
		if back.Reason = move.Reason; move != back || !d.By.Equal(c.by) || d.Look || d.What == "" || move.Reason == "" {
			t.Errorf("%s: %+v, want %+v by %v", name, d, back, c.by)
		}
	}
	if d := duties.Owes(handed, duties.Surroundings{Serving: 1}, logtest.Settings); d.Who != "node b" || !strings.Contains(d.What, "b ran it") {
		t.Errorf("meanwhile: %+v", d)
	}

	e, _ = task.Decide(handed, back, logtest.At(70))
	home := task.Evolve(handed, task.Recorded{Seq: 9, Chain: true, At: logtest.At(70), Event: e})
	if _, again := duties.HandsOver(&home, duties.Peer{Node: "a"}, []duties.Peer{{Node: "b"}}, "b"); again || home.Route != "images.5" || !home.PreferredUntil().IsZero() {
		t.Errorf("back on %s, handed over again: %v", home.Route, again)
	}
	if _, err := task.Decide(home, task.HandOver{To: "@b.5", After: 9}, logtest.At(71)); err == nil {
		t.Error("a second hand-over in one turn is not refused")
	}

	// A new priority changes the route back, but not that the task returns.
	e, err = task.Decide(handed, task.Prioritize{Priority: 9}, logtest.At(2))
	if err != nil {
		t.Fatal(err)
	}
	urgent := task.Evolve(handed, task.Recorded{Seq: 9, Chain: true, At: logtest.At(2), Event: e})
	urgent = task.Evolve(urgent, task.Recorded{Seq: 10, At: logtest.At(2), Event: task.Queued{Work: urgent.Work, Attempt: 1, After: 9}})
	if d := duties.Owes(urgent, duties.Surroundings{Serving: 1}, logtest.Settings); !reflect.DeepEqual(d.Command, task.Reassign{From: "@b.9", To: "images.9", Reason: "the nodes that it was left to have not claimed it in time"}) {
		t.Errorf("with another priority: %+v", d)
	}

	// An attempt that was lost there begins its next turn at home.
	ran := task.Evolve(handed, task.Recorded{Seq: 9, Chain: true, At: logtest.At(2), Event: task.AttemptStarted{Attempt: 1, Node: "b", Offer: 8}})
	lost := task.Evolve(ran, task.Recorded{Seq: 10, Chain: true, At: logtest.At(3), Event: task.AttemptLost{Attempt: 1, Epoch: 9}})
	if lost.Route != "images.5" || lost.Handed != nil || lost.State != task.Pending {
		t.Errorf("lost: %s on %s, %+v", lost.State, lost.Route, lost.Handed)
	}
}

func TestStickyName(t *testing.T) {
	for sticky, want := range map[string]string{
		"": "", job.StickyAttempt: "", job.StickyJob: "sticky:queue.images", "{params.customer}": "sticky:queue.images/acme", "/{params.customer}": "sticky:/acme",
	} {
		e := logtest.Preferring(job.Place{Sticky: sticky})
		if got, err := e.StickyName(); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", sticky, got, err, want)
		}
	}
	_, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "noop", Place: job.Place{Sticky: "{params.nothing}"}}}, nil, 0, logtest.Noon)
	if err == nil || !strings.Contains(err.Error(), "place.sticky") {
		t.Errorf("a key that the task was not given: %v", err)
	}
}

func TestPreferencesAreChecked(t *testing.T) {
	gpu := []job.Preference{{Labels: logtest.Selects("gpu"), Weight: 1}}
	for want, p := range map[string]job.Place{
		"place.sticky is":                        {Sticky: "node"},
		"place.sticky is \"{x}\"":                {Sticky: "{x}"},
		"prefers none":                           {PreferWait: value.Duration(time.Second)},
		"place.nodes is in the order":            {Nodes: []string{"a"}, Prefer: gpu},
		"leave place.mode all":                   {Mode: job.PlaceAll, Sticky: job.StickyJob},
		"at most 4":                              {Prefer: []job.Preference{gpu[0], gpu[0], gpu[0], gpu[0], gpu[0]}},
		"place.prefer[0].weight is -1":           {Prefer: []job.Preference{{Labels: logtest.Selects("gpu"), Weight: -1}}},
		"place.prefer[0].labels: name at least":  {Prefer: []job.Preference{{Labels: nil, Weight: 1}}},
		"place.prefer[0].labels: the label \"\"": {Prefer: []job.Preference{{Labels: placement.Selector{{Op: placement.OpExists}}, Weight: 1}}},
		"place.prefer_wait is -1s":               {Sticky: job.StickyJob, PreferWait: value.Duration(-time.Second)},
		"more than 30 requirements":              {Prefer: []job.Preference{{Labels: make(placement.Selector, 31), Weight: 1}}},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q in it", p, err, want)
		}
	}
}

// A submission may place its task without knowing the preferences of the job.
func TestPreferencesGiveWay(t *testing.T) {
	j := &job.Job{Name: "j", Spec: job.Spec{Handler: "h", Place: job.Place{Sticky: job.StickyJob, Prefer: []job.Preference{{Labels: logtest.Selects("gpu"), Weight: 1}}, PreferWait: value.Duration(time.Second)}}}
	for name, s := range map[string]birth.Submission{
		"a node": {Nodes: []string{"a"}}, "some of them": {Place: &job.Place{Count: 2}}, "all": {Place: &job.Place{Mode: job.PlaceAll}}, "each": {Place: &job.Place{Nodes: []string{"a"}, Each: true}},
	} {
		if e, err := birth.Of(s, j, 1, logtest.Noon); err != nil || e.Spec.Place.Prefers() {
			t.Errorf("%s: %+v, %v", name, e.Spec.Place, err)
		}
	}
	e, err := birth.Of(birth.Submission{Place: &job.Place{Labels: logtest.Selects("zone=eu"), Sticky: job.StickyAttempt}}, j, 1, logtest.Noon)
	if err != nil || e.Spec.Place.Sticky != job.StickyAttempt || len(e.Spec.Place.Prefer) != 1 {
		t.Errorf("other labels: %+v, %v", e.Spec.Place, err)
	}
}
