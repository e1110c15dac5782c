package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/client"
	"millrace/task"
)

// standing reads what the program of a task says of itself; nil where there is
// nothing of its present attempt, or it cannot be had.
func standing(ctx context.Context, c *client.Client, t *task.Task) (*task.Live, *task.Checkpoint) {
	var live *task.Live
	var checkpoint *task.Checkpoint
	if t.Attempt == 0 {
		return nil, nil
	}
	if l, err := c.Live(ctx, t.ID); err == nil && l.Epoch == t.Epoch {
		live = &l
	}
	if k, err := c.Checkpoint(ctx, t.ID); err == nil && k.Epoch > 0 {
		checkpoint = &k
	}
	return live, checkpoint
}

func standingFields(out *table, l *task.Live, c *task.Checkpoint, now time.Time) {
	if l != nil {
		if text := l.Text(); text != "" {
			out.field("says", fmt.Sprintf("%s (%s)", text, moment(l.At, now)))
		}
		out.field("ready", moment(l.Ready, now))
		if l.Phase != "" {
			out.field("phase", l.Phase+" since "+moment(l.PhaseSince, now))
		}
	}
	if c != nil {
		out.field("checkpoint", fmt.Sprintf("%s (attempt %d, %s)", c.Value, c.Attempt, moment(c.At, now)))
	}
}

// surroundingFields lay out what is special about a process's surroundings.
func surroundingFields(out *table, r *task.Run) {
	out.field("user", r.User)
	if r.EnvClear {
		out.field("clean environment", "inherits "+strings.Join(append([]string{"the usual"}, r.Inherit...), ", "))
	}
	out.field("variables from", strings.Join(r.EnvFiles, ", "))
	out.field("secrets", strings.Join(slices.Sorted(maps.Keys(r.Secrets)), ", "))
}

func keepText(k task.Keep) string {
	var parts []string
	for _, f := range []struct {
		name string
		d    task.Duration
	}{{"done", k.Done}, {"failed", k.Failed}, {"logs", k.Logs}} {
		if f.d > 0 {
			parts = append(parts, f.name+" "+f.d.String())
		}
	}
	return strings.Join(parts, ", ")
}

func resourcesText(r task.Resources) string {
	var parts []string
	say := func(there bool, format string, v any) {
		if there {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	say(r.Memory > 0, "memory %v", r.Memory)
	say(r.CPU > 0, "cpu %g", r.CPU)
	say(r.PIDs > 0, "pids %d", r.PIDs)
	say(r.FileSize > 0, "file_size %v", r.FileSize)
	say(r.Output > 0, "output %v", r.Output)
	return strings.Join(parts, ", ")
}
