package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
)

// Following measures how long a line takes from its printing until a follower of the output has it,
// for n lines printed one by one.
func Following(ctx context.Context, cfg Config, n int) (Percentiles, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return Percentiles{}, err
	}
	if b.cfg.Commands == nil {
		return Percentiles{}, errors.New("there is nothing to run processes with")
	}
	crew, err := b.hire(ctx, 1, -1, nil)
	if err != nil {
		return Percentiles{}, err
	}
	b.cfg.Progress("following a task that prints now and then")
	shell := "i=0; while [ $i -lt " + strconv.Itoa(n) + " ]; do date +%s%N; sleep 0.0$((RANDOM % 10))7; i=$((i+1)); done"
	made, err := b.client.Submit(ctx, birth.Submission{Spec: &job.Spec{Run: &job.Run{Shell: shell}}, Queue: queue})
	if err != nil {
		return Percentiles{}, err
	}
	var times []float64
	err = b.client.Output(ctx, made.ID, true, func(l output.Lines) error {
		now := time.Now().UnixNano()
		for i := range l.Lines {
			printed, err := strconv.ParseInt(l.Lines[i].Text, 10, 64)
			if err != nil {
				return fmt.Errorf("the task printed %q, want a time in nanoseconds: %w", l.Lines[i].Text, err)
			}
			times = append(times, float64(now-printed)/1e6)
		}
		return nil
	})
	if err = errors.Join(err, crew.dismiss()); err != nil {
		return Percentiles{}, err
	}
	if len(times) != n {
		return Percentiles{}, fmt.Errorf("%d of %d lines were seen", len(times), n)
	}
	slices.Sort(times)
	return Percentiles{P50: times[n/2], P99: times[n*99/100], Max: times[n-1]}, nil
}
