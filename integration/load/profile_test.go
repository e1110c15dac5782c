package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func chance() func() float64 { return rand.New(rand.NewPCG(1, 2)).Float64 }

// Each profile brings the tasks that it declares, as often as it declares.
func TestProfiles(t *testing.T) {
	if got, want := Names(), []string{"burst", "steady", "mixed", "fanout", "schedules", "long-haul"}; !slices.Equal(got, want) {
		t.Errorf("the profiles are %v, want %v", got, want)
	}
	for _, p := range Profiles {
		for _, spacing := range Spacings {
			plan := Plan{Profile: p, Spacing: spacing}
			counts := map[Kind]int{}
			n, before := 0, time.Duration(0)
			for a := range plan.Arrivals(chance()) {
				if a.N != n || a.At < before || a.At >= p.For {
					t.Fatalf("%s, %s: arrival %d is number %d, at %v after %v", p.Name, spacing, n, a.N, a.At, before)
				}
				n, before = n+1, a.At
				counts[a.Kind]++
			}
			// Six standard deviations of a Poisson process: chance is always the same here, and
			// other chance would do.
			if want := p.Rate * p.For.Seconds(); math.Abs(float64(n)-want) > 6*math.Sqrt(want) || spacing == Even && math.Abs(float64(n)-want) > 1 {
				t.Errorf("%s, %s: %d arrivals, want about %.0f", p.Name, spacing, n, want)
			}
			sum := 0.0
			for _, s := range p.Mix {
				sum += s.Of
				if got := float64(counts[s.Kind]) / float64(n); math.Abs(got-s.Of) > 0.03 {
					t.Errorf("%s, %s: %s is %.3f of all, want %.3f", p.Name, spacing, s.Kind, got, s.Of)
				}
			}
			if len(counts) != len(p.Mix) || math.Abs(sum-1) > 1e-9 {
				t.Errorf("%s: shares %v add up to %v, and %v came", p.Name, p.Mix, sum, counts)
			}
		}
		length, brings := 0.0, 0.0
		for _, s := range p.Wave {
			length, brings = length+s.For.Seconds(), brings+s.For.Seconds()*s.Of
		}
		if math.Abs(length-brings) > 1e-9 {
			t.Errorf("%s: its wave of %v s brings what comes in %v s", p.Name, length, brings)
		}
	}
}

func TestBurst(t *testing.T) {
	plan, err := NewPlan("burst", 100, 10*time.Second, Even)
	if err != nil {
		t.Fatal(err)
	}
	seconds := make([]int, 10)
	for a := range plan.Arrivals(chance()) {
		seconds[a.At/time.Second]++
	}
	if want := []int{400, 25, 25, 25, 25, 400, 25, 25, 25, 25}; !slices.Equal(seconds, want) {
		t.Errorf("arrivals by second are %v, want %v", seconds, want)
	}
}

func TestNewPlan(t *testing.T) {
	for _, c := range []struct {
		name string
		rate float64
		d    time.Duration
		good bool
	}{
		{"steady", 0, 0, true}, {"steady", 0.5, time.Second, true},
		{"calm", 0, 0, false}, {"steady", -1, 0, false}, {"steady", math.NaN(), 0, false}, {"steady", math.Inf(1), 0, false},
		{"steady", 1, -time.Second, false}, {"steady", 1, 8 * 24 * time.Hour, false},
	} {
		if p, err := NewPlan(c.name, c.rate, c.d, Even); (err == nil) != c.good || err == nil && (p.Rate <= 0 || p.For <= 0) {
			t.Errorf("%+v: plan %+v, %v", c, p, err)
		}
	}
}
