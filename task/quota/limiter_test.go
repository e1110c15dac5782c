package quota

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// limited makes a task that waits for its limits; a zero limit is none.
func limited(n int, name string, c limit.Concurrency, r limit.Rate, priority int) *task.Task {
	spec := &job.Spec{Handler: "h"}
	if c.Max > 0 {
		spec.Concurrency = limit.Concurrencies{c}
	}
	if r.Limit > 0 {
		spec.Rate = limit.Rates{r}
	}
	return &task.Task{ID: task.ID(fmt.Sprintf("T%04d", n)), State: task.Held, Reason: task.HoldLimit, Seq: uint64(n), SubmittedAt: noon.Add(time.Duration(n)),
		Work: task.Work{Job: name, Spec: spec, Route: placement.QueueRoute("q", priority), Holds: onlyLimit}}
}

func grants(d Decision) string {
	var ids []string
	for _, g := range d.Grants {
		ids = append(ids, string(g.Task))
	}
	return strings.Join(ids, " ")
}

func refusals(list []Refusal) string {
	var ids []string
	for _, r := range list {
		ids = append(ids, string(r.Task))
	}
	return strings.Join(ids, " ")
}

func TestAdmissionOrder(t *testing.T) {
	a := NewLimiter()
	two := limit.Concurrency{Max: 2}
	for n, p := range []int{5, 5, 9, 1, 9} {
		a.Put(limited(n+1, "j", two, limit.Rate{}, p))
	}
	d := a.Decide(noon, 100)
	if got := grants(d); got != "T0003 T0005" {
		t.Errorf("admitted %s, want the most urgent two", got)
	}
	a.Confirm(&d, 0)
	if d := a.Decide(noon, 100); !d.Empty() || !d.Next.IsZero() {
		t.Errorf("with all places taken: %+v", d)
	}
	done := limited(3, "j", two, limit.Rate{}, 9)
	done.State, done.Seq = task.Finished, 100
	a.Put(done)
	if got := grants(a.Decide(noon, 100)); got != "T0001" {
		t.Errorf("then admitted %s, want the oldest", got)
	}
	if s, ok := a.Standing("T0004", noon, 5); !ok || s.Ahead != 1 || s.Counters[0].InUse != 2 || s.Counters[0].Waiting != 2 {
		t.Errorf("the last stands %+v, %v", s, ok)
	}
}

func TestOnLimit(t *testing.T) {
	for name, c := range map[string]struct {
		onLimit           string
		grants            string
		refused, replaced string
	}{
		"wait":       {limit.Wait, "T0001", "", ""},
		"skip":       {limit.Skip, "T0001", "T0002 T0003", ""},
		"fail":       {limit.Fail, "T0001", "T0002 T0003", ""},
		"cancel old": {limit.CancelOld, "T0001", "", "T0001 T0002"},
	} {
		a := NewLimiter()
		for n := range 3 {
			a.Put(limited(n+1, "j", limit.Concurrency{Max: 1, OnLimit: c.onLimit}, limit.Rate{}, 5))
		}
		d := a.Decide(noon, 100)
		if grants(d) != c.grants || refusals(d.Refused) != c.refused || refusals(d.Replaced) != c.replaced {
			t.Errorf("%s: %+v", name, d)
		}
		if d := a.Decide(noon, 100); !d.Empty() {
			t.Errorf("%s: again %+v", name, d)
		}
	}
}

// A task that has run before waits, regardless of on_limit.
func TestOnLimitIsForTheFirstAttempt(t *testing.T) {
	a := NewLimiter()
	a.Put(limited(1, "j", limit.Concurrency{Max: 1}, limit.Rate{}, 5))
	again := limited(2, "j", limit.Concurrency{Max: 1, OnLimit: limit.Skip}, limit.Rate{}, 5)
	again.State, again.Attempt = task.Retrying, 1
	a.Put(again)
	if d := a.Decide(noon, 10); grants(d) != "T0001" || len(d.Refused) > 0 {
		t.Errorf("decided %+v", d)
	}
}

