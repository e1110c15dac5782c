package verify_test

import (
	"fmt"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

// record is a log that a test writes by the functions that decide. Each step takes a second.
type record struct {
	*testing.T
	log []events.Record
	now time.Time
}

func newRecord(t *testing.T) *record {
	return &record{T: t, now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}
}

func (r *record) add(kind events.Kind, f events.Fact) {
	r.now = r.now.Add(time.Second)
	f.At, f.Type, f.ID = r.now, events.TypeOf(f.Event), events.NewID(r.now)
	r.log = append(r.log, events.Record{Seq: uint64(len(r.log) + 1), Stored: r.now, Kind: kind, Fact: f})
}

// on writes a fact about a task, as a scheduler does.
func (r *record) on(k *task.Task, kind events.Kind, by *task.By, e task.Event) {
	r.add(kind, events.Fact{Task: k.ID, Actor: "scheduler", By: by, Event: e})
	k.Apply(r.log[len(r.log)-1].Task())
}

// does writes what follows from a command.
func (r *record) does(k *task.Task, c task.Command) {
	r.Helper()
	e, err := k.Decide(c, r.now.Add(time.Second))
	if err != nil {
		r.Fatal(err)
	}
	r.on(k, events.KindChain, k.DecidedBy(c, e), e)
}

// owes writes what follows from a duty that has been overdue for an hour.
func (r *record) owes(k *task.Task) {
	r.Helper()
	r.now = r.now.Add(time.Hour)
	s := duties.Settings{Slack: time.Second}
	w := node.NewFleet(nil, uint64(len(r.log)), r.now)
	around := w.Around(k)
	r.does(k, task.Judged{Command: duties.Owes(*k, around, s).Command, By: w.By(k, around, s)})
}

// Kinds of decisions that histories of other packages seldom have, or never, are made again, and found when they are changed.
func TestSeldomDecisionsAreFoundWhenChanged(t *testing.T) {
	t.Parallel()
	spec := func(s job.Spec) task.Submitted {
		s.Handler = "x"
		return task.Submitted{Work: task.Work{Spec: &s, Route: "default.5"}}
	}
	for name, c := range map[string]struct {
		play func(r *record, k *task.Task)
		want map[string]int // of each field, how often it was changed
	}{
		"the children of a parent on chosen nodes": {func(r *record, k *task.Task) {
			nodes := make([]node.Node, 3)
			for i := range nodes {
				id := node.ID(fmt.Sprint("n", i))
				for _, e := range []node.Event{
					node.Registered{Session: "s", Profile: node.Profile{Queues: []string{"default"}, Labels: map[string]string{"disk": "ssd"}}},
					node.WentOnline{Session: "s", Connection: 1}, node.BecameReady{Session: "s", Connection: 1},
				} {
					r.add(events.KindNode, events.Fact{Node: id, Event: e})
					nodes[i] = node.Evolve(nodes[i], r.log[len(r.log)-1].Node())
				}
				nodes[i].ID = id
			}
			r.on(k, events.KindHold, nil, spec(job.Spec{Place: job.Place{Each: true, Count: 2, Labels: placement.Selector{{Key: "disk", Op: placement.OpExists}}}}))
			r.does(k, node.Expand(k, nodes, uint64(len(r.log))))
		}, map[string]int{"task.expanded children.names": 1, "task.expanded children.spares": 1}},
		"a signal that did not come, without which a task goes on": {func(r *record, k *task.Task) {
			e := spec(job.Spec{Signal: &job.Signal{Name: "go", Timeout: value.Duration(time.Minute), OnTimeout: job.SignalGoOn}})
			e.Holds = []string{task.HoldSignal}
			r.on(k, events.KindChain, nil, e)
			r.owes(k)
		}, map[string]int{"task.unheld hold": 1, "task.unheld reason": 1, "task.unheld by": 1}},
		"an offer has overtaken what follows from a duty": {func(r *record, k *task.Task) {
			e := spec(job.Spec{Concurrency: limit.Concurrencies{{Max: 1}}, Timeout: job.Timeout{Total: value.Duration(time.Minute)}})
			e.Holds, e.EndBy = []string{task.HoldLimit}, r.now.Add(time.Minute)
			r.on(k, events.KindHold, nil, e)
			before := *k
			r.on(k, events.KindOffer, nil, task.AdmittedOffer(*k, 0))
			r.owes(&before)
		}, map[string]int{"task.abnormal reason": 1, "task.abnormal detail": 1, "task.abnormal by": 1, "task.abnormal by.rule": 1}},
		"an attempt that its own node counts as lost once too often": {func(r *record, k *task.Task) {
			r.on(k, events.KindOffer, nil, spec(job.Spec{}))
			for k.State == task.Pending {
				if again, owed := task.NextOffer(k); owed {
					r.on(k, events.KindOffer, nil, again)
				}
				r.does(k, task.Claim{Node: "n1", Session: "s", Offer: k.Seq, After: k.Turn})
				r.does(k, task.Lose{Epoch: k.Epoch, Reason: "its process is gone"})
			}
		}, map[string]int{"attempt.lost by.rule": 5, "task.abnormal reason": 1, "task.abnormal detail": 1, "task.abnormal by": 1, "task.abnormal by.rule": 1}},
		"a birth outside of its window": {func(r *record, k *task.Task) {
			r.add(events.KindDefinition, events.Fact{Def: "calendar.night", Event: task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: []byte(`{"name":"night","rules":[{"closed":"10:00-18:00"}]}`)}}})
			e := spec(job.Spec{Window: "night"})
			e.Due = time.Date(2026, 3, 2, 18, 0, 0, 0, time.UTC)
			e.Window = &task.Shut{Calendar: 1, From: r.now, Detail: "outside of the window night, opens at 2026-03-02 18:00:00 +00:00"}
			r.on(k, events.KindHold, nil, e)
		}, map[string]int{"task.submitted due": 1, "task.submitted window.detail": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecord(t)
			c.play(r, &task.Task{ID: task.ID(events.NewID(r.now))})
			for _, f := range allJudged(t, r.log).Findings {
				t.Errorf("%v: %s", f.Seqs, f.What)
			}
			changed := map[string]int{}
			logtest.Alter(t, r.log, 9, changed, verify.Doubted)
			for field, n := range c.want {
				if changed[field] != n {
					t.Errorf("%s was changed %d times, want %d: %v", field, changed[field], n, changed)
				}
			}
		})
	}
}

