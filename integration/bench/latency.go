package bench

import (
	"context"
	"time"

	"millrace/task"
)

// latency times single tasks on an idle system, from the submission to the start of the handler,
// which is after the claim is stored.
func (b *bench) latency(ctx context.Context) (err error) {
	b.report.StartLatency, err = b.singles(ctx)
	return err
}

// singles times as many single tasks as are asked for.
func (b *bench) singles(ctx context.Context) (Percentiles, error) {
	b.cfg.Progress("latency of single tasks")
	return b.timed(ctx, b.submitNoop(ctx))
}

func (b *bench) submitNoop(ctx context.Context) func(int) error {
	return func(int) error {
		_, err := b.client.Submit(ctx, noop)
		return err
	}
}

// timed times tasks, each from its submission to its start, after some that do not count.
func (b *bench) timed(ctx context.Context, submit func(i int) error) (Percentiles, error) {
	times, err := b.starts(ctx, submit)
	return percentiles(times), err
}

// starts returns how long each of these tasks took, in milliseconds.
func (b *bench) starts(ctx context.Context, submit func(i int) error) ([]float64, error) {
	started := make(chan time.Time, 1)
	crew, err := b.hire(ctx, 4, -1, func(task.Task) { started <- time.Now() })
	if err != nil {
		return nil, err
	}
	const warmUp = 20
	times := make([]float64, 0, b.cfg.Latencies)
	for i := range warmUp + b.cfg.Latencies {
		b.submitted++
		at := time.Now()
		if err := submit(i); err != nil {
			return nil, err
		}
		select {
		case began := <-started:
			if i >= warmUp {
				times = append(times, float64(began.Sub(at).Microseconds())/1000)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return times, crew.dismiss()
}
