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
	"millrace/task/placement"
	"millrace/task/value"
)

// carry writes a task anew; change may alter what is written.
func (r *record) carry(k *task.Task, change func(*task.Carried)) {
	c := task.Carried{Fold: *k, Born: task.Beginning{Seq: 2, Route: k.Route}}
	if change != nil {
		change(&c)
	}
	r.add(events.KindCarried, events.Fact{Task: k.ID, Event: c})
	k.Apply(r.log[len(r.log)-1].Task())
	r.add(events.KindChain, events.Fact{Task: k.ID, Event: task.Kept{Head: c.Fold.Head}})
	k.Apply(r.log[len(r.log)-1].Task())
}

// horizon writes the steps of a horizon, between which carry is called.
func (r *record) horizon(below uint64, carry func()) {
	span := task.Span{Below: below, Before: r.log[below-1].Stored}
	r.add(events.KindHorizon, events.Fact{Event: task.HorizonChosen{Span: span}})
	carry()
	r.add(events.KindHorizon, events.Fact{Event: task.HorizonCarried{Span: span}})
	r.add(events.KindHorizon, events.Fact{Event: task.HorizonPurged{Span: span}})
}

// found verifies the log from a sequence on, with the rows of its fold, and returns the findings.
func (r *record) found(from uint64) (of []string, rep *verify.Report) {
	r.Helper()
	v, folded := verify.New(verify.Config{From: from}), map[task.ID]*task.Task{}
	for i := range r.log {
		is := &r.log[i]
		if is.Seq < from {
			continue
		}
		if err := v.Add(is); err != nil {
			r.Fatal(err)
		}
		if is.Fact.Task != "" {
			if folded[is.Fact.Task] == nil {
				folded[is.Fact.Task] = &task.Task{ID: is.Fact.Task}
			}
			folded[is.Fact.Task].Apply(is.Task())
		}
		if e, purged := is.Fact.Event.(task.HorizonPurged); purged {
			for id, k := range folded {
				if k.Seq < e.Below {
					delete(folded, id)
				}
			}
		}
	}
	for _, k := range folded {
		v.Row(k)
	}
	v.RowsEnd()
	rep = v.Report(r.now)
	for _, f := range rep.Findings {
		of = append(of, f.Rule.String()+" "+f.What)
	}
	return of, rep
}

// one is a log with a task in one of several states, born at sequence 2, and another that has ended.
func one(t *testing.T, state task.State) (*record, *task.Task) {
	r := newRecord(t)
	r.add(events.KindNode, events.Fact{Node: "a", Event: node.Registered{Session: "s", Profile: node.Profile{Slots: 2, Queues: []string{"default"}}}})
	born := func(id task.ID) *task.Task {
		k := &task.Task{ID: id}
		w := task.Work{Spec: &job.Spec{Handler: "x", Retry: job.Retry{Max: 3, Min: value.Duration(time.Minute)}}, Route: placement.QueueRoute("default", 5)}
		r.add(events.KindOffer, events.Fact{Task: id, Event: task.Submitted{Work: w}})
		k.Apply(r.log[len(r.log)-1].Task())
		return k
	}
	starts := func(k *task.Task, offer uint64) {
		r.does(k, task.Claim{Offer: offer, After: k.Turn, Node: "a", Session: "s"})
	}
	k := born("01JNAT00000000000000000001")
	if state != task.Pending {
		starts(k, 2)
	}
	switch state {
	case task.Retrying:
		r.does(k, task.Fail{Epoch: k.Epoch, Class: value.Exit})
	case task.Finished:
		r.does(k, task.Finish{Epoch: k.Epoch})
	}
	other := born("01JNAT00000000000000000002")
	starts(other, uint64(len(r.log)))
	r.does(other, task.Finish{Epoch: other.Epoch})
	return r, k
}

// A log that forgets is clean, whether or not its front is still there, and a task goes on where it was.
func TestCarriedTasksGoOn(t *testing.T) {
	for _, state := range []task.State{task.Pending, task.Running, task.Retrying, task.Finished} {
		t.Run(state.String(), func(t *testing.T) {
			r, k := one(t, state)
			below := uint64(len(r.log) + 1)
			r.add(events.KindProbe, events.Fact{Event: task.HorizonPurged{}})
			r.log[below-1].Fact = events.Fact{}
			r.horizon(below, func() {
				a := events.FoldNode("a", r.log[:1])
				r.add(events.KindNode, events.Fact{Node: "a", Event: node.Carried{Fold: a, Stored: a}})
				r.carry(k, nil)
			})
			switch state {
			case task.Running:
				r.does(k, task.Finish{Epoch: k.Epoch})
			case task.Retrying:
				r.now = k.Due
				r.add(events.KindOffer, events.Fact{Task: k.ID, Actor: "a", Event: task.Queued{Work: k.Work, Attempt: 2, After: k.Turn, Due: k.Due}})
				k.Apply(r.log[len(r.log)-1].Task())
				r.does(k, task.Claim{Offer: uint64(len(r.log)), After: k.Turn, Node: "a", Session: "s"})
				r.does(k, task.Finish{Epoch: k.Epoch})
			}
			for _, from := range []uint64{1, below} {
				of, rep := r.found(from)
				if len(of) > 0 {
					t.Errorf("from %d: %s", from, strings.Join(of, "\n"))
				}
				if rep.Rules[verify.ReadModel-1].Checked != 1 {
					t.Errorf("from %d, %d rows are compared, want 1", from, rep.Rules[verify.ReadModel-1].Checked)
				}
				if note := rep.Rules[verify.OneEnd-1].Note; !strings.Contains(note, "horizon") && !strings.Contains(note, "forgets") {
					t.Errorf("from %d, the note is %q", from, note)
				}
			}
		})
	}
}

