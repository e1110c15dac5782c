package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCounters(t *testing.T) {
	five := Concurrency{Max: 5}
	keyed := func(key string) Spec { return Spec{Concurrency: Concurrencies{{Max: 2, Key: key}}} }
	for name, c := range map[string]struct {
		work Work
		spec Spec
		want string
	}{
		"none":         {Work{Job: "mail"}, Spec{}, "[]"},
		"job":          {Work{Job: "mail"}, Spec{Concurrency: Concurrencies{five}}, "[job:mail]"},
		"no job":       {Work{Route: "images.5"}, Spec{Concurrency: Concurrencies{five}}, "[queue:images]"},
		"own route":    {Work{Route: "@n1.5"}, Spec{Concurrency: Concurrencies{five}, Place: Place{Queue: "images"}}, "[queue:images]"},
		"parameter":    {Work{Job: "mail", Params: json.RawMessage(`{"to":"acme"}`)}, keyed("{params.to}"), "[key:mail/acme]"},
		"number":       {Work{Job: "mail", Params: json.RawMessage(`{"to":[1,2]}`)}, keyed("x-{params.to}-y"), "[key:mail/x-[1,2]-y]"},
		"label":        {Work{Job: "mail", Labels: map[string]string{"a.b": "c"}}, keyed("{labels.a.b}"), "[key:mail/c]"},
		"common":       {Work{Job: "mail"}, keyed("/shared"), "[key:/shared]"},
		"key, no job":  {Work{Route: "images.5"}, keyed("a"), "[key:queue.images/a]"},
		"rate":         {Work{Job: "mail"}, Spec{Rate: Rates{{Limit: 1}}}, "[rate:mail]"},
		"both":         {Work{Job: "mail"}, Spec{Concurrency: Concurrencies{five}, Rate: Rates{{Limit: 1, Key: "/k"}}}, "[job:mail rate:/k]"},
		"no parameter": {Work{Job: "mail", Params: json.RawMessage(`{"by":1}`)}, keyed("{params.to}"), `concurrency.key: {params.to}: the task has no parameter "to"`},
		"no label":     {Work{Job: "mail"}, Spec{Rate: Rates{{Limit: 1, Key: "{labels.x}"}}}, `rate.key: {labels.x}: the task has no label "x"`},
		"too long":     {Work{Job: "mail", Labels: map[string]string{"x": strings.Repeat("x", 300)}}, keyed("{labels.x}"), `concurrency.key: "{labels.x}" becomes 300 bytes long, want at most 256`},
	} {
		c.work.Spec = &c.spec
		counters, err := c.work.Counters()
		names := []string{}
		for _, counter := range counters {
			names = append(names, counter.Name)
		}
		got := fmt.Sprint(names)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Concurrency: Concurrencies{{Max: -1}}}, "concurrency.max"},
		{Spec{Concurrency: Concurrencies{{Key: "a"}}}, "concurrency.max is missing"},
		{Spec{Concurrency: Concurrencies{{Max: 1, OnLimit: "kill"}}}, "concurrency.on_limit"},
		{Spec{Concurrency: Concurrencies{{Max: 1, Key: "{x}"}}}, "concurrency.key"},
		{Spec{Concurrency: Concurrencies{{Max: 1, Key: "{params.x"}}}, "concurrency.key"},
		{Spec{Concurrency: Concurrencies{{Max: 1, Key: "a\nb"}}}, "concurrency.key"},
		{Spec{Rate: Rates{{Burst: 2}}}, "rate.limit is missing"},
		{Spec{Rate: Rates{{Limit: 2, Per: -1}}}, "rate.per"},
		{Spec{Rate: Rates{{Limit: 2, Per: 1}}}, "rate.limit"},
		{Spec{Rate: Rates{{Limit: 2, Burst: 1 << 30}}}, "rate.burst"},
		{Spec{Unique: Unique{TTL: 1}}, "unique.key is missing"},
		{Spec{Unique: Unique{Key: "a", While: []string{"asleep"}}}, "unique.while"},
		{Spec{Unique: Unique{Key: "a", OnConflict: "x"}}, "unique.on_conflict"},
		{Spec{Concurrency: Concurrencies{{Max: 1, Key: "{params.x}/{labels.y}"}}, Rate: Rates{{Limit: 1}}, Unique: Unique{Key: "/{params.z}"}}, ""},
	} {
		c.spec.Handler = "h"
		err := c.spec.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
}

