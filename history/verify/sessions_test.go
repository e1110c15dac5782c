package verify_test

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
)

// An attempt is claimed, adopted and reported late by a session of the node that it names, which
// registered before and has not left.
func TestSessionsOfTheirNodes(t *testing.T) {
	id, noon := task.ID("01JNAT00000000000000000009"), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type said struct {
		on    string // the node that it is about; "" for the task
		after time.Duration
		event any
	}
	registered := func(on, session string) said {
		return said{on, time.Second, node.Registered{Session: session, Profile: node.Profile{Slots: 1, Queues: []string{"default"}}}}
	}
	online := func(on, session string) said { return said{on, time.Second, node.WentOnline{Session: session}} }
	offline := func(on, session string, lost bool) said {
		return said{on, time.Second, node.WentOffline{Session: session, Lost: lost}}
	}
	retired := func(on string) said { return said{on, time.Second, node.WasRetired{}} }
	claimed := func(on, session string) said {
		return said{"", time.Minute, task.AttemptStarted{Attempt: 1, Node: on, Session: session, Offer: 1}}
	}
	again := func(seq uint64, on, session string) said {
		return said{"", time.Minute, task.AttemptAdopted{Attempt: 1, Epoch: seq, Node: on, Session: session, PID: 7}}
	}
	for name, c := range map[string]struct {
		log  []said // behind the birth, from 2 on
		from uint64
		lost uint64 // where the log that was lost before ended
		what string // "" for nothing
	}{
		"its own":                        {log: []said{registered("n", "n1"), online("n", "n1"), claimed("n", "n1")}},
		"of another node":                {log: []said{registered("n", "n1"), registered("m", "m1"), claimed("n", "m1")}, what: "on node n in session m1, and no such session"},
		"of a node that never was":       {log: []said{registered("n", "n1"), claimed("x", "n1")}, what: "on node x in session n1, and no such"},
		"of none":                        {log: []said{registered("n", "n1"), claimed("n", "")}, what: "no such session"},
		"before it registers":            {log: []said{registered("n", "n1"), claimed("n", "n2"), registered("n", "n2")}, what: "in session n2, and no such"},
		"before the range":               {log: []said{claimed("n", "n1")}, from: 2},
		"registered in a lost log":       {lost: 100, log: []said{{"", time.Minute, task.AttemptStarted{Attempt: 1, Node: "n", Session: "n1", Offer: 101}}, registered("n", "n2")}},
		"another one came since":         {lost: 100, log: []said{registered("n", "n2"), {"", time.Minute, task.AttemptStarted{Attempt: 1, Node: "n", Session: "n1", Offer: 101}}}},
		"declared silent":                {log: []said{registered("n", "n1"), online("n", "n1"), offline("n", "n1", true), claimed("n", "n1")}},
		"replaced, and suspended before": {log: []said{registered("n", "n1"), registered("n", "n2"), claimed("n", "n1")}},
		"retired, and suspended before":  {log: []said{registered("n", "n1"), retired("n"), claimed("n", "n1")}},
		"left":                           {log: []said{registered("n", "n1"), online("n", "n1"), offline("n", "n1", false), claimed("n", "n1")}, what: "in session n1, which had left at 2026-03-01T12:00:03Z"},
		"left, in a range":               {log: []said{registered("n", "n1"), online("n", "n1"), offline("n", "n1", false), claimed("n", "n1")}, from: 2, what: "had left"},
		"left, and another one came":     {log: []said{registered("n", "n1"), online("n", "n1"), offline("n", "n1", false), registered("n", "n2"), claimed("n", "n1")}, what: "had left"},
		"left, and came back":            {log: []said{registered("n", "n1"), online("n", "n1"), offline("n", "n1", false), online("n", "n1"), claimed("n", "n1")}},
		"sent before it left": {log: []said{registered("n", "n1"), online("n", "n1"), offline("n", "n1", false),
			{"", 0, task.AttemptStarted{Attempt: 1, Node: "n", Session: "n1", Offer: 1}}}},
		"adopted":                           {log: []said{registered("n", "n1"), claimed("n", "n1"), registered("n", "n2"), again(3, "n", "n2")}},
		"adopted by none":                   {log: []said{registered("n", "n1"), claimed("n", "n1"), again(3, "n", "n2")}, what: "attempt.adopted on node n in session n2, and no such"},
		"adopted on another node":           {log: []said{registered("n", "n1"), registered("m", "m1"), claimed("n", "n1"), again(4, "m", "m1")}, what: "epoch 4 is adopted on node m, and node n runs it"},
		"a late word":                       {log: []said{registered("n", "n1"), claimed("n", "n1"), {"", time.Hour, task.AttemptLost{Attempt: 1, Epoch: 3}}, {"", 0, task.AttemptLate{Epoch: 3, Node: "n"}}}},
		"a late word of another node":       {log: []said{registered("n", "n1"), claimed("n", "n1"), {"", time.Hour, task.AttemptLost{Attempt: 1, Epoch: 3}}, {"", 0, task.AttemptLate{Epoch: 3, Node: "m"}}}, what: "a late word of epoch 3 from node m, and node n ran it"},
		"the same, after the end of a task": {log: []said{registered("n", "n1"), claimed("n", "n1"), {"", time.Hour, task.GivenUp{Reason: "lost"}}, {"", 0, task.AttemptLate{Epoch: 3, Node: "m"}}}, what: "from node m, and node n ran it"},
	} {
		t.Run(name, func(t *testing.T) {
			v := verify.New(verify.Config{From: c.from, Rules: []verify.Rule{verify.CauseFirst, verify.OneEpoch}})
			at := noon
			birth := said{"", 0, task.Submitted{Work: task.Work{Spec: &job.Spec{Run: &job.Run{Shell: "x"}, OnRestart: job.RestartAdopt}, Route: "default.5"}}}
			for i, s := range append([]said{birth}, c.log...) {
				at = at.Add(s.after)
				f := events.Fact{ID: string(rune('a' + i)), At: at, Type: events.TypeOf(s.event), Event: s.event, Task: id}
				kind := events.KindChain
				switch {
				case i == 0:
					kind = events.KindOffer
				case s.on != "":
					kind, f.Task, f.Node = events.KindNode, "", node.ID(s.on)
				}
				if seq := c.lost + uint64(i+1); seq >= c.from {
					if err := v.Add(&events.Record{Seq: seq, Stored: at.Add(time.Duration(i) * time.Hour), Kind: kind, Fact: f}); err != nil {
						t.Fatal(err)
					}
				}
			}
			found := v.Report(time.Time{}).Findings
			switch {
			case c.what == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.what != "" && (len(found) != 1 || found[0].Rule != verify.CauseFirst || !strings.Contains(found[0].What, c.what)):
				t.Errorf("found %+v, want %s", found, c.what)
			}
		})
	}
}

