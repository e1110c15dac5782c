package task

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
)

// standing reads the progress and the checkpoint of a task; nil if its current attempt has none, or
// they cannot be read.
func standing(ctx context.Context, c *client.Client, t *task.Task) (*output.Live, *output.Checkpoint) {
	var live *output.Live
	var checkpoint *output.Checkpoint
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

func standingFields(out *term.Table, l *output.Live, c *output.Checkpoint, now time.Time) {
	if l != nil {
		if text := strings.TrimSpace(l.Text()); text != "" {
			out.Field("says", fmt.Sprintf("%s (%s)", text, wording.Moment(l.At, now)))
		}
		out.Field("ready", wording.Moment(l.Ready, now))
		if l.Phase != "" {
			out.Field("phase", l.Phase+" since "+wording.Moment(l.PhaseSince, now))
		}
	}
	if c != nil {
		out.Field("checkpoint", fmt.Sprintf("%s (attempt %d, %s)", c.Value, c.Attempt, wording.Moment(c.At, now)))
	}
}

// surroundingFields lay out the special settings of a process.
func surroundingFields(out *term.Table, r *job.Run) {
	out.Field("user", r.User)
	if r.EnvClear {
		out.Field("clean environment", "inherits "+strings.Join(append([]string{"the usual"}, r.Inherit...), ", "))
	}
	out.Field("variables from", strings.Join(r.EnvFiles, ", "))
	if r.ParamsEnv {
		out.Field("parameters", "each as a variable, too: "+job.VariablePrefix+"NAME")
	}
	out.Field("encoding", r.Encoding)
	out.Field("secrets", strings.Join(slices.Sorted(maps.Keys(r.Secrets)), ", "))
}
