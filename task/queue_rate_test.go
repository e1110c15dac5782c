package task_test

import (
	"errors"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/value"
)

// A claim is put back once for each rate of the task's queue. A claimed task is never put back.
func TestThrottles(t *testing.T) {
	t.Parallel()
	five, nine, other := queue.Rate{Queue: "default", Since: 5}, queue.Rate{Queue: "default", Since: 9}, queue.Rate{Queue: "other", Since: 9}
	work := task.Work{Spec: &job.Spec{Handler: "h"}, Route: "default.5"}
	waits := task.Task{ID: "T", State: task.Pending, Offered: true, Turn: 3, Head: 3, Work: work}
	with := func(change func(*task.Task)) task.Task { w := waits; change(&w); return w }
	for name, c := range map[string]struct {
		t     task.Task
		after uint64
		rate  queue.Rate
		want  any
	}{
		"no rate":                         {waits, 3, queue.Rate{}, task.AttemptStarted{}},
		"a rate":                          {waits, 3, five, task.Throttled{Node: "n", Limit: "rate:queue:default#5"}},
		"the rate has admitted it":        {with(func(k *task.Task) { k.Rated = 5 }), 3, five, task.AttemptStarted{}},
		"it is admitted under a new rate": {with(func(k *task.Task) { k.Rated = 9 }), 3, five, task.AttemptStarted{}},
		"an older rate has admitted it":   {with(func(k *task.Task) { k.Rated = 5 }), 3, nine, task.Throttled{Node: "n", Limit: "rate:queue:default#9"}},
		"the rate of another queue":       {waits, 3, other, task.AttemptStarted{}},
		"the route of a node":             {with(func(k *task.Task) { k.Route, k.Spec = "@n1.5", &job.Spec{Place: job.Place{Queue: "default"}} }), 3, five, task.AttemptStarted{}},
		"another turn":                    {waits, 2, five, task.ErrStale},
		"put back already": {with(func(k *task.Task) {
			k.State, k.Holds, k.Throttled, k.Turn = task.Held, []string{task.HoldLimit}, true, 4
		}), 3, five, task.ErrStale},
		"it has ended":             {with(func(k *task.Task) { k.State = task.Finished }), 3, five, task.ErrEnded},
		"too late to start":        {with(func(k *task.Task) { k.StartBy = logtest.Noon.Add(-1) }), 3, five, task.GivenUp{}},
		"it runs under this offer": {with(func(k *task.Task) { k.State, k.Epoch, k.Offer = task.Running, 6, 4 }), 3, five, task.AttemptStarted{}},
		"it runs under another":    {with(func(k *task.Task) { k.State, k.Epoch, k.Offer = task.Running, 6, 5 }), 3, five, task.ErrStale},
		"asked for labels":         {with(func(k *task.Task) { k.Route, k.Spec = "~hash.5", &job.Spec{Place: job.Place{Queue: "default"}} }), 3, five, task.Throttled{Node: "n", Limit: "rate:queue:default#5"}},
	} {
		over := &task.Account{Epoch: c.t.Epoch, Session: c.t.Session, Now: logtest.Noon}
		e, err := task.Decide(c.t, task.Claim{Node: "n", Offer: 4, After: c.after, Rate: c.rate, Account: over}, logtest.Noon)
		switch want := c.want.(type) {
		case error:
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, %v; want %v", name, e, err, want)
			}
		case task.Throttled:
			if e != want || err != nil {
				t.Errorf("%s: %v, %v; want %v", name, e, err, want)
			}
		case task.AttemptStarted:
			if got, ok := e.(task.AttemptStarted); !ok || err != nil || (got.TookOver != nil) != c.t.Live() {
				t.Errorf("%s: %+v, %v; want it started", name, e, err)
			}
		case task.GivenUp:
			if _, ok := e.(task.GivenUp); !ok || err != nil {
				t.Errorf("%s: %+v, %v; want it given up", name, e, err)
			}
		}
	}
}

// The life of a task in a queue with a rate: put back, admitted, and put back again for the next
// attempt.
func TestThrottledLife(t *testing.T) {
	t.Parallel()
	rate := queue.Rate{Queue: "default", Since: 5}
	birth := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "h", Retry: job.Retry{Max: 1}}, Route: "default.5", StartBy: logtest.Noon.Add(time.Hour)}}
	k := task.Task{ID: "T"}
	seq := uint64(10)
	happens := func(chain bool, e task.Event) {
		seq++
		k = task.Evolve(k, task.Recorded{Seq: seq, Chain: chain, At: logtest.Noon, Event: e})
	}
	does := func(c task.Command) task.Event {
		t.Helper()
		e, err := task.Decide(k, c, logtest.Noon)
		if err != nil {
			t.Fatal(err)
		}
		happens(true, e)
		return e
	}
	happens(false, birth)
	if _, ok := does(task.Claim{Offer: 11, Rate: rate}).(task.Throttled); !ok {
		t.Fatal("the birth is not put back")
	}
	if k.State != task.Held || !k.Admissible() || !k.Limited() || k.Turn != 12 || k.StartBy != birth.StartBy {
		t.Errorf("then it is %+v", k)
	}
	if _, missing := task.NextOffer(&k); missing {
		t.Error("an offer is missing that only the limiter places")
	}
	d := duties.Owes(k, duties.Surroundings{}, duties.Settings{})
	if d.Who != "scheduler" || !d.By.Equal(birth.StartBy) || d.Command == nil {
		t.Errorf("its duty is %+v", d)
	}
	happens(false, task.AdmittedOffer(k, 5))
	if k.State != task.Pending || !k.Limited() || k.Rated != 5 {
		t.Errorf("admitted it is %+v", k)
	}
	does(task.Reassign{From: k.Route, To: "default.9"})
	if k.Rated != 5 {
		t.Error("another priority forgets that it was admitted")
	}
	next, _ := task.NextOffer(&k)
	if next.Rated != 5 {
		t.Errorf("the next offer is %+v", next)
	}
	moved := task.Evolve(k, task.Recorded{Seq: seq + 1, Chain: true, At: logtest.Noon, Event: task.Reassigned{From: k.Route, To: "other.5"}})
	if moved.Rated != 0 {
		t.Error("another queue takes its own rate for asked")
	}
	happens(false, next)
	if _, ok := does(task.Claim{Offer: seq, After: k.Turn, Rate: rate}).(task.AttemptStarted); !ok {
		t.Fatal("what was admitted is put back")
	}
	if k.Limited() {
		t.Error("limits look after what has started")
	}
	does(task.Fail{Epoch: k.Epoch, Class: value.Exit})
	if k.State != task.Retrying || k.Rated != 0 || len(k.Holds) > 0 {
		t.Errorf("for its next attempt it is %+v", k)
	}
	next, _ = task.NextOffer(&k)
	happens(false, next)
	if _, ok := does(task.Claim{Offer: seq, After: k.Turn, Rate: rate}).(task.Throttled); !ok {
		t.Error("the next attempt is not put back")
	}
	does(task.Cancel{})
	if k.State != task.Cancelled {
		t.Errorf("cancelled it is %s", k.State)
	}
}
