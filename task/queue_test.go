package task

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/limit"
	"millrace/task/value"
	"millrace/task/where"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	four, none, bad := 4, 0, -1
	night, always, noName := "night", "", "a b"
	rate, noRate, keyed := limit.Rate{Limit: 100, Per: value.Duration(time.Minute), Burst: 5}, limit.Rate{}, limit.Rate{Limit: 1, Key: "a"}
	paused := Queue{Name: "q", Head: 1, Paused: &Pause{Since: noon, By: "ann", Reason: "closed"}}
	brief := Queue{Name: "q", Head: 1, Paused: &Pause{Since: noon, Until: noon.Add(time.Hour)}}
	for _, c := range []struct {
		name string
		q    Queue
		c    QueueCommand
		at   time.Time
		want QueueEvent
	}{
		{"pause", Queue{}, PauseQueue{Reason: "closed"}, noon, QueuePaused{Reason: "closed"}},
		{"pause for a while", Queue{}, PauseQueue{For: time.Hour}, noon, QueuePaused{Until: noon.Add(time.Hour)}},
		{"pause again", paused, PauseQueue{Reason: "closed"}, noon, nil},
		{"pause for another reason", paused, PauseQueue{Reason: "fire"}, noon, QueuePaused{Reason: "fire"}},
		{"pause what was paused for a while", brief, PauseQueue{}, noon.Add(time.Hour), QueuePaused{}},
		{"resume", paused, ResumeQueue{Reason: "open"}, noon, QueueResumed{Reason: "open"}},
		{"resume what is not paused", Queue{}, ResumeQueue{}, noon, nil},
		{"resume what has resumed by itself", brief, ResumeQueue{}, noon.Add(time.Hour), nil},
		{"limit", Queue{MaxWaiting: 9}, LimitQueue{Running: &four}, noon, QueueLimited{Running: 4, Waiting: 9}},
		{"bound", Queue{Limit: 2}, LimitQueue{Waiting: &four}, noon, QueueLimited{Running: 2, Waiting: 4}},
		{"no limit", Queue{Limit: 4, MaxWaiting: 1}, LimitQueue{Running: &none, Waiting: &none}, noon, QueueLimited{}},
		{"the same limit", Queue{Limit: 4}, LimitQueue{Running: &four}, noon, nil},
		{"rate", Queue{Limit: 4, MaxWaiting: 1}, LimitQueue{Rate: &rate}, noon, QueueLimited{Running: 4, Waiting: 1, Rate: rate}},
		{"a limit beside a rate", Queue{Rate: rate}, LimitQueue{Running: &four}, noon, QueueLimited{Running: 4, Rate: rate}},
		{"no rate", Queue{Limit: 4, Rate: rate}, LimitQueue{Rate: &noRate}, noon, QueueLimited{Running: 4}},
		{"the same rate", Queue{Rate: rate}, LimitQueue{Rate: &rate}, noon, nil},
		{"window", Queue{Limit: 4, Rate: rate}, LimitQueue{Window: &night}, noon, QueueLimited{Running: 4, Rate: rate, Window: "night"}},
		{"a limit beside a window", Queue{Window: "night"}, LimitQueue{Running: &four}, noon, QueueLimited{Running: 4, Window: "night"}},
		{"no window", Queue{Limit: 4, Window: "night"}, LimitQueue{Window: &always}, noon, QueueLimited{Running: 4}},
		{"the same window", Queue{Window: "night"}, LimitQueue{Window: &night}, noon, nil},
	} {
		got, err := DecideQueue(c.q, c.c, c.at)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	for _, c := range []QueueCommand{PauseQueue{For: -1}, LimitQueue{Running: &bad}, LimitQueue{Rate: &keyed}, LimitQueue{Rate: &limit.Rate{Limit: -1}}, LimitQueue{Rate: &limit.Rate{Burst: 3}}, LimitQueue{Window: &noName}} {
		if _, err := DecideQueue(Queue{}, c, noon); err == nil {
			t.Errorf("%+v is not refused", c)
		}
	}
	q := Queue{Name: "q"}
	for i, e := range []QueueEvent{QueuePaused{Reason: "closed"}, QueueLimited{Running: 4}, QueueLimited{Running: -3, Waiting: 7}, QueuePurged{Ended: 3}, nil} {
		q = EvolveQueue(q, uint64(i+1), noon, "ann", e)
	}
	if q.Head != 5 || q.Limit != 0 || q.MaxWaiting != 7 || !reflect.DeepEqual(q.Paused, paused.Paused) {
		t.Errorf("the facts add up to %+v", q)
	}
	if q = EvolveQueue(q, 5, noon, "bob", QueueResumed{}); q.Paused == nil {
		t.Error("a fact counted twice")
	}
	for i, window := range []string{"night", "a b", "night", ""} {
		q = EvolveQueue(q, uint64(i+6), noon, "ann", QueueLimited{Window: window})
		if want := []string{"night", "", "night", ""}[i]; q.Window != want {
			t.Errorf("after the window %q it has %q, want %q", window, q.Window, want)
		}
	}
}