// A task that was admitted and then postponed waits for its place again and is never refused under
// on_limit.
func TestOnLimitIsNotForThePostponed(t *testing.T) {
	a := NewLimiter()
	a.Put(limited(1, "j", limit.Concurrency{Max: 1}, limit.Rate{}, 5))
	late := limited(2, "j", limit.Concurrency{Max: 1, OnLimit: limit.Skip}, limit.Rate{}, 5)
	late.State = task.Scheduled
	a.Put(late)
	if d := a.Decide(noon, 10); grants(d) != "T0001" || len(d.Refused) > 0 {
		t.Errorf("decided %+v", d)
	}
	if _, err := late.Decide(task.Refuse{Limit: "job:j"}, noon); err != nil {
		t.Errorf("refused: %v", err)
	}
}

func TestAdmissionByRate(t *testing.T) {
	a := NewLimiter()
	r := limit.Rate{Limit: 1, Per: value.Duration(time.Second), Burst: 2, Key: "a"}
	for n := range 4 {
		a.Put(limited(n+1, "j", limit.Concurrency{}, r, 5))
	}
	d := a.Decide(noon, 100)
	if grants(d) != "T0001 T0002" || !d.Next.Equal(noon.Add(time.Second)) {
		t.Errorf("at first %+v", d)
	}
	a.Undo(&d)
	if d = a.Decide(noon, 100); grants(d) != "T0001 T0002" {
		t.Errorf("undone and again: %+v", d)
	}
	a.Confirm(&d, 0)
	d = a.Decide(d.Next, 100)
	if grants(d) != "T0003" {
		t.Errorf("a second later %+v", d)
	}
}

// A decision that was undone because its answer was lost, and is then reported, has used its share.
func TestUndoOfWhatWasTold(t *testing.T) {
	a := NewLimiter()
	for n := range 4 {
		a.Put(limited(n+1, "j", limit.Concurrency{}, limit.Rate{Limit: 1, Burst: 2}, 5))
	}
	d := a.Decide(noon, 100)
	for _, g := range d.Grants {
		a.Granted(g)
	}
	for name, used := range d.Rates {
		a.Bucket(name, limit.Bucket(used))
	}
	a.Undo(&d)
	if d := a.Decide(noon, 100); !d.Empty() {
		t.Errorf("admitted once more: %+v", d)
	}
}

// A rate that is shut for one line does not delay other lines with the same counter.
func TestAClosedRateHoldsUpNobody(t *testing.T) {
	a := NewLimiter()
	slow, fast := limit.Rate{Limit: 1, Per: value.Duration(time.Hour), Key: "slow"}, limit.Rate{Limit: 1000, Burst: 1000, Key: "fast"}
	for n := range 100 {
		a.Put(limited(n+1, "j", limit.Concurrency{Max: 3}, slow, 5))
	}
	a.Put(limited(200, "j", limit.Concurrency{Max: 3}, fast, 1))
	a.Put(limited(201, "j", limit.Concurrency{Max: 3}, fast, 1))
	a.Put(limited(202, "j", limit.Concurrency{Max: 3}, fast, 1))
	if got := grants(a.Decide(noon, 100)); got != "T0001 T0200 T0201" {
		t.Errorf("admitted %s", got)
	}
}

func TestAdmissionIsInTime(t *testing.T) {
	a := NewLimiter()
	later := limited(1, "j", limit.Concurrency{Max: 1}, limit.Rate{}, 9)
	later.Due = noon.Add(time.Minute)
	a.Put(later)
	a.Put(limited(2, "j", limit.Concurrency{Max: 1}, limit.Rate{}, 5))
	d := a.Decide(noon, 10)
	if grants(d) != "T0002" || !d.Next.Equal(later.Due) {
		t.Errorf("decided %+v: what is not due takes no place", d)
	}
}

func TestAdmissionOfAnOldTurn(t *testing.T) {
	a := NewLimiter()
	k := limited(1, "j", limit.Concurrency{Max: 1}, limit.Rate{}, 5)
	a.Put(k)
	moved := *k
	moved.Turn, moved.Seq = 7, 7
	a.Put(&moved)
	a.Granted(task.Grant{Task: k.ID})
	if len(a.Unoffered()) != 0 {
		t.Error("a grant of the turn before counts")
	}
	a.Granted(task.Grant{Task: k.ID, Turn: 7})
	if got := a.Unoffered(); len(got) != 1 || got[0].Turn != 7 {
		t.Errorf("admitted and not offered: %v", got)
	}
}

