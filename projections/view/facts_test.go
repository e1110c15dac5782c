package view

import (
	"errors"
	"testing"

	"millrace/events"
	"millrace/task"
	"millrace/task/queue"
)

func TestFactFilter(t *testing.T) {
	t.Parallel()
	const id, other = task.ID("01ARZ3NDEKTSV4RRFFQ69G5FAV"), task.ID("01ARZ3NDEKTSV4RRFFQ69G5FAW")
	started := events.Record{Kind: events.KindChain, Fact: events.Fact{Type: events.AttemptStarted, Task: id, Actor: "worker-a", Event: task.AttemptStarted{Node: "node-1"}}}
	paused := events.Record{Kind: events.KindQueue, Fact: events.Fact{Type: events.QueuePaused, Queue: "crawl", Actor: "ada", Event: queue.Paused{}}}
	probe := events.Record{Kind: events.KindProbe}
	for _, c := range []struct {
		filter                 FactFilter
		started, paused, probe bool
	}{
		{FactFilter{}, true, true, true},
		{FactFilter{Types: []string{"attempt"}}, true, false, false},
		{FactFilter{Types: []string{"attempt.started", "queue.paused"}}, true, true, false},
		{FactFilter{Types: []string{"task"}}, false, false, false},
		{FactFilter{Task: id}, true, false, false},
		{FactFilter{Task: other}, false, false, false},
		{FactFilter{Node: "node-1"}, true, false, false},
		{FactFilter{Node: "ada"}, false, true, false},
		{FactFilter{Queue: "crawl"}, true, true, false},
		{FactFilter{Queue: "other"}, false, false, false},
		{FactFilter{Queue: "crawl", Types: []string{"queue"}}, false, true, false},
	} {
		if err := c.filter.Validate(); err != nil {
			t.Error(err)
		}
		for r, want := range map[*events.Record]bool{&started: c.started, &paused: c.paused, &probe: c.probe} {
			queue := ""
			if r == &started {
				queue = "crawl"
			}
			is := TraitsOf(r, queue)
			if c.filter.Wants(&is) != want {
				t.Errorf("%+v wants %s: %v", c.filter, r.Fact.Type, !want)
			}
		}
	}
	for _, f := range []FactFilter{{Types: []string{"nothing"}}, {Types: []string{""}}, {Task: "a"}, {Node: "a b"}, {Queue: "*"}} {
		if err := f.Validate(); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
