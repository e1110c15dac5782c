package job

import (
	"math"
	"testing"
	"time"

	"millrace/task/value"
)

func TestRetryDelay(t *testing.T) {
	s := func(n float64) value.Duration { return value.Duration(n * float64(time.Second)) }
	for name, c := range map[string]struct {
		retry  Retry
		chance float64
		want   []time.Duration // after 1, 2, … failures
	}{
		"default":            {Retry{}, 0.9, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9}},
		"exponential":        {Retry{Backoff: BackoffExponential, Min: s(0.5), MaxDelay: s(3)}, 0, []time.Duration{500e6, 1e9, 2e9, 3e9, 3e9}},
		"linear":             {Retry{Backoff: BackoffLinear, Min: s(2), MaxDelay: s(7)}, 0, []time.Duration{2e9, 4e9, 6e9, 7e9, 7e9}},
		"fixed":              {Retry{Backoff: BackoffFixed, Min: s(2)}, 0, []time.Duration{2e9, 2e9, 2e9}},
		"capped at once":     {Retry{Min: s(9), MaxDelay: s(2)}, 0, []time.Duration{2e9, 2e9}},
		"linear, capped":     {Retry{Backoff: BackoffLinear, Min: s(9), MaxDelay: s(2)}, 0, []time.Duration{2e9, 2e9}},
		"jitter, no chance":  {Retry{Backoff: BackoffFixed, Min: s(10), Jitter: 1}, 0, []time.Duration{10e9}},
		"jitter, half":       {Retry{Backoff: BackoffFixed, Min: s(10), Jitter: 0.2}, 0.5, []time.Duration{9e9}},
		"jitter, everything": {Retry{Min: s(10), Jitter: 1}, 0.75, []time.Duration{2500e6, 5e9}},
	} {
		for i, want := range c.want {
			if got := c.retry.Delay(i+1, c.chance); got != want {
				t.Errorf("%s: the delay after %d failures is %v, want %v", name, i+1, got, want)
			}
		}
	}
}

// For any numbers, a delay lies between 0 and its cap.
func TestRetryDelayIsBounded(t *testing.T) {
	for _, backoff := range []string{"", BackoffExponential, BackoffLinear, BackoffFixed} {
		for _, first := range []value.Duration{0, 1, 3, value.Duration(time.Hour), math.MaxInt64 - 1, math.MaxInt64} {
			for _, limit := range []value.Duration{0, 1, value.Duration(time.Minute), math.MaxInt64} {
				r := Retry{Backoff: backoff, Min: first, MaxDelay: limit}
				top := limit.Std()
				if top == 0 {
					top = DefaultRetryMaxDelay
				}
				before := time.Duration(0)
				for _, n := range []int{-1, 0, 1, 2, 10, 62, 63, 64, 65, 10_000, math.MaxInt} {
					got := r.Delay(n, 0)
					if got <= 0 || got > top || got < before {
						t.Fatalf("%+v: the delay after %d failures is %v, before it was %v and the cap is %v", r, n, got, before, top)
					}
					before = got
				}
			}
		}
	}
}

func TestRetryPlan(t *testing.T) {
	code := func(n int) *int { return &n }
	on := func(what ...string) Retry { return Retry{Max: 2, On: what} }
	notOn := func(what ...string) Retry { return Retry{Max: 2, NotOn: what} }
	exit := Failure{Class: value.Exit, Exit: code(75), Failures: 1}
	network := Failure{Class: value.Network, Exit: code(75), Failures: 1}
	with := func(f Failure, change func(*Failure)) Failure { change(&f); return f }
	min := func(n int) value.Duration { return value.Duration(time.Duration(n) * time.Minute) }
	for name, c := range map[string]struct {
		retry Retry
		f     Failure
		after time.Duration // until the next attempt; 0 for none
		words string
	}{
		"none":               {Retry{}, exit, 0, ""},
		"first":              {Retry{Max: 2}, exit, time.Second, ""},
		"last":               {Retry{Max: 2}, with(exit, func(f *Failure) { f.Failures = 2 }), 2 * time.Second, ""},
		"one too many":       {Retry{Max: 2}, with(exit, func(f *Failure) { f.Failures = 3 }), 0, "its retries are used up: retry.max is 2"},
		"final":              {Retry{Max: 2}, with(exit, func(f *Failure) { f.Final = true }), 0, "the task said that no other attempt can mend it"},
		"on its class":       {on(value.Network), network, time.Second, ""},
		"on another class":   {on(value.Network), exit, 0, "no retry on exit=75"},
		"on its code":        {on("exit=75"), exit, time.Second, ""},
		"on a range":         {on(value.Timeout, "exit=64-78"), exit, time.Second, ""},
		"beside a range":     {on("exit=76-78"), exit, 0, "no retry on exit=75"},
		"a code is of exit":  {on("exit=75"), network, 0, "no retry on network"},
		"without a code":     {on("exit=75"), Failure{Class: value.Exit, Failures: 1}, 0, "no retry on exit"},
		"not on its class":   {notOn(value.Exit), exit, 0, "no retry on exit=75"},
		"not on its code":    {notOn("exit=75"), exit, 0, "no retry on exit=75"},
		"not on other codes": {notOn("exit=1-74"), exit, time.Second, ""},
		"not on wins":        {Retry{Max: 2, On: []string{value.Exit}, NotOn: []string{"exit=75"}}, exit, 0, "no retry on exit=75"},
		"class of tomorrow":  {Retry{Max: 1}, Failure{Class: "gravity", Failures: 1}, time.Second, ""},
		"asked": {Retry{Max: 1, Min: min(1), Jitter: 1}, with(exit, func(f *Failure) { f.After, f.Chance = 30*time.Second, 0.9 }),
			30 * time.Second, "the task asked for a pause of 30s"},
		"asked for too much": {Retry{Max: 1, MaxDelay: min(1)}, with(exit, func(f *Failure) { f.After = time.Hour }),
			time.Minute, "the task asked for a pause of 1h0m0s; retry.max_delay is 1m0s"},
		"asked in vain": {Retry{Max: 1, NotOn: []string{value.Exit}}, with(exit, func(f *Failure) { f.After = time.Second }), 0, "no retry on exit=75"},
		"in the budget": {Retry{Max: 9, Min: min(1), Backoff: BackoffFixed, Budget: min(5)},
			with(exit, func(f *Failure) { f.Begun = noon.Add(-4 * time.Minute) }), time.Minute, ""},
		"over the budget": {Retry{Max: 9, Min: min(1), Backoff: BackoffFixed, Budget: min(5)},
			with(exit, func(f *Failure) { f.Begun = noon.Add(-4*time.Minute - 1) }), 0, "the next attempt would be due in 1m0s, beyond the retry budget of 5m0s"},
		"asked beyond the budget": {Retry{Max: 9, Budget: min(5)},
			with(exit, func(f *Failure) { f.Begun, f.After = noon, 6*time.Minute }), 0, "the next attempt would be due in 6m0s, beyond the retry budget of 5m0s"},
		"a budget from nowhere": {Retry{Max: 9, Budget: min(5)}, exit, time.Second, ""},
		"full jitter":           {Retry{Max: 1, Min: min(1), Jitter: 1}, with(exit, func(f *Failure) { f.Chance = 0.75 }), 15 * time.Second, ""},
	} {
		c.f.At = noon
		due, words, again := c.retry.Plan(c.f)
		if again != (c.after > 0) || words != c.words || again && !due.Equal(noon.Add(c.after)) {
			t.Errorf("%s: %v after %v, %q; want %v, %q", name, again, due.Sub(noon), words, c.after, c.words)
		}
	}
}
