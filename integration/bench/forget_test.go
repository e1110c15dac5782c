package bench

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/streams"
	"millrace/projections"
	"millrace/scheduler"
)

// The log forgets the tasks alone, and again beside work.
func TestManyForgotten(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial, store, view := serveOn(t, streams.Layout{})
	var starts []int
	again := keepers(t, store, view, &starts)
	f, err := ManyForgotten(ctx, Config{Dial: dial, Again: again, Tasks: 500, Slots: 32, Latencies: 20}, 3000)
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]Work{"with": f.With, "without": f.Without} {
		if w.TasksPerSecond <= 0 || w.StartLatency.P50 <= 0 || w.BehindMS <= 0 {
			t.Errorf("work %s forgetting: %+v", name, w)
		}
	}
	if f.Seconds <= 0 || f.Ratio <= 0 || !slices.Equal(starts, []int{0, forgetKeeps, 0, 0, forgetKeeps}) {
		t.Errorf("measured %+v with the starts %v", f, starts)
	}
	first, err := store.First(ctx)
	if err != nil || first < 3000 {
		t.Errorf("the log begins at %d (%v), and should have forgotten thousands of tasks", first, err)
	}
}

// keepers returns a way to start what moves the horizon, instead of the one before, with another number
// of ended tasks that stay, 0 for all, and notes these numbers.
func keepers(t *testing.T, store *jet.Store, view *projections.Store, starts *[]int) func(ctx context.Context, keeps int) error {
	rest := func() {}
	t.Cleanup(func() { rest() })
	return func(ctx context.Context, keeps int) error {
		rest()
		*starts, rest = append(*starts, keeps), func() {}
		if keeps == 0 {
			return nil
		}
		c := scheduler.Collector{Every: 50 * time.Millisecond, Forget: scheduler.Forget{
			Rec: &events.Recorder{Log: store, Actor: events.PartScheduler, Now: store.Now, NewID: events.NewID}, Log: store,
			Keeping: scheduler.Keeping{Tasks: keeps, Age: time.Hour}, Ended: view.Ended, Model: view, Settle: time.Millisecond}}
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		rest = func() {
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		return nil
	}
}

// Tasks go through the log, and the last hundredth stays, with what the log keeps in any case.
func TestManyThrough(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial, store, view := serveOn(t, streams.Layout{})
	var starts []int
	const tasks = 6000
	is, err := ManyThrough(ctx, Config{Dial: dial, Again: keepers(t, store, view, &starts), Slots: 32}, tasks)
	if err != nil {
		t.Fatal(err)
	}
	if is.Seconds <= 0 || is.BehindSeconds < 0 || !slices.Equal(starts, []int{60, 60, 60}) {
		t.Errorf("measured %+v with the starts %v", is, starts)
	}
	if first, err := store.First(ctx); err != nil || first < tasks {
		t.Errorf("the log begins at %d (%v), and should have forgotten thousands of tasks", first, err)
	}
}
