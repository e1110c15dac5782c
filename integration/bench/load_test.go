package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"millrace/events/jet/streams"
	"millrace/integration/load"
	"millrace/worker/process"
	"millrace/worker/process/child"
)

// Each profile makes the tasks that it declares, and sees each of them end.
func TestLoad(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := child.NewRunner(child.Config{Guard: []string{self, "guard"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runner.Close)
	commands := &process.Tasks{Runner: runner, Node: "bench"}
	t.Cleanup(commands.Close)
	for name, tasks := range map[string]int{"burst": 40, "mixed": 40, "fanout": 40 * (fanWidth + 2), "schedules": 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			plan, err := load.NewPlan(name, 40, time.Second, load.Even)
			if err != nil {
				t.Fatal(err)
			}
			plan.Wave = nil // a second of a burst is no mean one
			memory := int64(0)
			r, err := Load(ctx, Config{Dial: serve(t, streams.Layout{}), Slots: 32, Commands: commands, ServerMemory: func() (int64, error) { memory++; return memory, nil }}, plan)
			if err != nil {
				t.Fatal(err)
			}
			if r.Arrivals != 40 || r.Tasks != tasks || r.Failed+r.Lost+r.Duplicated+r.OutOfRange != 0 {
				t.Errorf("%d arrivals, %d tasks, %d failed, %d lost, %d duplicated, %d out of range; want 40, %d and none", r.Arrivals, r.Tasks, r.Failed, r.Lost, r.Duplicated, r.OutOfRange, tasks)
			}
			if s, e := r.Start, r.End; s.Max <= 0 || s.P50 > s.P90 || s.P90 > s.P99 || s.P99 > s.P999 || s.P999 > s.Max || e.Max < s.Max {
				t.Errorf("latencies make no sense: start %+v, end %+v", s, e)
			}
			if r.PerSecond <= 0 || r.PerSecond > 41 || r.Depth < 1 || r.Memory < 1 {
				t.Errorf("%v a second, at most %d waiting, memory %d", r.PerSecond, r.Depth, r.Memory)
			}
			var arrived, started, ended int
			for _, p := range r.Points {
				arrived, started, ended = arrived+p.Arrived, started+p.Started, ended+p.Ended
			}
			if arrived != 40 || started != tasks || ended != tasks {
				t.Errorf("the points have %d arrivals, %d starts and %d ends", arrived, started, ended)
			}
		})
	}
}
