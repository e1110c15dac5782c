package bench

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/integration/load"
)

// A server that stalls for a second delays every request that was due in that second, not just the
// one that was open meanwhile.
func TestAStallCountsForAllThatItDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := load.Plan{Profile: load.Profile{Rate: 100, For: 4 * time.Second, Mix: []load.Share{{Kind: load.Noop, Of: 1}}}, Spacing: load.Even}
		begin := time.Now()
		planned, fromSending := load.NewTally(plan), load.NewTally(plan)
		stalled, n := false, 0
		serve := func(_ context.Context, due []load.Arrival) error {
			sent := time.Since(begin)
			if !stalled && sent > time.Second {
				stalled = true
				time.Sleep(time.Second)
			}
			time.Sleep(time.Millisecond)
			for _, a := range due {
				n++
				planned.Begun(a.At, time.Since(begin))
				fromSending.Begun(sent, time.Since(begin))
			}
			return nil
		}
		// One hand, as a client that waits for each answer has.
		if err := send(t.Context(), plan.Arrivals(func() float64 { return 0 }), begin, 0, 1, serve); err != nil {
			t.Fatal(err)
		}
		got, naive := planned.Round(0, 0, 0).Start, fromSending.Round(0, 0, 0).Start
		if n != 400 {
			t.Errorf("%d arrivals, want 400", n)
		}
		// A quarter of all requests was due in that second and waited between 0 and 1 s.
		if got.P50 > 2 || got.P90 < 590 || got.P90 > 620 || got.P99 < 950 || got.Max < 1000 {
			t.Errorf("latency from the intended times is %+v, want a p90 of 0.6s and a p99 of nearly a second", got)
		}
		if naive.P90 > 2 || naive.P99 > 2 {
			t.Errorf("latency from the sending is %+v: the stall was to be seen once only", naive)
		}
	})
}

// While a sender is free, no request waits for the answer of another, and requests that are due
// ahead are sent ahead.
func TestSendWaitsForNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := load.Plan{Profile: load.Profile{Rate: 10, For: time.Second, Mix: []load.Share{{Kind: load.Noop, Of: 1}}, Ahead: 3 * time.Second}, Spacing: load.Even}
		begin := time.Now().Add(plan.Ahead)
		sent := make(chan time.Duration, 20)
		if err := send(t.Context(), plan.Arrivals(func() float64 { return 0 }), begin, plan.Ahead, 16, func(_ context.Context, due []load.Arrival) error {
			for _, a := range due {
				sent <- time.Until(begin.Add(a.At))
			}
			time.Sleep(time.Hour)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		close(sent)
		var all []time.Duration
		for ahead := range sent {
			all = append(all, ahead)
		}
		if len(all) != 10 || slices.Min(all) != plan.Ahead || slices.Max(all) != plan.Ahead {
			t.Errorf("arrivals were sent %v before their times, want ten of them, and %v", all, plan.Ahead)
		}
	})
}

func TestSendEndsWithWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := load.Plan{Profile: load.Profile{Rate: 10, For: time.Hour, Mix: []load.Share{{Kind: load.Noop, Of: 1}}}, Spacing: load.Even}
		broken := errors.New("broken")
		begin := time.Now()
		err := send(t.Context(), plan.Arrivals(func() float64 { return 0 }), begin, 0, 2, func(context.Context, []load.Arrival) error { return broken })
		if !errors.Is(err, broken) || time.Since(begin) > time.Second {
			t.Errorf("it ended after %v with %v, want at once with what failed", time.Since(begin), err)
		}
	})
}