// A bucket admits its burst at once and then one after the other, and what it admits in any
// span is never more than burst and rate allow.
func TestBucket(t *testing.T) {
	r := Rate{Limit: 10, Per: Duration(time.Minute), Burst: 3}
	var b Bucket
	now := noon
	if got := b.Left(r, now); got != 3 {
		t.Errorf("untouched, %d are left, want 3", got)
	}
	var at []time.Time
	for i := range 600 {
		now = noon.Add(time.Duration(i) * 100 * time.Millisecond)
		for !b.Opens(r).After(now) {
			if b.Left(r, now) == 0 {
				t.Fatalf("at %v it is open and nothing is left", now)
			}
			b = b.Take(r, now)
			at = append(at, now)
		}
		if b.Left(r, now) != 0 {
			t.Fatalf("at %v it is shut and %d are left", now, b.Left(r, now))
		}
	}
	if len(at) != 3+9 {
		t.Errorf("%d were admitted in a minute, want the burst of 3 and 9 more", len(at))
	}
	until := now.Add(time.Hour)
	if b = b.Pause(r, until); !b.Opens(r).Equal(until) {
		t.Errorf("paused until %v, it opens at %v", until, b.Opens(r))
	}
	if b.Pause(r, now) != b {
		t.Error("a pause that is over shuts it for longer")
	}
}

