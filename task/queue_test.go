package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// A task in a paused queue waits for an operator, and ends only by its own timeout.
func TestDutyInAPausedQueue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	waits := task.Task{ID: "T", State: task.Pending, Offered: true, Since: noon, Work: task.Work{Route: "crawl.5"}}
	byHand := duties.Surroundings{Serving: 1, Paused: &queue.Pause{Until: noon.Add(time.Hour), Consumer: "LOG queue_q"}}
	if d := duties.Owes(waits, byHand, duties.Settings{StartDeadline: time.Minute}); d.Who != "operator" || d.Command != nil || !strings.Contains(d.What, "`nats consumer resume LOG queue_q`") || !strings.Contains(d.What, value.Clock(noon.Add(time.Hour))) {
		t.Errorf("paused on the server alone: %+v", d)
	}
	around := duties.Surroundings{Paused: &queue.Pause{Since: noon, By: "ann", Reason: "closed"}, Unserved: noon}
	rules := duties.Settings{StartDeadline: time.Minute}
	d := duties.Owes(waits, around, rules)
	if d.Who != "operator" || !strings.Contains(d.What, `"crawl"`) || !strings.Contains(d.What, "by ann") || !strings.HasSuffix(d.What, ": closed") || !d.Look || d.Command != nil {
		t.Errorf("without a timeout of its own: %+v", d)
	}
	waits.StartBy = noon.Add(time.Hour)
	if d = duties.Owes(waits, around, rules); !d.By.Equal(waits.StartBy) || d.Command == nil {
		t.Errorf("with a timeout of its own: %+v", d)
	}
}

// A task in a closed queue waits for the opening if a node would take it then. Only its own timeout
// can end it.
func TestDutyInAClosedQueue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	waits := task.Task{ID: "T", State: task.Pending, Offered: true, Since: noon, Work: task.Work{Route: "crawl.5"}}
	selected := waits
	gpu := placement.Asked{Queue: "crawl", Needs: placement.Selector{{Key: "gpu", Op: placement.OpIn, Values: []string{"a100"}}}}
	selected.Work = task.Work{Spec: &job.Spec{Place: job.Place{Queue: "crawl"}}, Asked: &gpu, Route: gpu.Route(5)}
	own := waits
	own.Route = "@n1.5"
	late := waits
	late.StartBy = noon.Add(time.Hour)
	rules := duties.Settings{StartDeadline: time.Minute}
	for name, c := range map[string]struct {
		t       task.Task
		serving int
		paused  *queue.Pause
		words   string
		by      time.Time
	}{
		"it is served":          {t: waits, serving: 2, words: `one of the 2 online nodes that serve queue "crawl" claims it when that opens: outside of the window night`},
		"it asks for labels":    {t: selected, serving: 1, words: `the one online node that serves queue "crawl" claims it when that opens: outside`},
		"with a timeout":        {t: late, serving: 1, words: "claims it when that opens: outside", by: late.StartBy},
		"it is paused, too":     {t: waits, serving: 1, paused: &queue.Pause{Since: noon}, words: "resume queue"},
		"nobody serves it":      {t: waits, words: `start a worker that serves queue "crawl"; waiting since`, by: noon.Add(time.Minute)},
		"it is aimed at a node": {t: own, serving: 1, words: "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := duties.Owes(c.t, duties.Surroundings{Serving: c.serving, Paused: c.paused, Shut: "outside of the window night, opens at noon", Unserved: noon}, rules)
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
		s     birth.Submission
		job   *job.Job
		route placement.Route
		key   string
	}{
		{birth.Submission{Spec: spec}, nil, "default.5", ""},
		{birth.Submission{Spec: spec, Priority: 10, FairKey: "x"}, nil, "default.10", "x"},
		{birth.Submission{}, j, "crawl.7", "acme"},
		{birth.Submission{Priority: 2, Labels: map[string]string{"tenant": "b"}}, j, "crawl.2", "b"},
		{birth.Submission{FairKey: "mine", Nodes: []string{"n1"}}, j, "@n1.7", "mine"},
	} {
		e, err := birth.Of(c.s, c.job, 0, noon)
		if err != nil || e.Route != c.route || e.FairKey != c.key {
			t.Errorf("%+v: route %s, key %q, %v; want %s, %q", c.s, e.Route, e.FairKey, err, c.route, c.key)
		}
	}
	for _, s := range []birth.Submission{{Spec: spec, Priority: 11}, {Spec: spec, Priority: -1}, {Spec: spec, FairKey: strings.Repeat("x", birth.MaxFairKey+1)}} {
		if _, err := birth.Of(s, nil, 0, noon); err == nil {
			t.Errorf("priority %d with a key of %d bytes is not refused", s.Priority, len(s.FairKey))
		}
	}
	fair := &job.Job{Name: "fair", Fair: "tenant", Spec: *spec}
	for value, want := range map[string]string{`"a"`: "a", `7`: "7", `null`: "", "": ""} {
		s := birth.Submission{Params: map[string]json.RawMessage{"tenant": json.RawMessage(value)}}
		if value == "" {
			s.Params = nil
		}
		if e, err := birth.Of(s, fair, 0, noon); err != nil || e.FairKey != want {
			t.Errorf("the fair key of the parameter %s is %q, want %q: %v", value, e.FairKey, want, err)
		}
	}

	waits := task.Task{ID: "T", State: task.Pending, Work: task.Work{Route: "crawl.5"}}
	for _, c := range []struct {
		t    task.Task
		p    int
		want any
	}{
		{waits, 9, task.Reassigned{From: "crawl.5", To: "crawl.9", Reason: "r"}},
		{waits, 5, nil},
		{task.Task{State: task.Pending, Work: task.Work{Route: "@n1.5"}}, 9, task.Reassigned{From: "@n1.5", To: "@n1.9", Reason: "r"}},
		{task.Task{State: task.Running}, 9, task.ErrNotWaiting},
		{task.Task{State: task.Finished}, 9, task.ErrEnded},
	} {
		e, err := task.Decide(c.t, task.Prioritize{Priority: c.p, Reason: "r"}, noon)
		if refusal, ok := c.want.(error); ok {
			if !errors.Is(err, refusal) {
				t.Errorf("%s: %v, want %v", c.t.State, err, refusal)
			}
		} else if err != nil || fmt.Sprint(e) != fmt.Sprint(c.want) {
			t.Errorf("%s to %d: %v, %v; want %v", c.t.Route, c.p, e, err, c.want)
		}
	}
	for state, want := range map[task.State]error{task.Pending: nil, task.Held: nil, task.Retrying: nil, task.Running: task.ErrNotWaiting, task.Cancelling: task.ErrNotWaiting, task.Error: task.ErrEnded} {
		if _, err := task.Decide(task.Task{State: state}, task.CancelWaiting{}, noon); !errors.Is(err, want) {
			t.Errorf("cancelling what waits, of a %s task: %v, want %v", state, err, want)
		}
	}
}
