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
	"millrace/task/value"
)

// A takeover needs evidence in the log: a lease has passed since the claim, or the session has
// ended.
func TestFoundedTakeovers(t *testing.T) {
	const lease = 6 * time.Second
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	id := task.ID("01JNAT00000000000000000009")
	record := func(s float64, e any) events.Record {
		r := events.Record{Kind: events.KindChain, Stored: at(s), Fact: events.Fact{Type: events.TypeOf(e), At: at(s), Event: e}}
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
	offline := func(s float64) events.Record { return record(s, node.WentOffline{Session: "s1", Lost: true}) }
	online := func(s float64) events.Record { return record(s, node.WentOnline{Session: "s1", Connection: 2}) }
	next := func(s float64, session string) events.Record {
		return record(s, node.Registered{Session: session, Profile: node.Profile{Slots: 1, Queues: []string{"default"}, TTL: value.Duration(lease)}})
	}
	adopted := func(s float64) events.Record {
		return record(s, task.AttemptAdopted{Attempt: 1, Epoch: 4, Node: "n", Session: "s1", PID: 7})
	}
	for _, c := range []struct {
		name   string
		before []events.Record
		stored float64
		ground string
		heard  float64
		judged float64
		found  string
		read   uint64 // the node's fact up to which it was known; 0 if not named
	}{
		{"a lease after the claim", nil, 6, task.GroundClaim, 0, 6, "", 0},
		{"its node has fallen silent long since", nil, 50, task.GroundSilence, 30, 50, "", 0},
		{"a heartbeat ran out", nil, 50, task.GroundBeat, 44, 50, "", 0},
		{"its session is over", []events.Record{offline(2)}, 2.5, task.GroundSession, 2, 2.4, "", 0},
		{"its session was over when that was read", []events.Record{offline(2), online(10)}, 10.1, task.GroundSession, 2, 9.9, "", 0},
		{"its session was over when that was read, and has a successor since", []events.Record{offline(2), next(14, "s2")}, 14.5, task.GroundSession, 2, 13.9, "", 5},
		{"its session has had several successors", []events.Record{next(2, "s2"), next(7, "s3"), next(7.1, "s4")}, 7.2, task.GroundSession, 5, 7.2, "", 0},
		{"of an earlier version", nil, 1.5, "", 0, 0, "", 0},
		{"of an earlier version, and its session is over", []events.Record{offline(0.2)}, 0.3, "", 0, 0, "", 0},

		{"at once", nil, 0.3, "", 0, 0, "less than a lease", 0},
		{"too soon after the claim", nil, 5, task.GroundClaim, 0, 6, "less than a lease", 0},
		{"too soon after its adoption", []events.Record{adopted(20)}, 25, task.GroundClaim, 0, 25, "less than a lease", 0},
		{"by the end of a session that was not over", nil, 50, task.GroundSession, 2, 50, "because its session was over", 0},
		{"by the end of a session that has been back for long", []events.Record{offline(2), online(10)}, 13, task.GroundSession, 2, 13, "because its session was over", 0},
		{"by the end of a session that has just got a successor", []events.Record{offline(2), next(14, "s2")}, 14.5, task.GroundSession, 2, 14.4, "because its session was over", 6},
		{"by a fresh heartbeat", nil, 50, task.GroundBeat, 46, 50, "not too old", 0},
		{"by a heartbeat of before the claim", nil, 50, task.GroundBeat, -7, 50, "before its claim", 0},
		{"by what was found out later", nil, 50, task.GroundClaim, 0, 51, "later", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var by *task.By
			took := &task.TookOver{Epoch: 4, Reason: "test", Ground: c.ground}
			if c.ground != "" {
				took.Heard, by = at(c.heard), &task.By{Lease: &task.LeaseBy{Node: c.read, At: at(c.judged), Lasts: value.Duration(lease)}}
			}
			records := []events.Record{
				record(-10, node.Registered{Session: "s1", Profile: node.Profile{Slots: 1, Queues: []string{"default"}, TTL: value.Duration(lease)}}),
				record(-9, node.WentOnline{Session: "s1", Connection: 1}),
				record(-8, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "h"}, Route: "default.5"}}),
				record(0, task.AttemptStarted{Attempt: 1, Node: "n", Session: "s1", Offer: 3}),
			}
			records = append(append(records, c.before...), record(c.stored, task.AttemptStarted{Attempt: 2, Node: "m", Session: "s", Offer: 3, TookOver: took}))
			v := verify.New(verify.Config{Rules: []verify.Rule{verify.OneEpoch}})
			for i := range records {
				r := records[i]
				if i == len(records)-1 {
					r.Fact.By = by
				}
				r.Seq, r.Fact.ID = uint64(i+1), string(rune('a'+i))
				if err := v.Add(&r); err != nil {
					t.Fatal(err)
				}
			}
			found := v.Report(time.Time{}).Findings
			switch {
			case c.found == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.found != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.found)):
				t.Errorf("found %+v, want what says %q", found, c.found)
			}
		})
	}
}
