package bench

import (
	"context"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
)

// The width of the measured graph, and how many of the layer before each of its steps needs.
const (
	graphWidth = 1000
	graphNeeds = 2
)

// graph measures steps that need others: layers in which each step needs some of the layer before.
// All are submitted first; the time runs from the start of a worker to the end of the last step.
func (b *bench) graph(ctx context.Context) error {
	n := b.cfg.Steps
	if n == 0 {
		return nil
	}
	b.cfg.Progress("a graph of steps")
	steps := make([]birth.Submission, n)
	for i := range steps {
		s := noop
		s.ID, s.Fresh = task.ID(events.NewID(b.store.Now())), true
		if layer := i / graphWidth; layer > 0 {
			s.Needs = &task.Needs{}
			for k := range graphNeeds {
				of := (layer-1)*graphWidth + (i+k)%graphWidth
				s.Needs.Of = append(s.Needs.Of, task.Need{Task: steps[of].ID})
			}
		}
		steps[i] = s
	}
	b.submitted += n
	if err := b.client.SubmitAll(ctx, steps, nil); err != nil {
		return err
	}
	if _, err := b.caughtUp(ctx); err != nil {
		return err
	}
	start, before := time.Now(), b.spent()
	crew, err := b.hire(ctx, b.cfg.Slots, n, nil)
	if err != nil {
		return err
	}
	if err := crew.wait(ctx); err != nil {
		return err
	}
	b.report.Steps, b.report.StepsPerSecond = n, rate(n, time.Since(start))
	if err := crew.dismiss(); err != nil {
		return err
	}
	_, err = b.caughtUp(ctx)
	cost := b.each(before, n)
	b.report.StepCost = &cost
	return err
}