// A task in a paused queue waits for an operator, and ends only by its own timeout.
func TestDutyInAPausedQueue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	waits := Task{ID: "T", State: Pending, Offered: true, Since: noon, Work: Work{Route: "crawl.5"}}
	byHand := Surroundings{Serving: 1, Paused: &Pause{Until: noon.Add(time.Hour), Consumer: "LOG queue_q"}}
	if d := Owes(waits, byHand, Settings{StartDeadline: time.Minute}); d.Who != "operator" || d.Command != nil || !strings.Contains(d.What, "`nats consumer resume LOG queue_q`") || !strings.Contains(d.What, clock(noon.Add(time.Hour))) {
		t.Errorf("paused on the server alone: %+v", d)
	}
	around := Surroundings{Paused: &Pause{Since: noon, By: "ann", Reason: "closed"}, Unserved: noon}
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

// A task in a queue that is closed waits for its opening, if a node would take it then, and ends only by its own timeout.
func TestDutyInAClosedQueue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	waits := Task{ID: "T", State: Pending, Offered: true, Since: noon, Work: Work{Route: "crawl.5"}}
	selected := waits
	gpu := where.Asked{Queue: "crawl", Needs: where.Selector{{Key: "gpu", Op: where.OpIn, Values: []string{"a100"}}}}
	selected.Work = Work{Spec: &Spec{Place: Place{Queue: "crawl"}}, Asked: &gpu, Route: gpu.Route(5)}
	own := waits
	own.Route = "@n1.5"
	late := waits
	late.StartBy = noon.Add(time.Hour)
	rules := Settings{StartDeadline: time.Minute}
	for name, c := range map[string]struct {
		t       Task
		serving int
		paused  *Pause
		words   string
		by      time.Time
	}{
		"it is served":          {t: waits, serving: 2, words: `one of the 2 online nodes that serve queue "crawl" claims it when that opens: outside of the window night`},
		"it asks for labels":    {t: selected, serving: 1, words: `the one online node that serves queue "crawl" claims it when that opens: outside`},
		"with a timeout":        {t: late, serving: 1, words: "claims it when that opens: outside", by: late.StartBy},
		"it is paused, too":     {t: waits, serving: 1, paused: &Pause{Since: noon}, words: "resume queue"},
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
	spec := &Spec{Handler: "noop"}
	job := &Job{Name: "j", Queue: "crawl", Priority: 7, Fair: "tenant", Spec: *spec, Labels: map[string]string{"tenant": "acme"}}
	for _, c := range []struct {
		s     Submission
		job   *Job
		route where.Route
		key   string
	}{
		{Submission{Spec: spec}, nil, "default.5", ""},
		{Submission{Spec: spec, Priority: 10, FairKey: "x"}, nil, "default.10", "x"},
		{Submission{}, job, "crawl.7", "acme"},
		{Submission{Priority: 2, Labels: map[string]string{"tenant": "b"}}, job, "crawl.2", "b"},
		{Submission{FairKey: "mine", Nodes: []string{"n1"}}, job, "@n1.7", "mine"},
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
