package verify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
)

// A start while the window of its queue was closed is found, unless the worker cannot have known.
func TestStartsInAClosedQueueAreFound(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	type change struct {
		at     time.Duration // before noon
		window string        // of the queue
		closed string        // or of the calendar
	}
	gone := change{at: time.Hour, closed: "none"}
	closed := []change{{at: 3 * time.Hour, closed: "10:00-18:00"}, {at: 2 * time.Hour, window: "night"}}
	for name, c := range map[string]struct {
		changes []change
		route   placement.Route
		start   time.Duration // after noon
		wrong   string
	}{
		"it has no window":                   {changes: closed[:1]},
		"it is closed":                       {changes: closed, wrong: "when queue default was closed: outside of the window night, opens at 2026-03-02 18:00:00"},
		"until it opens":                     {changes: closed, start: 6 * time.Hour},
		"until then, and a timer is early":   {changes: closed, start: 6*time.Hour - time.Second},
		"and not before":                     {changes: closed, start: 6*time.Hour - 2*time.Second, wrong: "was closed"},
		"another queue is closed":            {changes: closed, route: "other.5"},
		"the task is aimed at a node":        {changes: closed, route: "@n.5"},
		"the window is new":                  {changes: []change{closed[0], {at: time.Minute, window: "night"}}},
		"the window was taken":               {changes: append(closed[:2:2], change{at: time.Hour, window: ""})},
		"the window was taken a moment ago":  {changes: append(closed[:2:2], change{at: time.Second, window: ""})},
		"the calendar was open a moment ago": {changes: []change{{at: 3 * time.Hour, closed: "01:00-02:00"}, closed[1], {at: time.Minute, closed: "10:00-18:00"}}},
		"the calendar was open before":       {changes: []change{{at: 3 * time.Hour, closed: "01:00-02:00"}, closed[1], {at: time.Hour, closed: "10:00-18:00"}}, wrong: "was closed"},
		"the calendar is open":               {changes: []change{closed[0], closed[1], {at: time.Hour, closed: "01:00-02:00"}}},
		"the calendar is gone":               {changes: append(closed[:2:2], gone), wrong: "there is no such calendar"},
		"there never was a calendar":         {changes: closed[1:], wrong: "there is no such calendar"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log []events.Record
			add := func(at time.Time, kind events.Kind, f events.Fact) uint64 {
				f.At, f.Type, f.ID = at, events.TypeOf(f.Event), events.NewID(at)
				log = append(log, events.Record{Seq: uint64(len(log) + 1), Stored: at, Kind: kind, Fact: f})
				return log[len(log)-1].Seq
			}
			revision := uint64(0)
			for _, ch := range c.changes {
				at := noon.Add(-ch.at)
				switch ch.closed {
				case "":
					add(at, events.KindQueue, events.Fact{Queue: "default", Event: queue.Limited{Valve: queue.Valve{Window: ch.window}}})
				case "none":
					revision++
					add(at, events.KindDefinition, events.Fact{Def: "calendar.night", Event: task.DefinitionRemoved{Revision: revision}})
				default:
					revision++
					text := fmt.Sprintf(`{"name":"night","rules":[{"closed":%q}]}`, ch.closed)
					add(at, events.KindDefinition, events.Fact{Def: "calendar.night", Event: task.DefinitionApplied{Edition: task.Edition{Revision: revision, Text: []byte(text)}}})
				}
			}
			work := task.Work{Spec: &job.Spec{Handler: "x"}, Route: c.route}
			if c.route == "" {
				work.Route = "default.5"
			}
			id := task.ID(events.NewID(noon))
			offer := add(noon, events.KindOffer, events.Fact{Task: id, Event: task.Submitted{Work: work}})
			add(noon.Add(c.start), events.KindChain, events.Fact{Task: id, Event: task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: offer}})
			found := verify.Decided(log)
			switch {
			case c.wrong == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.wrong != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.wrong)):
				t.Errorf("found %+v, want %q", found, c.wrong)
			}
		})
	}
}