// limited makes a task that waits for its limits; those that are zero are none.
func limited(n int, job string, c Concurrency, r Rate, priority int) *Task {
	spec := &Spec{Handler: "h"}
	if c.Max > 0 {
		spec.Concurrency = Concurrencies{c}
	}
	if r.Limit > 0 {
		spec.Rate = Rates{r}
	}
	return &Task{ID: ID(fmt.Sprintf("T%04d", n)), State: Held, Reason: HoldLimit, Seq: uint64(n), SubmittedAt: noon.Add(time.Duration(n)),
		Work: Work{Job: job, Spec: spec, Route: QueueRoute("q", priority), Holds: onlyLimit}}
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
	two := Concurrency{Max: 2}
	for n, p := range []int{5, 5, 9, 1, 9} {
		a.Put(limited(n+1, "j", two, Rate{}, p))
	}
	d := a.Decide(noon, 100)
	if got := grants(d); got != "T0003 T0005" {
		t.Errorf("admitted %s, want the most urgent two", got)
	}
	a.Confirm(&d)
	if d := a.Decide(noon, 100); !d.Empty() || !d.Next.IsZero() {
		t.Errorf("with all places taken: %+v", d)
	}
	done := limited(3, "j", two, Rate{}, 9)
	done.State, done.Seq = Finished, 100
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
		"wait":       {LimitWait, "T0001", "", ""},
		"skip":       {LimitSkip, "T0001", "T0002 T0003", ""},
		"fail":       {LimitFail, "T0001", "T0002 T0003", ""},
		"cancel old": {LimitCancelOld, "T0001", "", "T0001 T0002"},
	} {
		a := NewLimiter()
		for n := range 3 {
			a.Put(limited(n+1, "j", Concurrency{Max: 1, OnLimit: c.onLimit}, Rate{}, 5))
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

// One that has run before waits, whatever it said at first.
func TestOnLimitIsForTheFirstAttempt(t *testing.T) {
	a := NewLimiter()
	a.Put(limited(1, "j", Concurrency{Max: 1}, Rate{}, 5))
	again := limited(2, "j", Concurrency{Max: 1, OnLimit: LimitSkip}, Rate{}, 5)
	again.State, again.Attempt = Retrying, 1
	a.Put(again)
	if d := a.Decide(noon, 10); grants(d) != "T0001" || len(d.Refused) > 0 {
		t.Errorf("decided %+v", d)
	}
}

// One that was admitted and postponed waits for its place again, and could be refused all the same: nobody forgets it.
func TestOnLimitIsNotForThePostponed(t *testing.T) {
	a := NewLimiter()
	a.Put(limited(1, "j", Concurrency{Max: 1}, Rate{}, 5))
	late := limited(2, "j", Concurrency{Max: 1, OnLimit: LimitSkip}, Rate{}, 5)
	late.State = Scheduled
	a.Put(late)
	if d := a.Decide(noon, 10); grants(d) != "T0001" || len(d.Refused) > 0 {
		t.Errorf("decided %+v", d)
	}
	if _, err := late.Decide(Refuse{Limit: "job:j"}, noon); err != nil {
		t.Errorf("refused: %v", err)
	}
}

func TestAdmissionByRate(t *testing.T) {
	a := NewLimiter()
	r := Rate{Limit: 1, Per: Duration(time.Second), Burst: 2, Key: "a"}
	for n := range 4 {
		a.Put(limited(n+1, "j", Concurrency{}, r, 5))
	}
	d := a.Decide(noon, 100)
	if grants(d) != "T0001 T0002" || !d.Next.Equal(noon.Add(time.Second)) {
		t.Errorf("at first %+v", d)
	}
	a.Undo(&d)
	if d = a.Decide(noon, 100); grants(d) != "T0001 T0002" {
		t.Errorf("undone and again: %+v", d)
	}
	a.Confirm(&d)
	d = a.Decide(d.Next, 100)
	if grants(d) != "T0003" {
		t.Errorf("a second later %+v", d)
	}
}

// A decision that is taken back because its answer was lost, and told nevertheless, has used up what it took.
func TestUndoOfWhatWasTold(t *testing.T) {
	a := NewLimiter()
	for n := range 4 {
		a.Put(limited(n+1, "j", Concurrency{}, Rate{Limit: 1, Burst: 2}, 5))
	}
	d := a.Decide(noon, 100)
	for _, g := range d.Grants {
		a.Granted(g)
	}
	for name, used := range d.Rates {
		a.Bucket(name, Bucket(used))
	}
	a.Undo(&d)
	if d := a.Decide(noon, 100); !d.Empty() {
		t.Errorf("admitted once more: %+v", d)
	}
}

// What is shut for one holds up nobody else with the same counter.
func TestAClosedRateHoldsUpNobody(t *testing.T) {
	a := NewLimiter()
	slow, fast := Rate{Limit: 1, Per: Duration(time.Hour), Key: "slow"}, Rate{Limit: 1000, Burst: 1000, Key: "fast"}
	for n := range 100 {
		a.Put(limited(n+1, "j", Concurrency{Max: 3}, slow, 5))
	}
	a.Put(limited(200, "j", Concurrency{Max: 3}, fast, 1))
	a.Put(limited(201, "j", Concurrency{Max: 3}, fast, 1))
	a.Put(limited(202, "j", Concurrency{Max: 3}, fast, 1))
	if got := grants(a.Decide(noon, 100)); got != "T0001 T0200 T0201" {
		t.Errorf("admitted %s", got)
	}
}

func TestAdmissionIsInTime(t *testing.T) {
	a := NewLimiter()
	later := limited(1, "j", Concurrency{Max: 1}, Rate{}, 9)
	later.Due = noon.Add(time.Minute)
	a.Put(later)
	a.Put(limited(2, "j", Concurrency{Max: 1}, Rate{}, 5))
	d := a.Decide(noon, 10)
	if grants(d) != "T0002" || !d.Next.Equal(later.Due) {
		t.Errorf("decided %+v: what is not due takes no place", d)
	}
}

func TestAdmissionOfAnOldTurn(t *testing.T) {
	a := NewLimiter()
	k := limited(1, "j", Concurrency{Max: 1}, Rate{}, 5)
	a.Put(k)
	moved := *k
	moved.Turn, moved.Seq = 7, 7
	a.Put(&moved)
	a.Granted(Grant{Task: k.ID})
	if len(a.Unoffered()) != 0 {
		t.Error("a grant of the turn before counts")
	}
	a.Granted(Grant{Task: k.ID, Turn: 7})
	if got := a.Unoffered(); len(got) != 1 || got[0].Turn != 7 {
		t.Errorf("admitted and not offered: %v", got)
	}
}

// Whatever happens in whatever order, no limit is exceeded, and nobody waits for whom there
// is place.
func TestAdmissionAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := NewLimiter()
		tasks := map[ID]*Task{}
		granted, under := map[ID]uint64{}, map[ID]uint64{}
		now, seq := noon, uint64(0)
		var queue Queue
		var rated time.Time // since when the queue has its rate
		started := 0        // since then
		for range 150 {
			seq++
			now = now.Add(time.Duration(rng.IntN(400)) * time.Millisecond)
			if rng.IntN(20) == 0 {
				rate := []Rate{{}, {Limit: 4}, {Limit: 1, Burst: 3}}[rng.IntN(3)]
				queue = Queue{Name: "q", Head: seq, Rate: rate, RateSince: seq}
				rated, started = now, 0
				a.Queue(queue)
			}
			switch n := rng.IntN(10); {
			case n < 4:
				var c Concurrency
				var r Rate
				if rng.IntN(4) > 0 {
					c = Concurrency{Max: 2, Key: string('a' + rune(rng.IntN(2)))}
				}
				if c.Max == 0 || rng.IntN(2) == 0 {
					r = Rate{Limit: 2, Per: Duration(time.Second), Burst: 2, Key: string('x' + rune(rng.IntN(2)))}
				}
				k := limited(int(seq), "j", c, r, 1+rng.IntN(9))
				if rng.IntN(3) == 0 {
					k.Spec, k.Throttled = &Spec{Handler: "h"}, true // put back by a worker
				} else if rng.IntN(3) == 0 {
					k.Spec.Concurrency = append(k.Spec.Concurrency, Concurrency{Max: 2, Key: string('c' + rune(rng.IntN(2)))})
				}
				if rng.IntN(6) == 0 {
					k.Spec.Rate = append(k.Spec.Rate, Rate{Limit: 3, Per: Duration(time.Second), Burst: 3, Key: "z"})
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
						k.State = Finished
					case k.State == Pending:
						k.State, k.Attempt = Running, k.Attempt+1
					case k.State == Running && !k.Spec.Limited():
						k.State, k.Holds, k.Turn, k.Throttled = Held, onlyLimit, seq, true
					case k.State == Running:
						k.State, k.Holds, k.Turn = Retrying, onlyLimit, seq
						k.Due = now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
					case granted[k.ID] == k.Turn && k.Turn != 0:
						k.State, k.Holds, k.Throttled, k.Rated = Pending, nil, false, under[k.ID]
					}
					a.Put(k)
					if k.State == Finished {
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
			a.Confirm(&d)
			for _, g := range d.Grants {
				if k := tasks[g.Task]; k.Due.After(now) || k.Turn != g.Turn || !k.Admissible() {
					t.Fatalf("seed %d: admitted %+v for turn %d at %v", seed, k, g.Turn, now)
				}
				granted[g.Task], under[g.Task] = g.Turn, g.Rated
				if k := tasks[g.Task]; g.Turn == 0 { // the birth's: offer at once
					k.State, k.Holds, k.Throttled, k.Rated = Pending, nil, false, g.Rated
				}
				if g.Rated != queue.RateSince {
					t.Fatalf("seed %d: admitted under the rate of %d, and it is that of %d", seed, g.Rated, queue.RateSince)
				}
			}
			if started += len(d.Grants); queue.Rate.Limit > 0 && started > max(queue.Rate.Burst, 1)+int(now.Sub(rated)/queue.Rate.Every()) {
				t.Fatalf("seed %d: %d admitted in %v under %+v", seed, started, now.Sub(rated), queue.Rate)
			}
			using, ahead := map[string]int{}, 0
			for _, k := range tasks {
				if turn, ok := granted[k.ID]; !k.Live() && k.Holding(turn, ok) && under[k.ID] == queue.RateSince {
					ahead++
				}
				if turn, ok := granted[k.ID]; k.Holding(turn, ok) {
					counters, _ := k.Counters()
					for _, c := range counters {
						if c.Max > 0 {
							using[c.Name]++
						}
					}
				}
			}
			if queue.Rate.Limit > 0 && ahead > queue.Rate.ahead() {
				t.Fatalf("seed %d: %d are admitted and have not started, under %+v", seed, ahead, queue.Rate)
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
				if k.Holding(turn, ok) || k.Due.After(now) {
					continue
				}
				counters, _ := k.Counters()
				if queue.Rate.Limit > 0 {
					counters = append(counters, Counter{Name: RateOf(&queue).Counter(), Rate: queue.Rate})
				}
				free := queue.Rate.Limit == 0 || ahead < queue.Rate.ahead()
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

// To admit one of many that wait costs little: 50,000 of one key are decided in a moment,
// and another key does not feel them.
func BenchmarkAdmission(b *testing.B) {
	a := NewLimiter()
	for n := range 50_000 {
		k := limited(n, "j", Concurrency{Max: 1, Key: "big"}, Rate{}, 5)
		a.Put(k)
	}
	seq := uint64(1 << 20)
	for b.Loop() {
		d := a.Decide(noon, 400)
		a.Confirm(&d)
		for _, g := range d.Grants {
			seq++
			a.Put(&Task{ID: g.Task, State: Finished, Seq: seq})
		}
		seq++
		k := limited(int(seq), "j", Concurrency{Max: 1, Key: "big"}, Rate{}, 5)
		k.Seq = seq
		a.Put(k)
	}
}
