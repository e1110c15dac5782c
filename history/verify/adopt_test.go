package verify_test

import (
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
)

// An adopted attempt belongs to the new session, and must be the running one.
func TestAdopted(t *testing.T) {
	id := task.ID("01JNAT00000000000000000009")
	work := task.Work{Spec: &job.Spec{Run: &job.Run{Shell: "x"}, OnRestart: job.RestartAdopt}, Route: "default.5"}
	fact := func(e any) events.Record {
		r := events.Record{Kind: events.KindChain, Fact: events.Fact{Type: events.TypeOf(e), Event: e}}
		switch e.(type) {
		case task.Submitted:
			r.Kind, r.Fact.Task = events.KindOffer, id
		case task.Event:
			r.Fact.Task = id
		default:
			r.Kind, r.Fact.Node = events.KindNode, "n"
		}
		return r
	}
	session := func(name string) events.Record {
		return fact(node.Registered{Session: name, Profile: node.Profile{Slots: 1, Queues: []string{"default"}}})
	}
	started := fact(task.AttemptStarted{Attempt: 1, Node: "n", Session: "s1", Offer: 2})
	adopted := func(epoch uint64, attempt int) events.Record {
		return fact(task.AttemptAdopted{Attempt: attempt, Epoch: epoch, Node: "n", Session: "s2", PID: 7})
	}
	begun := []events.Record{session("s1"), fact(task.Submitted{Work: work}), started, session("s2")} // epoch 3
	for name, c := range map[string]struct {
		then []events.Record
		want verify.Rule
	}{
		"goes on":               {[]events.Record{adopted(3, 1), fact(task.AttemptFinished{Attempt: 1, Epoch: 3})}, 0},
		"an epoch that was not": {[]events.Record{adopted(2, 1), fact(task.AttemptFinished{Attempt: 1, Epoch: 3})}, verify.CauseFirst},
		"another number":        {[]events.Record{adopted(3, 2), fact(task.AttemptFinished{Attempt: 1, Epoch: 3})}, verify.CauseFirst},
		"it had ended":          {[]events.Record{fact(task.AttemptFinished{Attempt: 1, Epoch: 3}), adopted(3, 1)}, verify.OneEnd},
		"it was lost":           {[]events.Record{fact(task.AttemptLost{Attempt: 1, Epoch: 3}), adopted(3, 1)}, verify.OneEpoch},
	} {
		v := verify.New(verify.Config{Rules: chains})
		for i, r := range append(begun[:len(begun):len(begun)], c.then...) {
			r.Seq = uint64(i + 1)
			r.Fact.ID = string(rune('a' + i))
			if err := v.Add(&r); err != nil {
				t.Fatal(err)
			}
		}
		r := v.Report(time.Time{})
		got := verify.Rule(0)
		if len(r.Findings) > 0 {
			got = r.Findings[0].Rule
		}
		if got != c.want {
			t.Errorf("%s: found %+v, want %v", name, r.Findings, c.want)
		}
	}
}

// chains are all rules except decisions, for histories without decisions.
var chains = slices.DeleteFunc(verify.Rules(), func(r verify.Rule) bool { return r == verify.Decisions })
