package quota

import (
	"fmt"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/value"
)

// Waiting tasks follow the present rate of the queue, also if another rate put them back.
func TestLimiterFollowsTheQueue(t *testing.T) {
	t.Parallel()
	a := NewLimiter()
	rates := func(seq uint64, r limit.Rate) { a.Said("q", seq, noon, queue.Limited{Rate: r}) }
	at := func(d time.Duration, want string) Decision {
		t.Helper()
		got := a.Decide(noon.Add(d), 100)
		a.Confirm(&got, 0)
		if grants(got) != want {
			t.Errorf("after %v %q was admitted, want %q", d, grants(got), want)
		}
		for _, g := range got.Grants { // and starts
			var n int
			_, _ = fmt.Sscanf(string(g.Task), "T%d", &n)
			k := throttledTask(n)
			k.State, k.Holds, k.Throttled, k.Rated, k.Seq = task.Running, nil, false, g.Rated, 50
			if n == 10 {
				k.Spec = &job.Spec{Concurrency: limit.Concurrencies{{Max: 1}}}
			}
			a.Put(k)
		}
		return got
	}
	rates(100, limit.Rate{Limit: 1, Per: value.Duration(time.Hour), Burst: 2})
	for n := range 9 {
		a.Put(throttledTask(n + 1))
	}
	own := limited(10, "j", limit.Concurrency{Max: 1}, limit.Rate{}, 9)
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
	rates(200, limit.Rate{Limit: 1, Per: value.Duration(time.Second)})
	at(time.Minute, "T0002") // the new rate begins unused
	at(time.Minute+time.Second, "T0003")
	rates(150, limit.Rate{}) // reported late
	at(time.Minute+time.Second, "")
	if got := len(a.Counters(noon.Add(time.Hour), 0)); got != 2 {
		t.Errorf("%d limits are there, want that of the job and the present rate", got)
	}
	work := throttledTask(1).Work
	for name, b := range a.Pause(&work, noon.Add(time.Hour)) {
		a.Bucket(name, b)
	}
	at(time.Minute+time.Minute, "") // a task asked for a delay
	a.Prune(noon.Add(2 * time.Hour))
	moved := throttledTask(9)
	moved.Route, moved.Seq = "other.5", 20
	a.Put(moved)
	at(2*time.Minute, "T0009")
	rates(300, limit.Rate{})
	d = at(2*time.Minute, "T0004 T0005 T0006 T0007 T0008")
	if d.Grants[0].Rated != 300 {
		t.Errorf("the grants are %+v", d.Grants)
	}
	if got := a.Len(); got != 1 {
		t.Errorf("it knows of %d tasks, want the one that is under a limit of its own", got)
	}
}

// While no worker takes admitted tasks, a rate admits at most its burst or one second of starts,
// and does not make up for that later. Another route of the queue is not delayed.
func TestARateDoesNotRunAhead(t *testing.T) {
	t.Parallel()
	a := NewLimiter()
	a.Said("q", 100, noon, queue.Limited{Rate: limit.Rate{Limit: 2, Burst: 3}})
	for n := range 9 {
		a.Put(throttledTask(n + 1))
	}
	admit := func(d time.Duration, want string) {
		t.Helper()
		got := a.Decide(noon.Add(d), 100)
		a.Confirm(&got, 0)
		if grants(got) != want {
			t.Errorf("after %v %q was admitted, want %q", d, grants(got), want)
		}
	}
	becomes := func(n int, s task.State) {
		k := throttledTask(n)
		k.State, k.Holds, k.Throttled, k.Rated, k.Seq = s, nil, false, 100, 100+uint64(s)
		a.Put(k)
	}
	admit(0, "T0001 T0002 T0003")
	becomes(1, task.Pending)
	becomes(2, task.Pending)
	admit(time.Hour, "")
	if s, ok := a.Standing("T0005", noon.Add(time.Hour), 5); !ok || s.Ahead != 1 || s.Counters[0].Max != 3 || s.Counters[0].InUse != 3 || !s.Counters[0].Full {
		t.Errorf("the fifth stands %+v, %v", s, ok)
	}
	labels := throttledTask(20)
	labels.Route, labels.Spec = "~hash.5", &job.Spec{Handler: "h", Place: job.Place{Queue: "q"}}
	a.Put(labels)
	admit(time.Hour, "T0020")
	becomes(2, task.Running)
	admit(time.Hour, "T0004")
	becomes(1, task.Cancelled)
	becomes(3, task.Running)
	becomes(4, task.Running)
	admit(time.Hour, "T0005")
	admit(time.Hour+time.Second, "T0006 T0007")
	if got := a.Counters(noon, 5); len(got) != 1 {
		t.Errorf("the limits are %+v", got)
	}
}

// An admitted task counts until it starts, even if the limiter misses intermediate facts: that it
// was lost, put back and admitted again follows from its new offer and the grant, in either order.
func TestARateCountsWhatItWasToldInLeaps(t *testing.T) {
	t.Parallel()
	grant := task.Grant{Task: limited(1, "j", limit.Concurrency{Max: 5}, limit.Rate{}, 5).ID, Turn: 42, Rated: 100}
	for name, tell := range map[string]func(*Limiter, *task.Task){
		"the offer":             func(a *Limiter, k *task.Task) { a.Put(k) },
		"the offer first":       func(a *Limiter, k *task.Task) { a.Put(k); a.Granted(grant) },
		"the grant first":       func(a *Limiter, k *task.Task) { a.Granted(grant); a.Put(k) },
		"and a grant of before": func(a *Limiter, k *task.Task) { a.Put(k); a.Granted(task.Grant{Task: grant.Task, Turn: 7, Rated: 50}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := NewLimiter()
			a.Said("q", 100, noon, queue.Limited{Rate: limit.Rate{Limit: 1}})
			k := limited(1, "j", limit.Concurrency{Max: 5}, limit.Rate{}, 5)
			k.Route, k.State, k.Holds, k.Turn, k.Seq = "q.5", task.Pending, nil, 20, 24
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
			started.State, started.Seq = task.Running, 50
			a.Put(&started)
			if d := a.Decide(noon.Add(time.Hour), 10); grants(d) != "T0002" {
				t.Errorf("once it has started, %q is admitted", grants(d))
			}
		})
	}
}

func throttledTask(n int) *task.Task {
	k := limited(n, "j", limit.Concurrency{}, limit.Rate{}, 5)
	k.Throttled = true
	return k
}

// A task that was admitted under on_limit: skip, and is put back for a later rate, is not skipped.
func TestThrottledIsNotRefused(t *testing.T) {
	t.Parallel()
	a := NewLimiter()
	one := limit.Concurrency{Max: 1, OnLimit: limit.Skip}
	a.Put(limited(1, "j", one, limit.Rate{}, 5))
	d := a.Decide(noon, 10)
	a.Confirm(&d, 0)
	back := limited(2, "j", one, limit.Rate{}, 5)
	back.Throttled = true
	a.Put(back)
	if d := a.Decide(noon, 10); !d.Empty() {
		t.Errorf("decided %+v", d)
	}
}
