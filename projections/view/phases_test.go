package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	family "millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// told lists the phases of a task, each with its length in seconds.
func told(phases []Phase) string {
	var all []string
	for _, p := range phases {
		text := p.Name
		if p.Reason != "" {
			text += "/" + p.Reason
		}
		if p.Attempt > 0 {
			text += fmt.Sprintf("#%d@%s", p.Attempt, p.Node)
		}
		all = append(all, fmt.Sprintf("%s %v", text, p.To.Sub(p.From).Seconds()))
	}
	return strings.Join(all, ", ")
}

func TestPhases(t *testing.T) {
	const id task.ID = "01JD6Z8V3M0QK4T7W2X9Y5AB0B"
	second := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	type at struct {
		second int
		kind   events.Kind
		event  task.Event
	}
	work := task.Work{Spec: &job.Spec{Handler: "x"}, Route: "bulk.5"}
	limited := work
	limited.Spec = &job.Spec{Handler: "x", Concurrency: limit.Concurrencies{{Max: 1}}}
	limited.Holds = []string{task.HoldNeeds, task.HoldLimit}
	birth := at{0, events.KindOffer, task.Submitted{Work: work}}
	first := at{2, events.KindChain, task.AttemptStarted{Attempt: 1, Node: "a", Offer: 1}}
	chain := events.KindChain
	for _, c := range []struct {
		name  string
		facts []at
		now   int
		want  string
	}{
		{"nothing is known", nil, 9, ""},
		{"it waits", []at{birth}, 9, "pending 9"},
		{"it runs", []at{birth, first}, 9, "pending 2, run#1@a 7"},
		{"it has ended", []at{birth, first, {5, chain, task.AttemptFinished{Epoch: 2}}}, 9, "pending 2, run#1@a 3"},
		{"its worker has measured", []at{birth, first, {9, chain, task.AttemptFinished{Epoch: 2, Usage: &task.Usage{Setup: value.Duration(time.Second), Run: value.Duration(4 * time.Second), Stop: value.Duration(time.Second)}}}}, 9,
			"pending 2, setup#1@a 1, run#1@a 4, stop#1@a 2"},
		{"more was measured than the log has room for", []at{birth, first, {3, chain, task.AttemptFinished{Epoch: 2, Usage: &task.Usage{Setup: value.Duration(time.Minute), Run: value.Duration(time.Minute)}}}}, 9,
			"pending 2, setup#1@a 1, run#1@a 0"},
		{"it is asked to stop", []at{birth, first, {4, chain, task.CancelRequested{Reason: "enough"}}}, 9, "pending 2, run#1@a 2, stop#1@a 5"},
		{"it had begun to stop before it was asked", []at{birth, first, {6, chain, task.CancelRequested{}}, {8, chain, task.CancelConfirmed{Epoch: 2, Usage: &task.Usage{Run: value.Duration(3 * time.Second), Stop: value.Duration(3 * time.Second)}}}}, 9,
			"pending 2, run#1@a 3, stop#1@a 3"},
		{"due later, and its timer was late", []at{{0, events.KindHold, task.Submitted{Work: work, Due: second(4)}}, {6, events.KindOffer, task.Due{Route: "bulk.5", Due: second(4)}}}, 9, "scheduled 4, pending 5"},
		{"postponed by its window", []at{birth, {1, chain, task.Postponed{Reason: value.Window, Due: second(5)}}, {5, events.KindOffer, task.Due{After: 2, Route: "bulk.5", Due: second(5)}}}, 9,
			"pending 1, scheduled/window 4, pending 4"},
		{"held by one thing after another", []at{{0, events.KindHold, task.Submitted{Work: limited}}, {3, chain, task.Unheld{Hold: task.HoldNeeds}}, {7, events.KindOffer, task.Queued{Work: limited, Attempt: 1, After: 2}}}, 9,
			"held/needs 3, held/limit 4, pending 2"},
		{"a failure, a pause, another attempt", []at{birth, first, {4, chain, task.AttemptFailed{Epoch: 2, Class: value.Exit, Retry: &task.RetryPlan{Attempt: 2, Due: second(6)}}},
			{4, events.KindOffer, task.Queued{Work: work, Attempt: 2, After: 3, Due: second(6)}}, {7, chain, task.AttemptStarted{Attempt: 2, Node: "b", Offer: 4}}}, 9,
			"pending 2, run#1@a 2, retrying/exit 2, pending 1, run#2@b 2"},
		{"a takeover", []at{birth, first, {5, chain, task.AttemptStarted{Attempt: 2, Node: "b", Offer: 1, TookOver: &task.TookOver{Epoch: 2}}}}, 9, "pending 2, run#1@a 3, run#2@b 4"},
		{"lost, and moved, and still waiting", []at{birth, first, {4, chain, task.AttemptLost{Epoch: 2, Reason: "gone"}}, {5, chain, task.Reassigned{From: "bulk.5", To: "other.5"}}}, 9, "pending 2, run#1@a 2, pending 5"},
		{"another life", []at{birth, first, {3, chain, task.AttemptFailed{Epoch: 2, Class: value.Exit}}, {6, chain, task.Reopened{}}}, 9, "pending 2, run#1@a 1, error/exit 3, pending 3"},
		{"a clock that was behind", []at{{5, events.KindOffer, task.Submitted{Work: work}}, first, {7, chain, task.AttemptFinished{Epoch: 2}}}, 9, "run#1@a 2"},
		{"an end before the birth", []at{{5, events.KindOffer, task.Submitted{Work: work}}, first, {1, chain, task.AttemptFinished{Epoch: 2}}}, 9, "run#1@a 0"},
		{"what does not count", []at{birth, first, {4, chain, task.AttemptFinished{Epoch: 1}}, {5, chain, task.AttemptLate{Epoch: 1}}}, 9, "pending 2, run#1@a 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var records []events.Record
			for i, f := range c.facts {
				stored := second(f.second)
				if q, ok := f.event.(task.Queued); ok && q.Due.After(stored) {
					stored = q.Due // by the timer of an earlier version
				}
				records = append(records, events.Record{Seq: uint64(i + 1), Stored: stored, Kind: f.kind, Fact: events.Fact{Task: id, At: second(f.second), Type: events.TypeOf(f.event), Event: f.event}})
			}
			if is := told(Phases(records, second(c.now))); is != c.want {
				t.Errorf("%s\nwant %s", is, c.want)
			}
		})
	}
}

// A parent runs without an attempt, and its steps have their own phases.
func TestPhasesOfParents(t *testing.T) {
	s := &story{t: t}
	parent, _ := kin(s)
	is := Phases(s.about(Task(parent)), s.now())
	if told(is) != "run 4" || is[0].Seq != 1 {
		t.Errorf("%+v", is)
	}
	if is := Phases(s.about(Task(family.ChildID(parent, "fetch"))), s.now()); told(is) != "pending 1, run#1@n1 1" {
		t.Errorf("%s", told(is))
	}
	if slices.ContainsFunc(is, func(p Phase) bool { return p.Attempt > 0 }) {
		t.Errorf("%+v", is)
	}
}
