package bench

import (
	"context"
	"fmt"
	"time"
)

// throughput measures draining a full queue, and submitting and running at the same time, each
// beside the bare loop.
func (b *bench) throughput(ctx context.Context) error {
	var drain, floorDrain, drainRatio, once, floorOnce, onceRatio, submit, floorSubmit, behind []float64
	var costs, floorCosts []Cost
	n := b.cfg.Tasks
	for i := range b.cfg.Rounds {
		of := fmt.Sprintf(", round %d of %d", i+1, b.cfg.Rounds)
		b.cfg.Progress("the bare loop" + of)
		bare := n
		if b.cfg.Layout.SyncAlways {
			bare = max(n/10, 1) // one flush per message takes its time
		}
		low, err := b.bare(ctx, bare)
		if err != nil {
			return err
		}
		b.cfg.Progress("no-op tasks" + of)
		round, err := b.drain(ctx, n)
		if err != nil {
			return err
		}
		running, err := b.atOnce(ctx, n)
		if err != nil {
			return err
		}
		floorDrain = append(floorDrain, rate(bare, low.draining))
		floorSubmit = append(floorSubmit, rate(bare, low.submitting))
		floorOnce = append(floorOnce, rate(bare, low.atOnce))
		floorCosts = append(floorCosts, low.cost)
		drain = append(drain, rate(n, round.draining))
		submit = append(submit, rate(n, round.submitting))
		once = append(once, rate(n, running))
		costs = append(costs, round.cost)
		drainRatio = append(drainRatio, rate(n, round.draining)/rate(bare, low.draining))
		onceRatio = append(onceRatio, rate(n, running)/rate(bare, low.atOnce))
		behind = append(behind, float64(round.behind.Microseconds())/1000)
	}
	r := &b.report
	r.TasksPerSecond, r.FloorTasksPerSecond, r.Ratio = median(drain), median(floorDrain), median(drainRatio)
	r.AtOncePerSecond, r.FloorAtOncePerSecond, r.AtOnceRatio = median(once), median(floorOnce), median(onceRatio)
	r.SubmitPerSecond, r.FloorSubmitPerSecond, r.BehindMS = median(submit), median(floorSubmit), median(behind)
	r.TaskCost, r.FloorTaskCost = medianCost(costs), medianCost(floorCosts)
	return nil
}

// round is how long a queue took to be filled and drained, and the cost of draining each task.
type round struct {
	submitting, draining time.Duration
	// behind is how long the read model needed after that; the bare loop has none.
	behind time.Duration
	// atOnce is the time for tasks that were submitted while others ran; only for the bare loop.
	atOnce time.Duration
	cost   Cost
}

// bare measures the bare loop with n tasks.
func (b *bench) bare(ctx context.Context, n int) (r round, err error) {
	filled, err := Open(ctx, b.floor, b.cfg.Layout, n, b.cfg.Slots)
	if err != nil {
		return r, err
	}
	if r.submitting, err = filled.Fill(ctx); err == nil {
		before := b.spent()
		r.draining, err = filled.Drain(ctx)
		r.cost = b.each(before, n)
	}
	filled.Close(ctx)
	if err != nil {
		return r, err
	}
	together, err := Open(ctx, b.floor, b.cfg.Layout, n, b.cfg.Slots)
	if err != nil {
		return r, err
	}
	defer together.Close(ctx)
	r.atOnce, err = together.AtOnce(ctx)
	return r, err
}

// drain measures filling a queue with n tasks and draining it.
func (b *bench) drain(ctx context.Context, n int) (r round, err error) {
	start := time.Now()
	if err = b.submit(ctx, noop, n); err != nil {
		return
	}
	r.submitting = time.Since(start)
	if _, err = b.caughtUp(ctx); err != nil { // the births, so that they do not count twice
		return
	}
	before := b.spent()
	start = time.Now()
	crew, err := b.hire(ctx, b.cfg.Slots, n, nil)
	if err != nil {
		return
	}
	if err = crew.wait(ctx); err != nil {
		return
	}
	r.draining, r.cost = time.Since(start), b.each(before, n)
	if err = crew.dismiss(); err != nil {
		return
	}
	r.behind, err = b.caughtUp(ctx)
	return
}

func (b *bench) atOnce(ctx context.Context, n int) (time.Duration, error) {
	took, err := b.crew(ctx, b.cfg.Slots, n, func() error { return b.submit(ctx, noop, n) })
	if err != nil {
		return 0, err
	}
	_, err = b.caughtUp(ctx)
	return took, err
}

// crew runs n tasks with a crew of its own, and returns how long that took. It calls meanwhile, if
// not nil, as soon as the crew works.
func (b *bench) crew(ctx context.Context, slots, n int, meanwhile func() error) (time.Duration, error) {
	start := time.Now()
	crew, err := b.hire(ctx, slots, n, nil)
	if err != nil {
		return 0, err
	}
	if meanwhile != nil {
		if err := meanwhile(); err != nil {
			return 0, err
		}
	}
	if err := crew.wait(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, crew.dismiss()
}

// growth measures draining at several sizes of the log, including the queue's own backlog.
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
			r, err := b.drain(ctx, sample)
			if err != nil {
				return err
			}
			rates = append(rates, rate(sample, r.draining))
			have += sample
		}
		b.report.Growth = append(b.report.Growth, Growth{LogTasks: size, TasksPerSecond: median(rates)})
	}
	return nil
}
