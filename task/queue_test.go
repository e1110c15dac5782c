package task

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/value"
	"millrace/task/where"
)

// A task in a paused queue waits for an operator, and ends only by its own timeout.
func TestDutyInAPausedQueue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	waits := Task{ID: "T", State: Pending, Offered: true, Since: noon, Work: Work{Route: "crawl.5"}}
	byHand := Surroundings{Serving: 1, Paused: &queue.Pause{Until: noon.Add(time.Hour), Consumer: "LOG queue_q"}}
	if d := Owes(waits, byHand, Settings{StartDeadline: time.Minute}); d.Who != "operator" || d.Command != nil || !strings.Contains(d.What, "`nats consumer resume LOG queue_q`") || !strings.Contains(d.What, value.Clock(noon.Add(time.Hour))) {
		t.Errorf("paused on the server alone: %+v", d)
	}
	around := Surroundings{Paused: &queue.Pause{Since: noon, By: "ann", Reason: "closed"}, Unserved: noon}
	rules := Settings{StartDeadline: time.Minute}
	d := Owes(waits, around, rules)
	if d.Who != "operator" || !strings.Contains(d.What, `"crawl"`) || !strings.Contains(d.What, "by ann") || !strings.HasSuffix(d.What, ": closed") || !d.Look || d.Command != nil {
		t.Errorf("without a timeout of its own: %+v", d)
	}
	waits.StartBy = noon.Add(time.Hour)
	if d = Owes(waits, around, rules); !d.By.Equal(waits.StartBy) || d.Command == nil {
		t.Errorf("with a timeout of its own: %+v", d)
	}
}

// A task in a closed queue waits for the opening if a node would take it then. Only its own timeout
// can end it.
func TestDutyInAClosedQueue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	waits := Task{ID: "T", State: Pending, Offered: true, Since: noon, Work: Work{Route: "crawl.5"}}
	selected := waits
	gpu := where.Asked{Queue: "crawl", Needs: where.Selector{{Key: "gpu", Op: where.OpIn, Values: []string{"a100"}}}}
	selected.Work = Work{Spec: &job.Spec{Place: job.Place{Queue: "crawl"}}, Asked: &gpu, Route: gpu.Route(5)}
	own := waits
	own.Route = "@n1.5"
	late := waits
	late.StartBy = noon.Add(time.Hour)
	rules := Settings{StartDeadline: time.Minute}
	for name, c := range map[string]struct {
		t       Task
		serving int
		paused  *queue.Pause
		words   string
		by      time.Time
	}{
		"it is served":          {t: waits, serving: 2, words: `one of the 2 online nodes that serve queue "crawl" claims it when that opens: outside of the window night`},
		"it asks for labels":    {t: selected, serving: 1, words: `the one online node that serves queue "crawl" claims it when that opens: outside`},
		"with a timeout":        {t: late, serving: 1, words: "claims it when that opens: outside", by: late.StartBy},
		"it is paused, too":     {t: waits, serving: 1, paused: &queue.Pause{Since: noon}, words: "resume queue"},
		"nobody serves it":      {t: waits, words: "comes online and claims it", by: noon.Add(time.Minute)},
		"it is aimed at a node": {t: own, serving: 1, words: "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Owes(c.t, Surroundings{Serving: c.serving, Paused: c.paused, Shut: "outside of the window night, opens at noon", Unserved: noon}, rules)
			if !strings.Contains(d.What, c.words) || name == "it is aimed at a node" && strings.Contains(d.What, "window") {
				t.Errorf("to do is %q, want %q", d.What, c.words)
			}
			if (d.Command != nil) != !c.by.IsZero() || !c.by.IsZero() && !d.By.Equal(c.by) {
				t.Errorf("it ends at %v by %+v, want %v", d.By, d.Command, c.by)
			}
		})
	}
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	spec := &job.Spec{Handler: "noop"}
	j := &job.Job{Name: "j", Queue: "crawl", Priority: 7, Fair: "tenant", Spec: *spec, Labels: map[string]string{"tenant": "acme"}}
	for _, c := range []struct {
		s     Submission
		job   *job.Job
		route where.Route
		key   string
	}{
		{Submission{Spec: spec}, nil, "default.5", ""},
		{Submission{Spec: spec, Priority: 10, FairKey: "x"}, nil, "default.10", "x"},
		{Submission{}, j, "crawl.7", "acme"},
		{Submission{Priority: 2, Labels: map[string]string{"tenant": "b"}}, j, "crawl.2", "b"},
		{Submission{FairKey: "mine", Nodes: []string{"n1"}}, j, "@n1.7", "mine"},
	} {
		e, err := Birth(c.s, c.job, 0, noon)
		if err != nil || e.Route != c.route || e.FairKey != c.key {
			t.Errorf("%+v: route %s, key %q, %v; want %s, %q", c.s, e.Route, e.FairKey, err, c.route, c.key)
		}
	}
	for _, s := range []Submission{{Spec: spec, Priority: 11}, {Spec: spec, Priority: -1}, {Spec: spec, FairKey: strings.Repeat("x", MaxFairKey+1)}} {
		if _, err := Birth(s, nil, 0, noon); err == nil {
			t.Errorf("priority %d with a key of %d bytes is not refused", s.Priority, len(s.FairKey))
		}
	}
	for value, want := range map[string]string{`{"tenant":"a"}`: "a", `{"tenant":7}`: "7", `{"tenant":null}`: "", `{}`: "", ``: ""} {
		if got := (&Work{Params: []byte(value)}).valueOf("tenant"); got != want {
			t.Errorf("the parameter of %s is %q, want %q", value, got, want)
		}
	}

	waits := Task{ID: "T", State: Pending, Work: Work{Route: "crawl.5"}}
	for _, c := range []struct {
		t    Task
		p    int
		want any
	}{
		{waits, 9, Reassigned{From: "crawl.5", To: "crawl.9", Reason: "r"}},
		{waits, 5, nil},
		{Task{State: Pending, Work: Work{Route: "@n1.5"}}, 9, Reassigned{From: "@n1.5", To: "@n1.9", Reason: "r"}},
		{Task{State: Running}, 9, ErrNotWaiting},
		{Task{State: Finished}, 9, ErrEnded},
	} {
		e, err := Decide(c.t, Prioritize{Priority: c.p, Reason: "r"}, noon)
		if refusal, ok := c.want.(error); ok {
			if !errors.Is(err, refusal) {
				t.Errorf("%s: %v, want %v", c.t.State, err, refusal)
			}
		} else if err != nil || fmt.Sprint(e) != fmt.Sprint(c.want) {
			t.Errorf("%s to %d: %v, %v; want %v", c.t.Route, c.p, e, err, c.want)
		}
	}
	for state, want := range map[State]error{Pending: nil, Held: nil, Retrying: nil, Running: ErrNotWaiting, Cancelling: ErrNotWaiting, Error: ErrEnded} {
		if _, err := Decide(Task{State: state}, CancelWaiting{}, noon); !errors.Is(err, want) {
			t.Errorf("cancelling what waits, of a %s task: %v, want %v", state, err, want)
		}
	}
}
