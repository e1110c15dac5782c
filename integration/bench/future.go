package bench

import (
	"context"
	"fmt"
	"time"

	"millrace/task/value"
)

// Future is the cost that tasks due much later cause for tasks that run now: measurements on a
// server with such tasks, beside the same on one without, in turn.
type Future struct {
	// Tasks is how many there are, and SubmitPerSecond how fast they were submitted, timers
	// included.
	Tasks           int     `json:"tasks"`
	SubmitPerSecond float64 `json:"submit_per_second"`
	// Drain is for a full queue, AtOnce for tasks that are submitted meanwhile.
	Drain  Beside `json:"drain"`
	AtOnce Beside `json:"at_once"`
	// StartLatency is for single tasks with them, and Before without.
	StartLatency       Percentiles `json:"start_latency_ms"`
	StartLatencyBefore Percentiles `json:"start_latency_before_ms"`
}

// Beside is a measurement with and without them, as medians of the rounds.
type Beside struct {
	With    float64 `json:"tasks_per_second_with"`
	Without float64 `json:"tasks_per_second_without"`
	Ratio   float64 `json:"ratio"`
	// The processor time of each task, its birth included.
	CostWith    Cost `json:"cost_with"`
	CostWithout Cost `json:"cost_without"`
}

// muchLater is when they are due.
const muchLater = 10 * 365 * 24 * time.Hour

// atOnceFuture is how many of them one call submits.
const atOnceFuture = 20_000

// MeasureFuture measures tasks that are due much later, on the server of cfg, beside that of bare,
// which has none.
func MeasureFuture(ctx context.Context, cfg, bare Config) (f Future, err error) {
	with, without := &bench{cfg: cfg.withDefaults()}, &bench{cfg: bare.withDefaults()}
	for _, b := range []*bench{with, without} {
		defer b.close()
		if err := b.open(ctx); err != nil {
			return f, err
		}
	}
	f.Tasks = cfg.Future
	if f.SubmitPerSecond, err = with.submitFuture(ctx, f.Tasks); err != nil {
		return f, err
	}
	with.cfg.Progress(fmt.Sprintf("no-op tasks with and without %d that are due much later", f.Tasks))
	drain := func(b *bench) (time.Duration, error) {
		r, err := b.drain(ctx, b.cfg.Tasks)
		return r.draining, err
	}
	atOnce := func(b *bench) (time.Duration, error) { return b.atOnce(ctx, b.cfg.Tasks) }
	for _, b := range []*bench{with, without} { // the aftermath of their submission must not count
		if _, err := drain(b); err != nil {
			return f, err
		}
	}
	var drains, atOnces pairs
	for range with.cfg.Rounds {
		if err := drains.measure(with, without, drain); err != nil {
			return f, err
		}
		if err := atOnces.measure(with, without, atOnce); err != nil {
			return f, err
		}
	}
	f.Drain, f.AtOnce = drains.beside(), atOnces.beside()
	if f.StartLatencyBefore, err = without.singles(ctx); err != nil {
		return f, err
	}
	f.StartLatency, err = with.singles(ctx)
	return f, err
}

// submitFuture submits n tasks that are due much later, and returns how many per second.
func (b *bench) submitFuture(ctx context.Context, n int) (float64, error) {
	b.cfg.Progress(fmt.Sprintf("%d tasks that are due much later", n))
	s := noop
	s.Queue, s.Delay = "bench-future", value.Duration(muchLater)
	start := time.Now()
	for left := n; left > 0; left -= atOnceFuture {
		if err := b.client.SubmitMany(ctx, s, min(left, atOnceFuture), nil); err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	_, err := b.caughtUp(ctx)
	return rate(n, took), err
}

// pairs are figures of both, round by round.
type pairs struct {
	rates  [2][]float64
	ratios []float64
	costs  [2][]Cost
}

// measure measures something on both servers, one after the other.
func (p *pairs) measure(with, without *bench, measure func(*bench) (time.Duration, error)) error {
	for i, b := range []*bench{with, without} {
		before := b.spent()
		took, err := measure(b)
		if err != nil {
			return err
		}
		p.rates[i] = append(p.rates[i], rate(b.cfg.Tasks, took))
		p.costs[i] = append(p.costs[i], b.each(before, b.cfg.Tasks))
	}
	last := len(p.rates[0]) - 1
	p.ratios = append(p.ratios, p.rates[0][last]/p.rates[1][last])
	return nil
}

func (p *pairs) beside() Beside {
	return Beside{
		With: median(p.rates[0]), Without: median(p.rates[1]), Ratio: median(p.ratios),
		CostWith: medianCost(p.costs[0]), CostWithout: medianCost(p.costs[1]),
	}
}
