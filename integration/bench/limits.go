package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
)

// Limited is the cost of limits.
type Limited struct {
	// Keys is the number of keys; one task per key runs at a time.
	Keys int `json:"keys"`
	// TasksPerSecond is how fast a full queue of such tasks is drained, and Ratio its ratio to
	// tasks without limits in the same rounds.
	TasksPerSecond float64 `json:"tasks_per_second"`
	Ratio          float64 `json:"ratio"`
	// Cost is the processor time of each, FreeCost that of a task without limits in the same
	// rounds.
	Cost     Cost `json:"cost"`
	FreeCost Cost `json:"free_cost"`
	// StartLatency is for single tasks, each with a key of its own; StartLatencyBehind the same
	// while Held tasks wait for another key.
	StartLatency       Percentiles `json:"start_latency_ms"`
	StartLatencyBehind Percentiles `json:"start_latency_behind_ms"`
	Held               int         `json:"held"`
}

// held is how many tasks of one key wait while others are timed.
const held = 50_000

// limits measures the cost of limits.
func (b *bench) limits(ctx context.Context) error {
	if b.cfg.Keys == 0 {
		return nil
	}
	var rates, ratios []float64
	var frees, costs []Cost // births included
	n := b.cfg.Tasks
	for range b.cfg.Rounds {
		b.cfg.Progress("no-op tasks without limits")
		before := b.spent()
		free, err := b.drain(ctx, n)
		if err != nil {
			return err
		}
		frees = append(frees, b.each(before, n))
		b.cfg.Progress(fmt.Sprintf("no-op tasks of %d keys", b.cfg.Keys))
		before = b.spent()
		bound, err := b.drainLimited(ctx, n)
		if err != nil {
			return err
		}
		costs = append(costs, b.each(before, n))
		rates = append(rates, rate(n, bound))
		ratios = append(ratios, rate(n, bound)/rate(n, free.draining))
	}
	l := &Limited{Keys: b.cfg.Keys, TasksPerSecond: median(rates), Ratio: median(ratios), Held: min(held, 10*n), Cost: medianCost(costs), FreeCost: medianCost(frees)}
	b.report.Limited = l
	var err error
	if l.StartLatency, err = b.limitedLatency(ctx, 0); err != nil {
		return err
	}
	l.StartLatencyBehind, err = b.limitedLatency(ctx, l.Held)
	return err
}

// submitLimited submits n no-op tasks with the keys that key returns.
func (b *bench) submitLimited(ctx context.Context, queue string, n int, key func(int) string) error {
	rec := &events.Recorder{Log: b.store, Actor: "bench", Now: b.store.Now, NewID: events.NewID}
	s := noop
	s.Queue = queue
	s.Concurrency = limit.Concurrencies{{Max: 1, Key: "{labels.key}"}}
	s.Labels = map[string]string{"key": ""}
	made, err := birth.Of(s, nil, 0, b.store.Now())
	if err != nil {
		return err
	}
	for from := 0; from < n; from += 4096 {
		facts := make([]*events.Fact, min(n-from, 4096))
		for i := range facts {
			e := made
			e.Labels = map[string]string{"key": key(from + i)}
			facts[i] = rec.Fact(task.ID(events.NewID(b.store.Now())), e)
		}
		var failed error
		rec.PlaceBirths(ctx, facts, func(_ int, _ uint64, err error) {
			if err != nil {
				failed = err
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

func (b *bench) drainLimited(ctx context.Context, n int) (time.Duration, error) {
	b.submitted += n
	if err := b.submitLimited(ctx, queue, n, func(i int) string { return strconv.Itoa(i % b.cfg.Keys) }); err != nil {
		return 0, err
	}
	if _, err := b.caughtUp(ctx); err != nil {
		return 0, err
	}
	took, err := b.crew(ctx, b.cfg.Slots, n, nil)
	if err != nil {
		return 0, err
	}
	_, err = b.caughtUp(ctx)
	return took, err
}

// limitedLatency times single tasks with a key each, while others wait for a key that is taken by a
// task in a queue without workers.
func (b *bench) limitedLatency(ctx context.Context, waiting int) (Percentiles, error) {
	b.cfg.Progress(fmt.Sprintf("latency of single tasks of a key, while %d wait for another", waiting))
	if waiting > 0 {
		if err := b.submitLimited(ctx, "bench-held", waiting, func(int) string { return "taken" }); err != nil {
			return Percentiles{}, err
		}
		if _, err := b.caughtUp(ctx); err != nil {
			return Percentiles{}, err
		}
	}
	return b.timed(ctx, func(i int) error {
		return b.submitLimited(ctx, queue, 1, func(int) string { return "single-" + strconv.Itoa(i) })
	})
}
