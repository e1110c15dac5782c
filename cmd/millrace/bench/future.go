package bench

import (
	"context"
	"fmt"
	"time"

	"millrace/task"
)

// Future is what tasks that are due much later cost those that run now.
type Future struct {
	// Tasks is how many there are, and SubmitPerSecond how fast they were submitted, timers included.
	Tasks           int     `json:"tasks"`
	SubmitPerSecond float64 `json:"submit_per_second"`
	// Ratio is how fast a filled queue is drained with them, beside the same without in the same run.
	Before float64 `json:"tasks_per_second_before"`
	With   float64 `json:"tasks_per_second_with"`
	Ratio  float64 `json:"ratio"`
	// StartLatency is of single tasks with them.
	StartLatency Percentiles `json:"start_latency_ms"`
}

// muchLater is when they are due.
const muchLater = 10 * 365 * 24 * time.Hour

// atOnceFuture is how many of them are submitted by one call.
const atOnceFuture = 20_000

// future measures tasks that are due much later.
func (b *bench) future(ctx context.Context) error {
	n := b.cfg.Future
	if n == 0 {
		return nil
	}
	f := &Future{Tasks: n}
	b.report.Future = f
	median, err := b.drains(ctx)
	if err != nil {
		return err
	}
	f.Before = median
	b.cfg.Progress(fmt.Sprintf("%d tasks that are due much later", n))
	s := noop
	s.Queue, s.Delay = "bench-future", task.Duration(muchLater)
	start := time.Now()
	for left := n; left > 0; left -= atOnceFuture {
		if err := b.client.SubmitMany(ctx, s, min(left, atOnceFuture), nil); err != nil {
			return err
		}
	}
	f.SubmitPerSecond = rate(n, time.Since(start))
	if _, err := b.caughtUp(ctx); err != nil {
		return err
	}
	if f.With, err = b.drains(ctx); err != nil {
		return err
	}
	f.Ratio = f.With / f.Before
	f.StartLatency, err = b.singles(ctx)
	return err
}

// drains is how fast a filled queue is drained: the median of the rounds.
func (b *bench) drains(ctx context.Context) (float64, error) {
	b.cfg.Progress("no-op tasks")
	var rates []float64
	for range b.cfg.Rounds {
		_, took, _, err := b.drain(ctx, b.cfg.Tasks)
		if err != nil {
			return 0, err
		}
		rates = append(rates, rate(b.cfg.Tasks, took))
	}
	return median(rates), nil
}
