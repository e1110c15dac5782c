package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/projections"
	"millrace/task"
)

// activityEvery is how often the counts are read.
const activityEvery = 2 * time.Second

// activity prints the numbers of tasks to a terminal whenever they change.
func (a *Commands) activity(view *projections.Store) func(context.Context) error {
	return func(ctx context.Context) error {
		if !term.Colourful(a.Errs) {
			return nil
		}
		ticker := time.NewTicker(activityEvery)
		defer ticker.Stop()
		last := ""
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			counts, _, err := view.Counts(ctx)
			if err != nil {
				continue // the next look may succeed, and nothing depends on it
			}
			if line := countLine(counts); line != last {
				fmt.Fprintf(a.Errs, "%s tasks: %s\n", a.Now().Format(time.TimeOnly), line)
				last = line
			}
		}
	}
}

// countLine sums up tasks by state, over all queues.
func countLine(counts map[string]map[task.State]int) string {
	sum := map[task.State]int{}
	for _, states := range counts {
		for s, n := range states {
			sum[s] += n
		}
	}
	var words []string
	for _, s := range task.States() {
		if sum[s] > 0 {
			words = append(words, fmt.Sprintf("%d %s", sum[s], s))
		}
	}
	if len(words) == 0 {
		return "none yet"
	}
	return strings.Join(words, ", ")
}
