package bench

import (
	"context"
	"time"

	"millrace/jet"
)

// throughput measures draining a filled queue, and submitting and running at
// once, each beside the bare loop.
func (b *bench) throughput(ctx context.Context) error {
	var drain, floorDrain, drainRatio, once, floorOnce, onceRatio, submit, floorSubmit, behind []float64
	n := b.cfg.Tasks
	for range b.cfg.Rounds {
		b.cfg.Progress("the bare loop")
		bare := n
		if b.cfg.Layout.SyncAlways {
			bare = max(n/10, 1) // one flush for each message takes its time
		}
		filled, err := jet.Floor(ctx, b.floor, b.cfg.Layout, bare, b.cfg.Slots, false)
		if err != nil {
			return err
		}
		together, err := jet.Floor(ctx, b.floor, b.cfg.Layout, bare, b.cfg.Slots, true)
		if err != nil {
			return err
		}
		b.cfg.Progress("no-op tasks")
		submitting, draining, lag, err := b.drain(ctx, n)
		if err != nil {
			return err
		}
		running, err := b.atOnce(ctx, n)
		if err != nil {
			return err
		}
		floorDrain = append(floorDrain, rate(bare, filled.Drain))
		floorSubmit = append(floorSubmit, rate(bare, filled.Submit))
		floorOnce = append(floorOnce, rate(bare, together.Drain))
		drain = append(drain, rate(n, draining))
		submit = append(submit, rate(n, submitting))
		once = append(once, rate(n, running))
		drainRatio = append(drainRatio, rate(n, draining)/rate(bare, filled.Drain))
		onceRatio = append(onceRatio, rate(n, running)/rate(bare, together.Drain))
		behind = append(behind, float64(lag.Microseconds())/1000)
	}
	r := &b.report
	r.TasksPerSecond, r.FloorTasksPerSecond, r.Ratio = median(drain), median(floorDrain), median(drainRatio)
	r.AtOncePerSecond, r.FloorAtOncePerSecond, r.AtOnceRatio = median(once), median(floorOnce), median(onceRatio)
	r.SubmitPerSecond, r.FloorSubmitPerSecond, r.BehindMS = median(submit), median(floorSubmit), median(behind)
	return nil
}

func (b *bench) drain(ctx context.Context, n int) (submitting, draining, behind time.Duration, err error) {
	start := time.Now()
	if err = b.submit(ctx, noop, n); err != nil {
		return
	}
	submitting = time.Since(start)
	if _, err = b.caughtUp(ctx); err != nil { // the births, so that they do not count twice
		return
	}
	start = time.Now()
	crew, err := b.hire(ctx, b.cfg.Slots, n, nil)
	if err != nil {
		return
	}
	if err = crew.wait(ctx); err != nil {
		return
	}
	draining = time.Since(start)
	if err = crew.dismiss(); err != nil {
		return
	}
	behind, err = b.caughtUp(ctx)
	return
}

func (b *bench) atOnce(ctx context.Context, n int) (time.Duration, error) {
	start := time.Now()
	crew, err := b.hire(ctx, b.cfg.Slots, n, nil)
	if err != nil {
		return 0, err
	}
	if err := b.submit(ctx, noop, n); err != nil {
		return 0, err
	}
	if err := crew.wait(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if err := crew.dismiss(); err != nil {
		return 0, err
	}
	_, err = b.caughtUp(ctx)
	return took, err
}

// growth measures draining at several sizes of the log, the queue's own
// backlog of never started tasks included.
func (b *bench) growth(ctx context.Context) error {
	sample := min(b.cfg.Tasks, 20_000)
	have := 0
	for _, size := range b.cfg.Growth {
		b.cfg.Progress("growing the log")
		for have < size {
			n := min(size-have, 50_000)
			if _, err := b.atOnce(ctx, n); err != nil {
				return err
			}
			have += n
		}
		var rates []float64
		for range b.cfg.Rounds {
			_, took, _, err := b.drain(ctx, sample)
			if err != nil {
				return err
			}
			rates = append(rates, rate(sample, took))
			have += sample
		}
		b.report.Growth = append(b.report.Growth, Growth{LogTasks: size, TasksPerSecond: median(rates)})
	}
	return nil
}
