package task

import (
	"errors"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/reason"
)

// A claim is put back once for each rate of the task's queue. A claimed task is never put back.
func TestThrottles(t *testing.T) {
	t.Parallel()
	five, nine, other := queue.Rate{Queue: "default", Since: 5}, queue.Rate{Queue: "default", Since: 9}, queue.Rate{Queue: "other", Since: 9}
	work := Work{Spec: &job.Spec{Handler: "h"}, Route: "default.5"}
	waits := Task{ID: "T", State: Pending, Offered: true, Turn: 3, Head: 3, Work: work}
	with := func(change func(*Task)) Task { w := waits; change(&w); return w }
	for name, c := range map[string]struct {
		t     Task
		after uint64
		rate  queue.Rate
		want  any
	}{
		"no rate":                         {waits, 3, queue.Rate{}, AttemptStarted{}},
		"a rate":                          {waits, 3, five, Throttled{Node: "n", Limit: "rate:queue:default#5"}},
		"the rate has admitted it":        {with(func(k *Task) { k.Rated = 5 }), 3, five, AttemptStarted{}},
		"it is admitted under a new rate": {with(func(k *Task) { k.Rated = 9 }), 3, five, AttemptStarted{}},
		"an older rate has admitted it":   {with(func(k *Task) { k.Rated = 5 }), 3, nine, Throttled{Node: "n", Limit: "rate:queue:default#9"}},
		"the rate of another queue":       {waits, 3, other, AttemptStarted{}},
		"the route of a node":             {with(func(k *Task) { k.Route, k.Spec = "@n1.5", &job.Spec{Place: job.Place{Queue: "default"}} }), 3, five, AttemptStarted{}},
		"another turn":                    {waits, 2, five, ErrStale},
		"put back already":                {with(func(k *Task) { k.State, k.Holds, k.Throttled, k.Turn = Held, onlyLimit, true, 4 }), 3, five, ErrStale},
		"it has ended":                    {with(func(k *Task) { k.State = Finished }), 3, five, ErrEnded},
		"too late to start":               {with(func(k *Task) { k.StartBy = noon.Add(-1) }), 3, five, GivenUp{}},
		"it runs under this offer":        {with(func(k *Task) { k.State, k.Epoch, k.Offer = Running, 6, 4 }), 3, five, AttemptStarted{}},
		"it runs under another":           {with(func(k *Task) { k.State, k.Epoch, k.Offer = Running, 6, 5 }), 3, five, ErrStale},
		"asked for labels":                {with(func(k *Task) { k.Route, k.Spec = "~hash.5", &job.Spec{Place: job.Place{Queue: "default"}} }), 3, five, Throttled{Node: "n", Limit: "rate:queue:default#5"}},
	} {
		over := &Account{Epoch: c.t.Epoch, Session: c.t.Session, Now: noon}
		e, err := Decide(c.t, Claim{Node: "n", Offer: 4, After: c.after, Rate: c.rate, Account: over}, noon)
		switch want := c.want.(type) {
		case error:
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, %v; want %v", name, e, err, want)
			}
		case Throttled:
			if e != want || err != nil {
				t.Errorf("%s: %v, %v; want %v", name, e, err, want)
			}
		case AttemptStarted:
			if got, ok := e.(AttemptStarted); !ok || err != nil || (got.TookOver != nil) != c.t.Live() {
				t.Errorf("%s: %+v, %v; want it started", name, e, err)
			}
		case GivenUp:
			if _, ok := e.(GivenUp); !ok || err != nil {
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
	birth := Submitted{Work: Work{Spec: &job.Spec{Handler: "h", Retry: job.Retry{Max: 1}}, Route: "default.5", StartBy: noon.Add(time.Hour)}}
	k := Task{ID: "T"}
	seq := uint64(10)
	happens := func(chain bool, e Event) {
		seq++
		k = Evolve(k, Recorded{Seq: seq, Chain: chain, At: noon, Event: e})
	}
	does := func(c Command) Event {
		t.Helper()
		e, err := Decide(k, c, noon)
		if err != nil {
			t.Fatal(err)
		}
		happens(true, e)
		return e
	}
	happens(false, birth)
	if _, ok := does(Claim{Offer: 11, Rate: rate}).(Throttled); !ok {
		t.Fatal("the birth is not put back")
	}
	if k.State != Held || !k.Admissible() || !k.Limited() || k.Turn != 12 || k.StartBy != birth.StartBy {
		t.Errorf("then it is %+v", k)
	}
	if _, missing := NextOffer(&k); missing {
		t.Error("an offer is missing that only the limiter places")
	}
	d := Owes(k, Surroundings{}, Settings{})
	if d.Who != "scheduler" || !d.By.Equal(birth.StartBy) || d.Command == nil {
		t.Errorf("its duty is %+v", d)
	}
	happens(false, AdmittedOffer(k, 5))
	if k.State != Pending || !k.Limited() || k.Rated != 5 {
		t.Errorf("admitted it is %+v", k)
	}
	does(Reassign{From: k.Route, To: "default.9"})
	if k.Rated != 5 {
		t.Error("another priority forgets that it was admitted")
	}
	next, _ := NextOffer(&k)
	if next.Rated != 5 {
		t.Errorf("the next offer is %+v", next)
	}
	moved := Evolve(k, Recorded{Seq: seq + 1, Chain: true, At: noon, Event: Reassigned{From: k.Route, To: "other.5"}})
	if moved.Rated != 0 {
		t.Error("another queue takes its own rate for asked")
	}
	happens(false, next)
	if _, ok := does(Claim{Offer: seq, After: k.Turn, Rate: rate}).(AttemptStarted); !ok {
		t.Fatal("what was admitted is put back")
	}
	if k.Limited() {
		t.Error("limits look after what has started")
	}
	does(Fail{Epoch: k.Epoch, Class: reason.Exit})
	if k.State != Retrying || k.Rated != 0 || len(k.Holds) > 0 {
		t.Errorf("for its next attempt it is %+v", k)
	}
	next, _ = NextOffer(&k)
	happens(false, next)
	if _, ok := does(Claim{Offer: seq, After: k.Turn, Rate: rate}).(Throttled); !ok {
		t.Error("the next attempt is not put back")
	}
	does(Cancel{})
	if k.State != Cancelled {
		t.Errorf("cancelled it is %s", k.State)
	}
}
