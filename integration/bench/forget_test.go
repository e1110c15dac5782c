package bench

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/streams"
	"millrace/scheduler"
)

// The log forgets the tasks alone, and again beside work.
func TestManyForgotten(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial, store, view := serveOn(t, streams.Layout{})
	var starts []int
	rest := func() {}
	again := func(ctx context.Context, keeps int) error {
		rest()
		starts, rest = append(starts, keeps), func() {}
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
	defer func() { rest() }()
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
