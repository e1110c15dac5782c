package load

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// result has one round for each of these start latencies; everything else in them is the same.
func result(starts ...float64) *Result {
	r := &Result{Profile: "steady", Rate: 10, Seconds: 1, Spacing: Even}
	for _, s := range starts {
		r.Rounds = append(r.Rounds, Round{PerSecond: 10, Start: Latency{P50: s, P99: 5}, End: Latency{P99: 7}, Server: 100, Memory: 1 << 20})
	}
	return r
}

func TestBounds(t *testing.T) {
	took := &Result{Rounds: []Round{{Disk: 5 << 20, Memory: 7 << 20}, {Disk: 5<<20 + 9, Memory: 6 << 20}}}
	for want, b := range map[string]Bounds{
		"": {Disk: 6 << 20, Memory: 7 << 20},
		"round 2: the server took 5 MiB of disk, more than 5 MiB":   {Disk: 5 << 20},
		"round 1: the server took 7 MiB of memory, more than 6 MiB": {Memory: 6 << 20},
	} {
		said := ""
		if err := b.Over(took); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%+v: %q, want %q", b, said, want)
		}
	}
	if err := (Bounds{}).Over(took); err != nil {
		t.Error(err)
	}
}

func TestCompare(t *testing.T) {
	calm := []float64{10, 10.2, 9.9, 10.1, 10}
	change := func(r *Result, of func(*Round)) *Result {
		for i := range r.Rounds {
			of(&r.Rounds[i])
		}
		return r
	}
	for name, c := range map[string]struct {
		was, is *Result
		worse   []string
		unlike  bool
	}{
		"the same":                     {result(calm...), result(calm...), nil, false},
		"twice as slow":                {result(calm...), result(20, 21, 19, 20, 22), []string{"until the start p50, ms"}, false},
		"twice as fast":                {result(calm...), result(5, 5, 5, 5, 5), nil, false},
		"slower within the margin":     {result(calm...), result(10.3, 10.4, 10.3, 10.35, 10.4), nil, false},
		"one slow round is noise":      {result(calm...), result(10, 10, 10, 10, 90), nil, false},
		"slower in the middle of much": {result(5, 20, 9, 14, 11), result(10, 25, 14, 18, 17), nil, false},
		"three slow rounds of five":    {result(calm...), result(20, 20, 20, 10, 10), nil, false},
		"ten rounds of noise":          {result(slices.Repeat(calm, 2)...), result(20, 20, 20, 20, 20, 20, 20, 20, 20, 10), []string{"until the start p50, ms"}, false},
		"lower throughput":             {result(calm...), change(result(calm...), func(r *Round) { r.PerSecond = 8 }), []string{"done per second"}, false},
		"higher throughput":            {result(calm...), change(result(calm...), func(r *Round) { r.PerSecond = 12 }), nil, false},
		"more of everything": {result(calm...), change(result(calm...), func(r *Round) { r.Start.P99, r.End.P99, r.Server, r.Memory = 6, 8, 120, 2<<20 }),
			[]string{"until the start p99, ms", "until the end p99, ms", "processor time of a task, server, µs", "server memory, max, MiB"}, false},
		"not measured before": {change(result(calm...), func(r *Round) { r.Memory = 0 }), change(result(calm...), func(r *Round) { r.Memory = 9 << 30 }), nil, false},
		"one task lost":       {result(calm...), func() *Result { r := result(calm...); r.Rounds[3].Lost = 1; return r }(), []string{"failed, lost, duplicated"}, false},
		"too few rounds":      {result(10, 10, 10), result(90, 90, 90), nil, true},
		"no rounds":           {result(), result(calm...), nil, true},
		"another rate":        {result(calm...), func() *Result { r := result(calm...); r.Rate = 11; return r }(), nil, true},
		"another profile":     {result(calm...), func() *Result { r := result(calm...); r.Profile = "burst"; return r }(), nil, true},
		"another length":      {result(calm...), func() *Result { r := result(calm...); r.Seconds = 2; return r }(), nil, true},
		"other arrivals":      {result(calm...), func() *Result { r := result(calm...); r.Spacing = Poisson; return r }(), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Compare(c.was, c.is)
			if c.unlike != errors.Is(err, ErrUnlike) || !c.unlike && err != nil {
				t.Fatalf("the error is %v", err)
			}
			if early := Comparable(c.was, c.is, len(c.is.Rounds)); c.unlike != errors.Is(early, ErrUnlike) {
				t.Errorf("beforehand it is %v", early)
			}
			var worse []string
			for _, f := range found {
				if f.Worse {
					worse = append(worse, f.What)
				}
			}
			if !slices.Equal(worse, c.worse) {
				t.Errorf("worse is %q, want %q: %+v", worse, c.worse, found)
			}
		})
	}
}

// The expected ranks come from tables of Mann and Whitney's U: the largest significant value, plus
// one.
func TestRank(t *testing.T) {
	for _, c := range []struct {
		m, n  int
		doubt float64
		want  int
	}{
		{3, 3, 0.05, 1}, {3, 3, 0.04, 0}, {5, 5, 0.05, 5}, {5, 5, 0.025, 3}, {5, 5, 0.01, 2}, {5, 5, 0.001, 0},
		{4, 6, 0.05, 4}, {6, 4, 0.05, 4}, {10, 10, 0.05, 28}, {10, 10, 0.025, 24}, {20, 20, 0.05, 139}, {1, 1, 0.4, 0}, {0, 5, 0.05, 0},
	} {
		if got := rank(c.m, c.n, c.doubt); got != c.want {
			t.Errorf("rank(%d, %d, %v) is %d, want %d", c.m, c.n, c.doubt, got, c.want)
		}
	}
}

// Where nothing has changed, a comparison reports a change for the worse no more often than it
// claims.
func TestDoubt(t *testing.T) {
	by := rand.New(rand.NewPCG(3, 4))
	noisy := func() *Result {
		r := result(0, 0, 0, 0, 0)
		for i := range r.Rounds {
			of := &r.Rounds[i]
			for _, v := range []*float64{&of.PerSecond, &of.Start.P50, &of.Start.P99, &of.End.P99, &of.Server} {
				*v = 1 + 9*by.Float64()*by.Float64()
			}
			of.Memory = by.Int64N(1<<30) + 1
		}
		return r
	}
	worse, runs := 0, 2000
	for range runs {
		found, err := Compare(noisy(), noisy())
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(found, func(f Finding) bool { return f.Worse }) {
			worse++
		}
	}
	if share := float64(worse) / float64(runs); share > Doubt {
		t.Errorf("%.3f of all comparisons of noise find something worse, want at most %v", share, Doubt)
	}
}