// A node registers before anything else is said of it, and each session before it says anything.
func TestNodesRegisterFirst(t *testing.T) {
	registered, ready := node.Registered{Session: "n1"}, node.BecameReady{Session: "n1"}
	online, retired := node.WentOnline{Session: "n1"}, node.WasRetired{}
	offline := node.WentOffline{Session: "n1"}
	for name, c := range map[string]struct {
		log  []node.Event
		from uint64
		lost uint64 // where the log that was lost before ended
		what string // "" for nothing
	}{
		"a life":                         {log: []node.Event{registered, online, ready, offline, retired}},
		"two lives":                      {log: []node.Event{registered, online, offline, retired, node.Registered{Session: "n2"}, node.WentOnline{Session: "n2"}}},
		"orders while it is away":        {log: []node.Event{registered, online, offline, node.Changed{Order: node.OrderCordon}, node.Labelled{}}},
		"ready, and never registered":    {log: []node.Event{ready}, what: "node.ready of node n in session n1, and no worker has registered as that node before"},
		"an order to none":               {log: []node.Event{node.Changed{Order: node.OrderCordon}}, what: "node.changed of node n, and no worker has registered"},
		"online after it was retired":    {log: []node.Event{registered, retired, online}, what: "in session n1, and it was retired before"},
		"ready in an earlier session":    {log: []node.Event{registered, node.Registered{Session: "n2"}, ready}, what: "in session n1, and its session is n2"},
		"offline in a session of nobody": {log: []node.Event{registered, online, node.WentOffline{Session: "x", Lost: true}}, what: "in session x, and its session is n1"},
		"before the range":               {log: []node.Event{ready}, from: 2},
		"registered in a lost log":       {log: []node.Event{ready}, lost: 100},
	} {
		t.Run(name, func(t *testing.T) {
			v := verify.New(verify.Config{From: c.from, Rules: []verify.Rule{verify.CauseFirst}})
			at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			for i, e := range c.log {
				at = at.Add(time.Second)
				f := events.Fact{ID: string(rune('a' + i)), At: at, Type: events.TypeOf(e), Event: e, Node: "n"}
				if err := v.Add(&events.Record{Seq: c.lost + c.from + uint64(i) + 1, Stored: at, Kind: events.KindNode, Fact: f}); err != nil {
					t.Fatal(err)
				}
			}
			found := v.Report(time.Time{}).Findings
			if c.what == "" && len(found) > 0 || c.what != "" && (len(found) != 1 || found[0].Node != "n" || !strings.Contains(found[0].What, c.what)) {
				t.Errorf("found %+v, want %q", found, c.what)
			}
		})
	}
}
