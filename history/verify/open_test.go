package verify_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
)

// A task that no node takes expires, but not while its queue is paused.
func TestDeadlinesInPausedQueues(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		route placement.Route
		said  []queue.Event // at noon, and then each minute
		wrong bool
		every time.Duration // from one to the next; a minute if 0
	}{
		"never paused":           {"q.5", nil, true, 0},
		"paused":                 {"q.5", []queue.Event{queue.Paused{}}, false, 0},
		"another one is paused":  {"other.5", []queue.Event{queue.Paused{}}, true, 0},
		"aimed at a node":        {"@n.5", []queue.Event{queue.Paused{}}, true, 0},
		"resumed":                {"q.5", []queue.Event{queue.Paused{}, queue.Resumed{}}, true, 0},
		"resumed lately":         {"q.5", []queue.Event{queue.Paused{}, queue.Resumed{}}, false, 57 * time.Minute},
		"the pause is over":      {"q.5", []queue.Event{queue.Paused{Until: noon.Add(time.Minute)}}, true, 0},
		"over lately":            {"q.5", []queue.Event{queue.Paused{Until: noon.Add(57 * time.Minute)}}, false, 0},
		"over since a moment":    {"q.5", []queue.Event{queue.Paused{Until: noon.Add(time.Hour - time.Second)}}, false, 0},
		"paused again":           {"q.5", []queue.Event{queue.Paused{}, queue.Resumed{}, queue.Paused{}}, false, 0},
		"paused, then a bound":   {"q.5", []queue.Event{queue.Paused{}, queue.Limited{Running: 1}}, false, 0},
		"its own limit has come": {"q.5", []queue.Event{queue.Limited{Running: 1}}, true, 0},
	} {
		v := verify.New(verify.Config{Settings: duties.Settings{StartDeadline: 5 * time.Minute}})
		seq := uint64(0)
		add := func(at time.Time, kind events.Kind, f events.Fact) {
			seq++
			f.At, f.Type, f.ID = at, events.TypeOf(f.Event), events.NewID(at)
			if err := v.Add(&events.Record{Seq: seq, Stored: at, Kind: kind, Fact: f}); err != nil {
				t.Fatal(name, err)
			}
		}
		work := task.Work{Spec: &job.Spec{Handler: "x"}, Route: c.route}
		add(noon, events.KindOffer, events.Fact{Task: task.ID(events.NewID(noon)), Event: task.Submitted{Work: work}})
		for i, e := range c.said {
			add(noon.Add(time.Duration(i)*cmp.Or(c.every, time.Minute)), events.KindQueue, events.Fact{Queue: "q", Event: e})
		}
		found := v.Report(noon.Add(time.Hour)).Findings
		if got := len(found) == 1 && found[0].Rule == verify.Deadlines && strings.Contains(found[0].What, "past its deadline"); got != c.wrong || len(found) > 1 {
			t.Errorf("%s: found %+v, want one: %v", name, found, c.wrong)
		}
	}
}

// What was due while all servers were down is not late yet when they have just come.
func TestDutiesAfterAnOutage(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for name, work := range map[string]task.Submitted{
		"its offer":   {Work: task.Work{Route: "q.5"}, Due: noon.Add(time.Minute)},
		"its timeout": {Work: task.Work{Route: "q.5", StartBy: noon.Add(time.Minute)}},
	} {
		for since, wrong := range map[time.Duration]bool{time.Second: false, 10 * time.Minute: true} {
			now := noon.Add(time.Hour)
			v := verify.New(verify.Config{Settings: duties.Settings{Watched: now.Add(-since)}})
			work.Spec = &job.Spec{Handler: "x"}
			f := events.Fact{Task: task.ID(events.NewID(noon)), Event: work, At: noon, ID: events.NewID(noon), Type: events.TypeOf(work)}
			kind := events.KindOffer
			if !work.Due.IsZero() {
				kind = events.KindHold
			}
			if err := v.Add(&events.Record{Seq: 1, Stored: noon, Kind: kind, Fact: f}); err != nil {
				t.Fatal(name, err)
			}
			if found := v.Report(now).Findings; len(found) > 1 || len(found) == 1 != wrong {
				t.Errorf("%s, %v after they came: found %+v, want one: %v", name, since, found, wrong)
			}
		}
	}
}

// Schedulers that have just come count from their start how long a queue has had no node.
func TestDeadlinesAfterAnOutage(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	gpu, err := placement.ParseSelector("gpu=yes")
	if err != nil {
		t.Fatal(err)
	}
	needs := &placement.Asked{Queue: "q", Needs: gpu}
	for name, c := range map[string]struct {
		work    task.Work
		watched time.Time
		wrong   bool
	}{
		"for long":                   {task.Work{Route: "q.5"}, noon.Add(time.Minute), true},
		"a minute ago":               {task.Work{Route: "q.5"}, noon.Add(59 * time.Minute), false},
		"a minute ago, a selector":   {task.Work{Route: needs.Route(5), Asked: needs}, noon.Add(59 * time.Minute), false},
		"for long, a selector":       {task.Work{Route: needs.Route(5), Asked: needs}, noon.Add(time.Minute), true},
		"a minute ago, a node's own": {task.Work{Route: "@n.5"}, noon.Add(59 * time.Minute), true},
		"unknown":                    {task.Work{Route: "q.5"}, time.Time{}, true},
	} {
		v := verify.New(verify.Config{Settings: duties.Settings{StartDeadline: 5 * time.Minute, Watched: c.watched}})
		c.work.Spec = &job.Spec{Handler: "x"}
		f := events.Fact{Task: task.ID(events.NewID(noon)), Event: task.Submitted{Work: c.work}, At: noon, ID: events.NewID(noon)}
		f.Type = events.TypeOf(f.Event)
		if err := v.Add(&events.Record{Seq: 1, Stored: noon, Kind: events.KindOffer, Fact: f}); err != nil {
			t.Fatal(name, err)
		}
		if found := v.Report(noon.Add(time.Hour)).Findings; len(found) > 1 || len(found) == 1 != c.wrong {
			t.Errorf("%s: found %+v, want one: %v", name, found, c.wrong)
		}
		patient := verify.New(verify.Config{})
		if err := patient.Add(&events.Record{Seq: 1, Stored: noon, Kind: events.KindOffer, Fact: f}); err != nil {
			t.Fatal(name, err)
		}
		if found := patient.Report(noon.Add(10000 * time.Hour)).Findings; len(found) > 0 {
			t.Errorf("%s, without a start deadline: found %+v", name, found)
		}
	}
}