// In any order of events, no limit is exceeded, and no task waits although there is place for it.
func TestAdmissionAtRandom(t *testing.T) {
	for seed := range testkit.Size(uint64(50), 200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := NewLimiter()
		tasks := map[task.ID]*task.Task{}
		granted, under := map[task.ID]uint64{}, map[task.ID]uint64{}
		now, seq := noon, uint64(0)
		var q queue.Queue
		var rated time.Time // since when the queue has its rate
		started := 0        // since then
		for range 150 {
			seq++
			now = now.Add(time.Duration(rng.IntN(400)) * time.Millisecond)
			if rng.IntN(20) == 0 {
				rate := []limit.Rate{{}, {Limit: 4}, {Limit: 1, Burst: 3}}[rng.IntN(3)]
				q = queue.Queue{Name: "q", Head: seq, Rate: rate, RateSince: seq}
				rated, started = now, 0
				a.Queue(q)
			}
			switch n := rng.IntN(10); {
			case n < 4:
				var c limit.Concurrency
				var r limit.Rate
				if rng.IntN(4) > 0 {
					c = limit.Concurrency{Max: 2, Key: string('a' + rune(rng.IntN(2)))}
				}
				if c.Max == 0 || rng.IntN(2) == 0 {
					r = limit.Rate{Limit: 2, Per: value.Duration(time.Second), Burst: 2, Key: string('x' + rune(rng.IntN(2)))}
				}
				k := limited(int(seq), "j", c, r, 1+rng.IntN(9))
				if rng.IntN(3) == 0 {
					k.Spec, k.Throttled = &job.Spec{Handler: "h"}, true // put back by a worker
				} else if rng.IntN(3) == 0 {
					k.Spec.Concurrency = append(k.Spec.Concurrency, limit.Concurrency{Max: 2, Key: string('c' + rune(rng.IntN(2)))})
				}
				if rng.IntN(6) == 0 {
					k.Spec.Rate = append(k.Spec.Rate, limit.Rate{Limit: 3, Per: value.Duration(time.Second), Burst: 3, Key: "z"})
				}
				if rng.IntN(5) == 0 {
					k.Due = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
				}
				tasks[k.ID] = k
			default:
				if ids := slices.Sorted(maps.Keys(tasks)); len(ids) > 0 {
					k := tasks[ids[rng.IntN(len(ids))]]
					k.Seq = seq
					switch {
					case rng.IntN(8) == 0:
						k.State = task.Finished
					case k.State == task.Pending:
						k.State, k.Attempt = task.Running, k.Attempt+1
					case k.State == task.Running && !k.Spec.Limited():
						k.State, k.Holds, k.Turn, k.Throttled = task.Held, onlyLimit, seq, true
					case k.State == task.Running:
						k.State, k.Holds, k.Turn = task.Retrying, onlyLimit, seq
						k.Due = now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
					case granted[k.ID] == k.Turn && k.Turn != 0:
						k.State, k.Holds, k.Throttled, k.Rated = task.Pending, nil, false, under[k.ID]
					}
					a.Put(k)
					if k.State == task.Finished {
						delete(tasks, k.ID)
						delete(granted, k.ID)
					}
				}
			}
			for _, id := range slices.Sorted(maps.Keys(tasks)) {
				a.Put(tasks[id])
			}
			d := a.Decide(now, 1+rng.IntN(20))
			if rng.IntN(4) == 0 {
				a.Undo(&d)
				continue
			}
			a.Confirm(&d, 0)
			for _, g := range d.Grants {
				if k := tasks[g.Task]; k.Due.After(now) || k.Turn != g.Turn || !k.Admissible() {
					t.Fatalf("seed %d: admitted %+v for turn %d at %v", seed, k, g.Turn, now)
				}
				granted[g.Task], under[g.Task] = g.Turn, g.Rated
				if k := tasks[g.Task]; g.Turn == 0 { // the birth: offer it at once
					k.State, k.Holds, k.Throttled, k.Rated = task.Pending, nil, false, g.Rated
				}
				if g.Rated != q.RateSince {
					t.Fatalf("seed %d: admitted under the rate of %d, and it is that of %d", seed, g.Rated, q.RateSince)
				}
			}
			if started += len(d.Grants); q.Rate.Limit > 0 && started > max(q.Rate.Burst, 1)+int(now.Sub(rated)/q.Rate.Every()) {
				t.Fatalf("seed %d: %d admitted in %v under %+v", seed, started, now.Sub(rated), q.Rate)
			}
			using, ahead := map[string]int{}, 0
			for _, k := range tasks {
				if turn, ok := granted[k.ID]; !k.Live() && task.HoldsPlaces(k.State, k.Admissible(), k.Turn, turn, ok) && under[k.ID] == q.RateSince {
					ahead++
				}
				if turn, ok := granted[k.ID]; task.HoldsPlaces(k.State, k.Admissible(), k.Turn, turn, ok) {
					counters, _ := k.Counters()
					for _, c := range counters {
						if c.Max > 0 {
							using[c.Name]++
						}
					}
				}
			}
			if q.Rate.Limit > 0 && ahead > q.Rate.RunsAhead() {
				t.Fatalf("seed %d: %d are admitted and have not started, under %+v", seed, ahead, q.Rate)
			}
			for name, n := range using {
				if n > 2 {
					t.Fatalf("seed %d: %d under %s", seed, n, name)
				}
			}
			if !d.Next.IsZero() && !d.Next.After(now) {
				continue // there is more
			}
			for _, k := range tasks {
				turn, ok := granted[k.ID]
				if task.HoldsPlaces(k.State, k.Admissible(), k.Turn, turn, ok) || k.Due.After(now) {
					continue
				}
				counters, _ := k.Counters()
				if q.Rate.Limit > 0 {
					counters = append(counters, limit.Counter{Name: queue.RateOf(&q).Counter(), Rate: q.Rate})
				}
				free := q.Rate.Limit == 0 || ahead < q.Rate.RunsAhead()
				for _, c := range counters {
					free = free && (c.Max > 0 && using[c.Name] < c.Max || c.Rate.Limit > 0 && !a.counters[c.Name].bucket.Opens(c.Rate).After(now))
				}
				if free {
					t.Fatalf("seed %d: %s waits at %v, and there is place under %v", seed, k.ID, now, counters)
				}
			}
		}
	}
}

