package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSeveralCounters(t *testing.T) {
	w := func(s Spec) *Work {
		return &Work{Job: "mail", Route: "images.5", Params: json.RawMessage(`{"to":"acme","by":"acme"}`), Spec: &s}
	}
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"job and key": {Spec{Concurrency: Concurrencies{{Max: 5}, {Max: 1, Key: "{params.to}"}}}, "job:mail 5, key:mail/acme 1"},
		"queue":       {Spec{Concurrency: Concurrencies{{Max: 5, Key: "/{queue}"}}, Rate: Rates{{Limit: 1, Key: "/{queue}"}}}, "key:/images 5, rate:/images"},
		"the same, filled in": {Spec{Concurrency: Concurrencies{{Max: 3, Key: "{params.to}"}, {Max: 2, Key: "{params.by}", OnLimit: LimitSkip}, {Max: 4, Key: "acme"}}},
			"key:mail/acme 2 skip"},
		"two rates of a key": {Spec{Rate: Rates{{Limit: 10}, {Limit: 1000, Per: Duration(time.Hour)}, {Limit: 5, Per: Duration(time.Minute), Key: "x"}}},
			"rate:mail, rate:mail@1h0m0s, rate:mail/x"},
		"a wrong key": {Spec{Concurrency: Concurrencies{{Max: 1}, {Max: 1, Key: "{params.x}"}}}, `concurrency[1].key: {params.x}: the task has no parameter "x"`},
	} {
		counters, err := w(c.spec).Counters()
		var all []string
		for _, of := range counters {
			text := of.Name
			if of.Max > 0 {
				text += fmt.Sprintf(" %d %s", of.Max, of.OnLimit)
			}
			all = append(all, strings.TrimSpace(text))
		}
		got := strings.Join(all, ", ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// One limit is written as ever, and both forms are read.
func TestLimitsInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"handler":"h","concurrency":{"max":5},"rate":{"limit":2,"burst":3}}`:                           "",
		`{"handler":"h","concurrency":[{"max":5},{"max":1,"key":"a"}],"rate":[{"limit":2},{"limit":3}]}`: "",
		`{"handler":"h","concurrency":[{"max":5}],"rate":[{"limit":2}]}`:                                 `{"handler":"h","concurrency":{"max":5},"rate":{"limit":2}}`,
		`{"handler":"h","concurrency":{},"rate":[]}`:                                                     `{"handler":"h","concurrency":[],"rate":[]}`,
		`{"handler":"h"}`: "",
	} {
		var s Spec
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want == "" {
			want = text
		}
		if got, err := json.Marshal(s); string(got) != want || err != nil {
			t.Errorf("%s is written as %s, %v", text, got, err)
		}
	}
	var s Spec
	if err := json.Unmarshal([]byte(`{"concurrency":5}`), &s); err == nil {
		t.Error("a number is read as a limit")
	}
}

func TestSeveralLimitsValidate(t *testing.T) {
	for want, s := range map[string]Spec{
		"concurrency[1].max is missing":     {Concurrency: Concurrencies{{Max: 1}, {Key: "a"}}},
		"rate[0].limit is missing":          {Rate: Rates{{}, {Limit: 1}}},
		"concurrency[1].key is":             {Concurrency: Concurrencies{{Max: 1}, {Max: 1, Key: "{queue.x}"}}},
		"concurrency has 9 entries, want a": {Concurrency: make(Concurrencies, 9)},
		"rate has 9 entries, want at most":  {Rate: make(Rates, 9)},
	} {
		s.Handler = "h"
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, s := range []Submission{{}, {Concurrency: Concurrencies{}, Rate: Rates{}}, {Concurrency: Concurrencies{{Max: 7}}}} {
		birth, err := Birth(s, &Job{Name: "j", Spec: Spec{Handler: "h", Concurrency: Concurrencies{{Max: 1}}, Rate: Rates{{Limit: 1}}}}, 1, noon)
		if err != nil {
			t.Fatal(err)
		}
		want := "[{1  }] [{1 0s 0 }]"
		switch {
		case len(s.Concurrency) > 0:
			want = "[{7  }] [{1 0s 0 }]"
		case s.Concurrency != nil:
			want = "[] []"
		}
		if got := fmt.Sprint(birth.Spec.Concurrency, birth.Spec.Rate); got != want {
			t.Errorf("%+v makes %s, want %s", s, got, want)
		}
	}
}

// under makes a task that waits for several limits.
func under(n int, c ...Concurrency) *Task {
	t := limited(n, "j", Concurrency{}, Rate{}, 5)
	t.Spec.Concurrency = c
	return t
}

// A task takes a place under all of its limits or under none, so what waits for one holds no other.
func TestAllOrNone(t *testing.T) {
	job, a, b := Concurrency{Max: 3}, Concurrency{Max: 1, Key: "a"}, Concurrency{Max: 1, Key: "b"}
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
	l.Confirm(&d)
	for _, c := range []struct{ id, full string }{{"T0002", "key:j/a"}, {"T0003", "key:j/a key:j/b"}} {
		s, _ := l.Standing(ID(c.id), noon, 1)
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
	done.State, done.Seq = Finished, 100
	l.Put(done)
	if got := grants(l.Decide(noon, 100)); got != "T0005" { // the third one waits for a, too
		t.Errorf("then admitted %s", got)
	}
}

// Two that need the same two limits, named in different order, never wait for each other.
func TestNoCircle(t *testing.T) {
	a, b := Concurrency{Max: 1, Key: "a"}, Concurrency{Max: 1, Key: "b"}
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
		l.Confirm(&d)
		l.Put(&Task{ID: d.Grants[0].Task, State: Finished, Seq: uint64(100 + n)})
	}
}

func TestOnLimitOfSeveral(t *testing.T) {
	wait := Concurrency{Max: 1}
	key := func(onLimit string) Concurrency { return Concurrency{Max: 1, Key: "k", OnLimit: onLimit} }
	other := func(onLimit string) Concurrency { return Concurrency{Max: 1, Key: "o", OnLimit: onLimit} }
	for name, c := range map[string]struct {
		holders           [][]Concurrency
		last              []Concurrency
		refused, replaced string
		by                string
	}{
		"only the one that waits is full":     {[][]Concurrency{{wait}}, []Concurrency{wait, key(LimitSkip)}, "", "", ""},
		"the one that skips is full":          {[][]Concurrency{{key("")}}, []Concurrency{wait, key(LimitSkip)}, "T0009", "", "key:j/k"},
		"both are full":                       {[][]Concurrency{{wait}, {key("")}}, []Concurrency{wait, key(LimitFail)}, "T0009", "", "key:j/k"},
		"the old one makes room":              {[][]Concurrency{{wait, key("")}}, []Concurrency{other(""), key(LimitCancelOld)}, "", "T0001", "key:j/k"},
		"in vain, so it does not":             {[][]Concurrency{{wait}, {key("")}}, []Concurrency{wait, key(LimitCancelOld)}, "", "", ""},
		"two make room":                       {[][]Concurrency{{other("")}, {key("")}}, []Concurrency{other(LimitCancelOld), key(LimitCancelOld)}, "", "T0001 T0002", "key:j/o"},
		"one under both makes room only once": {[][]Concurrency{{other(""), key("")}}, []Concurrency{other(LimitCancelOld), key(LimitCancelOld)}, "", "T0001", "key:j/o"},
	} {
		l := NewLimiter()
		for i, h := range c.holders {
			l.Put(under(i+1, h...))
		}
		d := l.Decide(noon, 10)
		if len(d.Grants) != len(c.holders) {
			t.Fatalf("%s: at first %+v", name, d)
		}
		l.Confirm(&d)
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
	// One that waited for another limit is refused when it would have been its turn.
	l := NewLimiter()
	for n, c := range [][]Concurrency{{wait}, {wait, key(LimitSkip)}} {
		l.Put(under(n+1, c...))
	}
	d := l.Decide(noon, 10)
	l.Confirm(&d)
	l.Put(under(5, key("")))
	d = l.Decide(noon, 10)
	l.Confirm(&d)
	l.Put(&Task{ID: "T0001", State: Finished, Seq: 100})
	if d = l.Decide(noon, 10); refusals(d.Refused) != "T0002" {
		t.Errorf("when its turn came: %+v", d)
	}
}

func TestRefuseIsOfOneLimit(t *testing.T) {
	held := Task{ID: "T", State: Held, Work: Work{Job: "j", Holds: onlyLimit, Spec: &Spec{Handler: "h",
		Concurrency: Concurrencies{{Max: 1, OnLimit: LimitSkip}, {Max: 1, Key: "k", OnLimit: LimitFail}}}}}
	for limit, want := range map[string]Event{
		"job:j":   CancelConfirmed{Code: ReasonLimit, Reason: "full"},
		"key:j/k": GivenUp{Reason: ReasonLimit, Detail: "full"},
	} {
		if got, err := Decide(held, Refuse{Limit: limit, Detail: "full"}, noon); got != want || err != nil {
			t.Errorf("%s: %+v, %v", limit, got, err)
		}
	}
}

// A pause shuts all rates of the task that asked.
func TestPauseOfSeveral(t *testing.T) {
	l := NewLimiter()
	k := limited(1, "j", Concurrency{}, Rate{Limit: 10}, 5)
	k.Spec.Rate = append(k.Spec.Rate, Rate{Limit: 1000, Per: Duration(time.Hour), Burst: 5})
	until := noon.Add(time.Minute)
	shut := l.Pause(&k.Work, until)
	if len(shut) != 2 || !shut["rate:j"].Opens(k.Spec.Rate[0]).Equal(until) || !shut["rate:j@1h0m0s"].Opens(k.Spec.Rate[1]).Equal(until) {
		t.Errorf("shut %v", shut)
	}
}

// Many keys that share two more limits: whoever frees a place does not have all of them looked at.
func BenchmarkAdmissionUnderSeveral(b *testing.B) {
	for _, keys := range []int{100, 10_000} {
		b.Run(fmt.Sprint(keys, "keys"), func(b *testing.B) {
			l := NewLimiter()
			seq := 0
			put := func(key int) {
				seq++
				l.Put(under(seq, Concurrency{Max: 5}, Concurrency{Max: 50, Key: "/all"}, Concurrency{Max: 1, Key: fmt.Sprint(key)}))
			}
			for n := range keys {
				put(n)
			}
			for n := 0; b.Loop(); n++ {
				d := l.Decide(noon, 400)
				l.Confirm(&d)
				for _, g := range d.Grants {
					seq++
					l.Put(&Task{ID: g.Task, State: Finished, Seq: uint64(seq)})
					put(n % keys)
				}
			}
		})
	}
}