// A retry that comes too late leaves its fact alone in the log: whoever asked for it hears that. If it is in
// time, the task is carried.
func TestLateRetryOfWhatIsForgotten(t *testing.T) {
	for _, late := range []bool{true, false} {
		r, k := one(t, task.Finished)
		below := uint64(len(r.log) + 1)
		r.add(events.KindNode, events.Fact{Node: "a", Event: node.Carried{Fold: events.FoldNode("a", r.log[:1]), Stored: events.FoldNode("a", r.log[:1])}})
		span := task.Span{Below: below, Before: r.log[below-1].Stored}
		r.add(events.KindHorizon, events.Fact{Event: task.HorizonChosen{Span: span}})
		r.add(events.KindHorizon, events.Fact{Event: task.HorizonCarried{Span: span}})
		r.does(k, task.Reopen{Reason: "again"})
		if !late {
			r.carry(k, nil)
		}
		r.add(events.KindHorizon, events.Fact{Event: task.HorizonPurged{Span: span}})
		r.now = r.now.Add(365 * 24 * time.Hour)
		for _, from := range []uint64{1, below} {
			of, _ := r.found(from)
			if late && len(of) > 0 {
				t.Errorf("from %d: %s", from, strings.Join(of, "\n"))
			}
			if !late && (len(of) != 1 || !strings.HasPrefix(of[0], "I-10 ")) {
				t.Errorf("from %d, of a task that waits for a year without an offer: %q", from, of)
			}
		}
	}
}

// What a horizon may not do is found.
func TestWrongHorizonsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		state task.State
		carry func(r *record, k *task.Task)
		after func(r *record, k *task.Task)
		from  uint64 // 0 for the whole log, else the horizon
		want  string
	}{
		"a lie": {task.Running, func(r *record, k *task.Task) { r.carry(k, func(c *task.Carried) { c.Fold.Attempt++ }) }, nil, 0,
			"I-11 what is carried differs from the events before: attempt is 2 in the row and 1 in the log"},
		"a lie about a node": {task.Finished, func(r *record, _ *task.Task) {
			a := events.FoldNode("a", r.log[:1])
			a.Session = "another"
			r.add(events.KindNode, events.Fact{Node: "a", Event: node.Carried{Fold: a, Stored: a}})
		}, nil, 0, "I-11 what is carried of the node differs"},
		"without the fact on its chain": {task.Pending, func(r *record, k *task.Task) {
			r.carry(k, nil)
			r.log = r.log[:len(r.log)-1]
		}, nil, 0, "I-7 it is carried, and no event on its chain says so directly behind"},
		"nothing is carried there": {task.Pending, func(r *record, k *task.Task) {
			r.add(events.KindChain, events.Fact{Task: k.ID, Event: task.Kept{Head: 3}})
		}, nil, 0, "I-7 task.kept, and nothing is carried directly before it"},
		"forgotten while it lives": {task.Running, func(*record, *task.Task) {}, nil, 0, "I-2 the log has forgotten it"},
		"heard of again": {task.Running, func(*record, *task.Task) {}, func(r *record, k *task.Task) { r.does(k, task.Finish{Epoch: k.Epoch}) }, 1,
			"I-2 attempt.finished of a task that the log has forgotten"},
		"purged before it was carried": {task.Finished, func(r *record, _ *task.Task) {
			r.add(events.KindHorizon, events.Fact{Event: task.HorizonPurged{Span: task.Span{Below: uint64(len(r.log))}}})
		}, nil, 0, "I-7 the log has forgotten what lay below"},
	} {
		t.Run(name, func(t *testing.T) {
			r, k := one(t, c.state)
			below := uint64(len(r.log) + 1)
			r.add(events.KindProbe, events.Fact{Event: task.HorizonPurged{}})
			r.log[below-1].Fact = events.Fact{}
			r.horizon(below, func() { c.carry(r, k) })
			if c.after != nil {
				c.after(r, k)
			}
			from := uint64(1)
			if c.from > 0 {
				from = below
			}
			of, _ := r.found(from)
			if len(of) == 0 || !strings.HasPrefix(of[0], c.want) {
				t.Errorf("found %q, want %q", of, c.want)
			}
		})
	}
}