// Admitting one of many waiting tasks costs little: 50,000 tasks of one key take a moment to decide
// and do not slow down another key.
func BenchmarkAdmission(b *testing.B) {
	a := NewLimiter()
	for n := range 50_000 {
		k := limited(n, "j", limit.Concurrency{Max: 1, Key: "big"}, limit.Rate{}, 5)
		a.Put(k)
	}
	seq := uint64(1 << 20)
	for b.Loop() {
		d := a.Decide(noon, 400)
		a.Confirm(&d, 0)
		for _, g := range d.Grants {
			seq++
			a.Put(&task.Task{ID: g.Task, State: task.Finished, Seq: seq})
		}
		seq++
		k := limited(int(seq), "j", limit.Concurrency{Max: 1, Key: "big"}, limit.Rate{}, 5)
		k.Seq = seq
		a.Put(k)
	}
}

// A scheduler records that a running task makes place while it does not know yet that the task has
// come back into its line. Whether it learns that before its record or afterwards: the task waits for
// nothing any more, and the next decision is the same.
func TestAStopOutlivesOlderStates(t *testing.T) {
	old := limit.Concurrency{Max: 1, Key: "k", OnLimit: limit.CancelOld}
	for name, c := range map[string]struct {
		back func(*task.Task) // what the older state says
		want string           // who is admitted in the end
	}{
		"released":               {func(*task.Task) {}, "T0002"},
		"released, for later on": {func(is *task.Task) { is.Due = noon.Add(time.Minute) }, "T0002"},
		"moved":                  {func(is *task.Task) { is.Route = placement.QueueRoute("p", 5) }, "T0002"},
		"ended and retried":      {nil, "T0002"},
	} {
		for _, early := range []bool{true, false} {
			a := NewLimiter()
			first := limited(1, "j", old, limit.Rate{}, 5)
			a.Put(first)
			d := a.Decide(noon, 9)
			a.Confirm(&d, 2)
			running := *first
			running.State, running.Turn, running.Seq = task.Running, 1, 3
			a.Granted(task.Grant{Task: first.ID})
			a.Put(&running)
			a.Put(limited(2, "j", old, limit.Rate{}, 5))
			d = a.Decide(noon, 9)
			if got := refusals(d.Replaced); got != "T0001" {
				t.Fatalf("%s: %q make place, want T0001", name, got)
			}
			back := *first
			back.Turn, back.Seq = 7, 7
			tell := func() {
				if c.back == nil {
					a.Put(&task.Task{ID: first.ID, State: task.Finished, Seq: 6, Work: first.Work})
				} else {
					c.back(&back)
				}
				a.Put(&back)
			}
			if early {
				tell()
				a.Confirm(&d, 9)
			} else {
				a.Confirm(&d, 9)
				tell()
			}
			d = a.Decide(noon.Add(time.Hour), 9)
			if got := grants(d); got != c.want {
				t.Errorf("%s, known early %v: %q are admitted, want %s", name, early, got, c.want)
			}
			a.Confirm(&d, 11)
			if len(a.stopped) == 0 {
				t.Errorf("%s, known early %v: the stop is not kept until it is told", name, early)
			}
			a.Put(&task.Task{ID: first.ID, State: task.Cancelled, Seq: 8, Work: first.Work})
			if len(a.stopped) > 0 {
				t.Errorf("%s, known early %v: the stop is kept for ever", name, early)
			}
			reopened := back
			reopened.Seq, reopened.Turn = 12, 12
			a.Put(&reopened) // it has another life
			a.Put(&task.Task{ID: "T0002", State: task.Finished, Seq: 13, Work: task.Work{Job: "j", Spec: first.Spec, Holds: onlyLimit}})
			if got := grants(a.Decide(noon.Add(2*time.Hour), 9)); got != "T0001" {
				t.Errorf("%s, known early %v: after a retry %q are admitted, want T0001", name, early, got)
			}
		}
	}
}

