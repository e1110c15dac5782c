package task

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// The rate of a queue lasts since the fact that changed it; one that cannot be is none.
func TestQueueRateSince(t *testing.T) {
	t.Parallel()
	slow, wrong := Rate{Limit: 1}, Rate{Limit: 1, Burst: -1}
	q := Queue{Name: "q"}
	for i, c := range []struct {
		e     QueueLimited
		rate  Rate
		since uint64
	}{
		{QueueLimited{Running: 3}, Rate{}, 0},
		{QueueLimited{Rate: slow}, slow, 2},
		{QueueLimited{Rate: slow, Waiting: 7}, slow, 2},
		{QueueLimited{Rate: wrong}, Rate{}, 4},
		{QueueLimited{Rate: Rate{Limit: 1, Key: "a"}}, Rate{}, 4},
		{QueueLimited{Rate: slow}, slow, 6},
		{QueueLimited{}, Rate{}, 7},
	} {
		q = EvolveQueue(q, uint64(i+1), noon, "ann", c.e)
		if q.Rate != c.rate || q.RateSince != c.since {
			t.Errorf("after %+v the rate is %+v since %d, want %+v since %d", c.e, q.Rate, q.RateSince, c.rate, c.since)
		}
	}
}

// A claim is put back once for each rate of the task's queue, and never throws back what was claimed.
func TestThrottles(t *testing.T) {
	t.Parallel()
	five, nine, other := QueueRate{"default", 5}, QueueRate{"default", 9}, QueueRate{"other", 9}
	work := Work{Spec: &Spec{Handler: "h"}, Route: "default.5"}
	waits := Task{ID: "T", State: Pending, Offered: true, Turn: 3, Head: 3, Work: work}
	with := func(change func(*Task)) Task { w := waits; change(&w); return w }
	for name, c := range map[string]struct {
		t     Task
		after uint64
		rate  QueueRate
		want  any
	}{
		"no rate":                         {waits, 3, QueueRate{}, AttemptStarted{}},
		"a rate":                          {waits, 3, five, Throttled{Node: "n", Limit: "rate:queue:default#5"}},
		"the rate has admitted it":        {with(func(k *Task) { k.Rated = 5 }), 3, five, AttemptStarted{}},
		"it is admitted under a new rate": {with(func(k *Task) { k.Rated = 9 }), 3, five, AttemptStarted{}},
		"an older rate has admitted it":   {with(func(k *Task) { k.Rated = 5 }), 3, nine, Throttled{Node: "n", Limit: "rate:queue:default#9"}},
		"the rate of another queue":       {waits, 3, other, AttemptStarted{}},
		"the route of a node":             {with(func(k *Task) { k.Route, k.Spec = "@n1.5", &Spec{Place: Place{Queue: "default"}} }), 3, five, AttemptStarted{}},
		"another turn":                    {waits, 2, five, ErrStale},
		"put back already":                {with(func(k *Task) { k.State, k.Holds, k.Throttled, k.Turn = Held, onlyLimit, true, 4 }), 3, five, ErrStale},
		"it has ended":                    {with(func(k *Task) { k.State = Finished }), 3, five, ErrEnded},
		"too late to start":               {with(func(k *Task) { k.StartBy = noon.Add(-1) }), 3, five, GivenUp{}},
		"it runs under this offer":        {with(func(k *Task) { k.State, k.Epoch, k.Offer = Running, 6, 4 }), 3, five, AttemptStarted{}},
		"it runs under another":           {with(func(k *Task) { k.State, k.Epoch, k.Offer = Running, 6, 5 }), 3, five, ErrStale},
		"asked for labels":                {with(func(k *Task) { k.Route, k.Spec = "~hash.5", &Spec{Place: Place{Queue: "default"}} }), 3, five, Throttled{Node: "n", Limit: "rate:queue:default#5"}},
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

// The life of a task in a queue with a rate: put back, admitted, and for another attempt put back again.
func TestThrottledLife(t *testing.T) {
	t.Parallel()
	rate := QueueRate{"default", 5}
	birth := Submitted{Work: Work{Spec: &Spec{Handler: "h", Retry: Retry{Max: 1}}, Route: "default.5", StartBy: noon.Add(time.Hour)}}
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
	does(Fail{Epoch: k.Epoch, Class: ReasonExit})
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

func throttledTask(n int) *Task {
	k := limited(n, "j", Concurrency{}, Rate{}, 5)
	k.Throttled = true
	return k
}

// Whoever waits follows the present rate of the queue, whatever it was when he was put back.
func TestLimiterFollowsTheQueue(t *testing.T) {
	t.Parallel()
	a := NewLimiter()
	rates := func(seq uint64, r Rate) { a.Said("q", seq, noon, QueueLimited{Rate: r}) }
	at := func(d time.Duration, want string) Decision {
		t.Helper()
		got := a.Decide(noon.Add(d), 100)
		a.Confirm(&got)
		if grants(got) != want {
			t.Errorf("after %v %q was admitted, want %q", d, grants(got), want)
		}
		for _, g := range got.Grants { // and starts
			var n int
			_, _ = fmt.Sscanf(string(g.Task), "T%d", &n)
			k := throttledTask(n)
			k.State, k.Holds, k.Throttled, k.Rated, k.Seq = Running, nil, false, g.Rated, 50
			if n == 10 {
				k.Spec = &Spec{Concurrency: Concurrencies{{Max: 1}}}
			}
			a.Put(k)
		}
		return got
	}
	rates(100, Rate{Limit: 1, Per: Duration(time.Hour), Burst: 2})
	for n := range 9 {
		a.Put(throttledTask(n + 1))
	}
	own := limited(10, "j", Concurrency{Max: 1}, Rate{}, 9)
	a.Put(own)
	elsewhere := throttledTask(11)
	elsewhere.Route = "@n1.5"
	a.Put(elsewhere)
	d := at(0, "T0010 T0001 T0011")
	if d.Grants[0].Rated != 100 || d.Grants[2].Rated != 0 || len(d.Grants[0].Limits) != 2 || len(d.Grants[2].Limits) != 0 {
		t.Errorf("the grants are %+v", d.Grants)
	}
	if s, ok := a.Standing("T0004", noon, 5); !ok || s.Ahead != 2 || len(s.Counters) != 1 || s.Counters[0].Name != "rate:queue:q" || !s.Counters[0].Full || !s.Counters[0].Rate.Opens.Equal(noon.Add(time.Hour)) {
		t.Errorf("the fourth stands %+v, %v", s, ok)
	}
	if c, ok := a.Counter("rate:queue:q", noon, 5); !ok || c.Waiting != 8 {
		t.Errorf("the rate is %+v, %v", c, ok)
	}
	at(time.Minute, "")
	rates(200, Rate{Limit: 1, Per: Duration(time.Second)})
	at(time.Minute, "T0002") // the new rate begins untouched
	at(time.Minute+time.Second, "T0003")
	rates(150, Rate{}) // told late
	at(time.Minute+time.Second, "")
	if got := len(a.Counters(noon.Add(time.Hour), 0)); got != 2 {
		t.Errorf("%d limits are there, want that of the job and the present rate", got)
	}
	work := throttledTask(1).Work
	for name, b := range a.Pause(&work, noon.Add(time.Hour)) {
		a.Bucket(name, b)
	}
	at(time.Minute+time.Minute, "") // a task has asked for a pause
	a.Prune(noon.Add(2 * time.Hour))
	moved := throttledTask(9)
	moved.Route, moved.Seq = "other.5", 20
	a.Put(moved)
	at(2*time.Minute, "T0009")
	rates(300, Rate{})
	d = at(2*time.Minute, "T0004 T0005 T0006 T0007 T0008")
	if d.Grants[0].Rated != 300 {
		t.Errorf("the grants are %+v", d.Grants)
	}
	if got := a.Len(); got != 1 {
		t.Errorf("it knows of %d tasks, want the one that is under a limit of its own", got)
	}
}

// While nobody takes what a rate has admitted, it admits no more than its burst or a second of it, and does not
// make up for it afterwards; another route of the queue is not held up.
func TestARateDoesNotRunAhead(t *testing.T) {
	t.Parallel()
	a := NewLimiter()
	a.Said("q", 100, noon, QueueLimited{Rate: Rate{Limit: 2, Burst: 3}})
	for n := range 9 {
		a.Put(throttledTask(n + 1))
	}
	admit := func(d time.Duration, want string) {
		t.Helper()
		got := a.Decide(noon.Add(d), 100)
		a.Confirm(&got)
		if grants(got) != want {
			t.Errorf("after %v %q was admitted, want %q", d, grants(got), want)
		}
	}
	becomes := func(n int, s State) {
		k := throttledTask(n)
		k.State, k.Holds, k.Throttled, k.Rated, k.Seq = s, nil, false, 100, 100+uint64(s)
		a.Put(k)
	}
	admit(0, "T0001 T0002 T0003")
	becomes(1, Pending)
	becomes(2, Pending)
	admit(time.Hour, "")
	if s, ok := a.Standing("T0005", noon.Add(time.Hour), 5); !ok || s.Ahead != 1 || s.Counters[0].Max != 3 || s.Counters[0].InUse != 3 || !s.Counters[0].Full {
		t.Errorf("the fifth stands %+v, %v", s, ok)
	}
	labels := throttledTask(20)
	labels.Route, labels.Spec = "~hash.5", &Spec{Handler: "h", Place: Place{Queue: "q"}}
	a.Put(labels)
	admit(time.Hour, "T0020")
	becomes(2, Running)
	admit(time.Hour, "T0004")
	becomes(1, Cancelled)
	becomes(3, Running)
	becomes(4, Running)
	admit(time.Hour, "T0005")
	admit(time.Hour+time.Second, "T0006 T0007")
	if got := a.Counters(noon, 5); len(got) != 1 {
		t.Errorf("the limits are %+v", got)
	}
}

// What the rate of a queue has admitted counts until it starts, also for who is told in leaps: that the task was lost, put back
// and admitted since is known from its new offer, and from the grant, in either order.
func TestARateCountsWhatItWasToldInLeaps(t *testing.T) {
	t.Parallel()
	grant := Grant{Task: limited(1, "j", Concurrency{Max: 5}, Rate{}, 5).ID, Turn: 42, Rated: 100}
	for name, tell := range map[string]func(*Limiter, *Task){
		"the offer":             func(a *Limiter, k *Task) { a.Put(k) },
		"the offer first":       func(a *Limiter, k *Task) { a.Put(k); a.Granted(grant) },
		"the grant first":       func(a *Limiter, k *Task) { a.Granted(grant); a.Put(k) },
		"and a grant of before": func(a *Limiter, k *Task) { a.Put(k); a.Granted(Grant{Task: grant.Task, Turn: 7, Rated: 50}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := NewLimiter()
			a.Said("q", 100, noon, QueueLimited{Rate: Rate{Limit: 1}})
			k := limited(1, "j", Concurrency{Max: 5}, Rate{}, 5)
			k.Route, k.State, k.Holds, k.Turn, k.Seq = "q.5", Pending, nil, 20, 24
			a.Put(k)
			offered := *k
			offered.Turn, offered.Seq, offered.Rated = 42, 47, 100
			tell(a, &offered)
			next := throttledTask(2)
			a.Put(next)
			if d := a.Decide(noon.Add(time.Hour), 10); !d.Empty() {
				t.Errorf("while one that is admitted has not started, %q is", grants(d))
			}
			started := offered
			started.State, started.Seq = Running, 50
			a.Put(&started)
			if d := a.Decide(noon.Add(time.Hour), 10); grants(d) != "T0002" {
				t.Errorf("once it has started, %q is admitted", grants(d))
			}
		})
	}
}

// Who was admitted under on_limit: skip, and is put back for a rate that came meanwhile, is not skipped.
func TestThrottledIsNotRefused(t *testing.T) {
	t.Parallel()
	a := NewLimiter()
	one := Concurrency{Max: 1, OnLimit: LimitSkip}
	a.Put(limited(1, "j", one, Rate{}, 5))
	d := a.Decide(noon, 10)
	a.Confirm(&d)
	back := limited(2, "j", one, Rate{}, 5)
	back.Throttled = true
	a.Put(back)
	if d := a.Decide(noon, 10); !d.Empty() {
		t.Errorf("decided %+v", d)
	}
}
