package verify_test

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
)

// The decision of a node without a place is repeated from the attempts that it names.
func TestCrowdsAreDecidedAgain(t *testing.T) {
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	work := task.Work{Spec: &job.Spec{Handler: "x", PerNode: limit.PerNodes{{Max: 1, Key: "/k"}}}, Route: "default.5"}
	other := task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}
	for name, c := range map[string]struct {
		crowd duties.Crowd
		wrong string
		due   time.Duration
	}{
		"as it was":                        {crowd: duties.Crowd{Node: "n1", Epochs: []uint64{2}}},
		"another time":                     {crowd: duties.Crowd{Node: "n1", Epochs: []uint64{2}}, due: time.Minute, wrong: "due"},
		"after the last one":               {crowd: duties.Crowd{Node: "n1", Epochs: []uint64{2}, Last: start.Add(3 * time.Second)}},
		"another node":                     {crowd: duties.Crowd{Node: "n2", Epochs: []uint64{2}}, wrong: "node n2 had not begun that under key:/k"},
		"nothing runs":                     {crowd: duties.Crowd{Node: "n1"}, wrong: "has a place, since per_node is 1"},
		"an attempt that stands elsewhere": {crowd: duties.Crowd{Node: "n1", Epochs: []uint64{4}}, wrong: "the attempt at 4"},
		"one that is named twice":          {crowd: duties.Crowd{Node: "n1", Epochs: []uint64{2, 2}}, wrong: "named twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log []events.Record
			add := func(kind events.Kind, id task.ID, by *task.By, e any) {
				f := events.Fact{ID: events.NewID(start), At: start, Task: id, By: by, Event: e, Type: events.TypeOf(e)}
				log = append(log, events.Record{Seq: uint64(len(log) + 1), Stored: start, Kind: kind, Fact: f})
			}
			ids := []task.ID{task.ID(events.NewID(start)), task.ID(events.NewID(start)), task.ID(events.NewID(start))}
			add(events.KindOffer, ids[0], nil, task.Submitted{Work: work})
			add(events.KindChain, ids[0], nil, task.AttemptStarted{Attempt: 1, Node: "n1", Session: "s", Offer: 1})
			add(events.KindOffer, ids[1], nil, task.Submitted{Work: other})
			add(events.KindChain, ids[1], nil, task.AttemptStarted{Attempt: 1, Node: "n1", Session: "s", Offer: 3})
			add(events.KindOffer, ids[2], nil, task.Submitted{Work: work})
			c.crowd.Counter = limit.Counter{Name: "key:/k", Max: 1}
			says, by := c.crowd.Postpone(0, start), c.crowd.By(start)
			add(events.KindChain, ids[2], &by, task.Postponed{Reason: says.Reason, Detail: says.Detail, Due: says.Due.Add(c.due)})
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

// The verifier finds more attempts under one counter in a session than a task among them allows,
// once all have ended by their own reports.
func TestCrowdedNodesAreFound(t *testing.T) {
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		nodes []string
		max   int
		wrong bool
	}{
		"one too many":       {[]string{"n1", "n1"}, 1, true},
		"as many as may":     {[]string{"n1", "n1"}, 2, false},
		"one on each of two": {[]string{"n1", "n2"}, 1, false},
	} {
		v := verify.New(verify.Config{Rules: []verify.Rule{verify.Limits}})
		seq := uint64(0)
		add := func(kind events.Kind, id task.ID, e any) uint64 {
			seq++
			f := events.Fact{ID: events.NewID(start), At: start, Task: id, Event: e, Type: events.TypeOf(e)}
			if err := v.Add(&events.Record{Seq: seq, Stored: start, Kind: kind, Fact: f}); err != nil {
				t.Fatal(err)
			}
			return seq
		}
		work := task.Work{Spec: &job.Spec{Handler: "x", PerNode: limit.PerNodes{{Max: c.max}}}, Route: "default.5"}
		var ids []task.ID
		var epochs []uint64
		for _, node := range c.nodes {
			id := task.ID(events.NewID(start))
			offer := add(events.KindOffer, id, task.Submitted{Work: work})
			ids, epochs = append(ids, id), append(epochs, add(events.KindChain, id, task.AttemptStarted{Attempt: 1, Node: node, Session: "s" + node, Offer: offer}))
		}
		for i, id := range ids {
			add(events.KindChain, id, task.AttemptFinished{Attempt: 1, Epoch: epochs[i]})
		}
		found := v.Report(time.Time{}).Findings
		if wrong := len(found) == 1 && strings.Contains(found[0].What, "node n1 ran 2 tasks under way without a job in queue default, and per_node is 1"); wrong != c.wrong || len(found) > 1 {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}
