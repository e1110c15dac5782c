package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"millrace/task/birth"
	"millrace/task/job"
)

// processes measures tasks that run /bin/true beside plain fork and exec with the same concurrency.
func (b *bench) processes(ctx context.Context) error {
	if b.cfg.Commands == nil {
		return nil
	}
	var plain, tasks, ratios []float64
	n := b.cfg.Processes
	for i := range b.cfg.Rounds {
		of := fmt.Sprintf(", round %d of %d", i+1, b.cfg.Rounds)
		b.cfg.Progress("plain processes" + of)
		bare, err := forkExec(n, b.cfg.ProcessSlots)
		if err != nil {
			return err
		}
		b.cfg.Progress("process tasks" + of)
		took, err := b.processTasks(ctx, n)
		if err != nil {
			return err
		}
		plain = append(plain, rate(n, bare))
		tasks = append(tasks, rate(n, took))
		ratios = append(ratios, bare.Seconds()/took.Seconds())
	}
	b.report.PlainPerSecond, b.report.ProcessPerSecond, b.report.ProcessRatio = median(plain), median(tasks), median(ratios)
	return nil
}

func (b *bench) processTasks(ctx context.Context, n int) (time.Duration, error) {
	if err := b.submit(ctx, birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"/bin/true"}}}, Queue: queue}, n); err != nil {
		return 0, err
	}
	if _, err := b.caughtUp(ctx); err != nil {
		return 0, err
	}
	// The last task shows when all have begun; the other slots are noise of a few milliseconds.
	start := time.Now()
	if _, err := b.crew(ctx, b.cfg.ProcessSlots, 1, func() error { return b.submit(ctx, noop, 1) }); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// forkExec starts /bin/true n times, atOnce at a time, and waits for each.
func forkExec(n, atOnce int) (time.Duration, error) {
	var left atomic.Int64
	left.Store(int64(n))
	var failed error
	var once sync.Once
	var wg sync.WaitGroup
	start := time.Now()
	for range atOnce {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				p, err := os.StartProcess("/bin/true", []string{"/bin/true"}, &os.ProcAttr{})
				if err == nil {
					_, err = p.Wait()
				}
				if err != nil {
					once.Do(func() { failed = errors.Join(failed, err) })
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start), failed
}
