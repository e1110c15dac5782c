package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/value"
)

// under makes a task that waits for several limits.
func under(n int, c ...limit.Concurrency) *task.Task {
	t := limited(n, "j", limit.Concurrency{}, limit.Rate{}, 5)
	t.Spec.Concurrency = c
	return t
}

// A task takes a place under all of its limits or under none, so a waiting task holds no place.
func TestAllOrNone(t *testing.T) {
	job, a, b := limit.Concurrency{Max: 3}, limit.Concurrency{Max: 1, Key: "a"}, limit.Concurrency{Max: 1, Key: "b"}
	l := NewLimiter()
	l.Put(under(1, job, a))
	l.Put(under(2, job, a))
	l.Put(under(3, job, b, a))
	l.Put(under(4, job, b))
	l.Put(under(5, job, b))
	d := l.Decide(noon, 100)
	if got := grants(d); got != "T0001 T0004" {
		t.Fatalf("admitted %s, want those of whom no limit is taken", got)
	}
	if got := fmt.Sprint(d.Grants[0].Limits); got != "[job:j key:j/a]" {
		t.Errorf("the grant names %s", got)
	}
	l.Confirm(&d, 0)
	for _, c := range []struct{ id, full string }{{"T0002", "key:j/a"}, {"T0003", "key:j/a key:j/b"}} {
		s, _ := l.Standing(task.ID(c.id), noon, 1)
		var full []string
		for _, of := range s.Counters {
			if of.Full {
				full = append(full, of.Name)
			}
		}
		if got := strings.Join(full, " "); got != c.full || s.Admitted {
			t.Errorf("%s: in the way are %s, want %s", c.id, got, c.full)
		}
	}
	done := under(4, job, b)
	done.State, done.Seq = task.Finished, 100
	l.Put(done)
	if got := grants(l.Decide(noon, 100)); got != "T0005" { // the third task waits for a, too
		t.Errorf("then admitted %s", got)
	}
}

// Two tasks that need the same two limits, named in different order, never wait for each other.
func TestNoCircle(t *testing.T) {
	a, b := limit.Concurrency{Max: 1, Key: "a"}, limit.Concurrency{Max: 1, Key: "b"}
	l := NewLimiter()
	for n := 1; n <= 10; n += 2 {
		l.Put(under(n, a, b))
		l.Put(under(n+1, b, a))
	}
	for n := range 10 {
		d := l.Decide(noon, 100)
		if len(d.Grants) != 1 {
			t.Fatalf("turn %d admits %q, want one", n, grants(d))
		}
		l.Confirm(&d, 0)
		l.Put(&task.Task{ID: d.Grants[0].Task, State: task.Finished, Seq: uint64(100 + n)})
	}
}