// A grant of an older turn is told while a decision about the present turn is on its way. If that is
// not recorded, the task waits as before; if it is, the task has its place.
func TestAnOldGrantLeavesThePresentTurn(t *testing.T) {
	for recorded, want := range map[bool]string{false: "T0001", true: ""} {
		a := NewLimiter()
		is := limited(1, "j", limit.Concurrency{Max: 2, Key: "k"}, limit.Rate{}, 5)
		is.Turn, is.Seq = 7, 7
		a.Put(is)
		d := a.Decide(noon, 9)
		if got := grants(d); got != "T0001" {
			t.Fatalf("%q are admitted, want T0001", got)
		}
		a.Granted(task.Grant{Task: "T0001", Turn: 3})
		if recorded {
			a.Confirm(&d, 9)
			is.Seq = 8 // a fact that changes nothing
			a.Put(is)
		} else {
			a.Undo(&d)
		}
		if got := grants(a.Decide(noon, 9)); got != want {
			t.Errorf("recorded %v: then %q are admitted, want %q", recorded, got, want)
		}
	}
}

// A stop whose record is told only after a later life of its task has begun concerns the life before.
func TestAStopOfAnEarlierLife(t *testing.T) {
	a := NewLimiter()
	is := limited(1, "j", limit.Concurrency{Max: 1}, limit.Rate{}, 5)
	is.Seq, is.Turn = 12, 12
	a.Put(is)
	a.Stopped(is.ID, 8)
	if got := grants(a.Decide(noon, 9)); got != "T0001" || len(a.stopped) > 0 {
		t.Errorf("%q are admitted, want T0001; %v are kept", got, a.stopped)
	}
}