// Whoever writes into the log itself may open an approval under any name, or with any answer. It is found.
func TestForgedApprovals(t *testing.T) {
	for _, c := range []struct {
		actor string
		e     task.Event
		found bool
	}{
		{"ann", task.Unheld{Hold: task.HoldSignal, Inputs: []byte(`{"go":{"by":"ann","data":{"n":1}}}`)}, false},
		{"ann", task.Unheld{Hold: task.HoldSignal, Inputs: []byte(`{"go":{"by":"ann","data":{"n":"x"}}}`)}, true},
		{"bob", task.Unheld{Hold: task.HoldSignal, Inputs: []byte(`{"go":{"by":"ann","data":{"n":1}}}`)}, true},
		{"bob", task.Unheld{Hold: task.HoldSignal}, true},
		{"ann", task.GivenUp{Reason: value.Rejected, Detail: "rejected by ann"}, false},
		{"bob", task.GivenUp{Reason: value.Rejected, Detail: "rejected by bob"}, true},
	} {
		r := newRecord(t)
		form := []param.Param{{Name: "n", Type: param.Integer}}
		id := task.ID(events.NewID(r.now))
		r.add(events.KindChain, events.Fact{Task: id, Actor: "cli", Event: task.Submitted{Work: task.Work{
			Spec: &job.Spec{Handler: "h", Signal: &job.Signal{Name: "go", Who: []string{"ann"}, Form: form}}, Route: "default.5", Holds: []string{task.HoldSignal}}}})
		r.add(events.KindChain, events.Fact{Task: id, Actor: c.actor, Event: c.e})
		if found := allJudged(t, r.log).Findings; len(found) > 0 != c.found {
			t.Errorf("%s by %s: found is %v", r.log[1].Fact.Type, c.actor, found)
		}
	}
}