func TestOnLimitOfSeveral(t *testing.T) {
	wait := limit.Concurrency{Max: 1}
	key := func(onLimit string) limit.Concurrency { return limit.Concurrency{Max: 1, Key: "k", OnLimit: onLimit} }
	other := func(onLimit string) limit.Concurrency { return limit.Concurrency{Max: 1, Key: "o", OnLimit: onLimit} }
	for name, c := range map[string]struct {
		holders           [][]limit.Concurrency
		last              []limit.Concurrency
		refused, replaced string
		by                string
	}{
		"only the one that waits is full":     {[][]limit.Concurrency{{wait}}, []limit.Concurrency{wait, key(limit.Skip)}, "", "", ""},
		"the one that skips is full":          {[][]limit.Concurrency{{key("")}}, []limit.Concurrency{wait, key(limit.Skip)}, "T0009", "", "key:j/k"},
		"both are full":                       {[][]limit.Concurrency{{wait}, {key("")}}, []limit.Concurrency{wait, key(limit.Fail)}, "T0009", "", "key:j/k"},
		"the old one makes room":              {[][]limit.Concurrency{{wait, key("")}}, []limit.Concurrency{other(""), key(limit.CancelOld)}, "", "T0001", "key:j/k"},
		"in vain, so it does not":             {[][]limit.Concurrency{{wait}, {key("")}}, []limit.Concurrency{wait, key(limit.CancelOld)}, "", "", ""},
		"two make room":                       {[][]limit.Concurrency{{other("")}, {key("")}}, []limit.Concurrency{other(limit.CancelOld), key(limit.CancelOld)}, "", "T0001 T0002", "key:j/o"},
		"one under both makes room only once": {[][]limit.Concurrency{{other(""), key("")}}, []limit.Concurrency{other(limit.CancelOld), key(limit.CancelOld)}, "", "T0001", "key:j/o"},
	} {
		l := NewLimiter()
		for i, h := range c.holders {
			l.Put(under(i+1, h...))
		}
		d := l.Decide(noon, 10)
		if len(d.Grants) != len(c.holders) {
			t.Fatalf("%s: at first %+v", name, d)
		}
		l.Confirm(&d, 0)
		l.Put(under(9, c.last...))
		d = l.Decide(noon, 10)
		if len(d.Grants) > 0 || refusals(d.Refused) != c.refused {
			t.Errorf("%s: admitted %q, refused %q", name, grants(d), refusals(d.Refused))
		}
		if got := refusals(d.Replaced); got != c.replaced && !(name == "one under both makes room only once" && len(d.Replaced) == 1) {
			t.Errorf("%s: replaced %q", name, got)
		}
		if d := l.Decide(noon, 10); !d.Empty() {
			t.Errorf("%s: again %+v", name, d)
		}
	}
	// A task that waited for another limit is refused when its turn comes.
	l := NewLimiter()
	for n, c := range [][]limit.Concurrency{{wait}, {wait, key(limit.Skip)}} {
		l.Put(under(n+1, c...))
	}
	d := l.Decide(noon, 10)
	l.Confirm(&d, 0)
	l.Put(under(5, key("")))
	d = l.Decide(noon, 10)
	l.Confirm(&d, 0)
	l.Put(&task.Task{ID: "T0001", State: task.Finished, Seq: 100})
	if d = l.Decide(noon, 10); refusals(d.Refused) != "T0002" {
		t.Errorf("when its turn came: %+v", d)
	}
}

// A delay that a task asks for shuts all its rates.
func TestPauseOfSeveral(t *testing.T) {
	l := NewLimiter()
	k := limited(1, "j", limit.Concurrency{}, limit.Rate{Limit: 10}, 5)
	k.Spec.Rate = append(k.Spec.Rate, limit.Rate{Limit: 1000, Per: value.Duration(time.Hour), Burst: 5})
	until := noon.Add(time.Minute)
	shut := l.Pause(&k.Work, until)
	if len(shut) != 2 || !shut["rate:j"].Opens(k.Spec.Rate[0]).Equal(until) || !shut["rate:j@1h0m0s"].Opens(k.Spec.Rate[1]).Equal(until) {
		t.Errorf("shut %v", shut)
	}
}

// Many keys share two more limits: a freed place does not cause all of them to be examined.
func BenchmarkAdmissionUnderSeveral(b *testing.B) {
	for _, keys := range []int{100, 10_000} {
		b.Run(fmt.Sprint(keys, "keys"), func(b *testing.B) {
			l := NewLimiter()
			seq := 0
			put := func(key int) {
				seq++
				l.Put(under(seq, limit.Concurrency{Max: 5}, limit.Concurrency{Max: 50, Key: "/all"}, limit.Concurrency{Max: 1, Key: fmt.Sprint(key)}))
			}
			for n := range keys {
				put(n)
			}
			for n := 0; b.Loop(); n++ {
				d := l.Decide(noon, 400)
				l.Confirm(&d, 0)
				for _, g := range d.Grants {
					seq++
					l.Put(&task.Task{ID: g.Task, State: task.Finished, Seq: uint64(seq)})
					put(n % keys)
				}
			}
		})
	}
}
