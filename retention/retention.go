// Package retention drops what ended tasks have printed when it was kept long enough:
// how long depends on how they ended. It holds no truth and needs no leader: what it
// drops it replaces by a line that says so, and who finds that line does nothing.
package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"millrace/task"
)

// Policy says how long output is kept after a task has ended. Zero is for as long as
// the stream keeps anything.
type Policy struct {
	Done   time.Duration // of tasks that finished
	Failed time.Duration // of all others
}

// Due returns when the output of a task is to be dropped; false if never, or not yet
// known because the task has not ended.
func (p Policy) Due(t *task.Task) (time.Time, bool) {
	keep := p.Failed
	if t.State == task.Finished {
		keep = p.Done
	}
	if !t.State.Terminal() || keep <= 0 {
		return time.Time{}, false
	}
	return t.EndedAt.Add(keep), true
}

// Marker is the line that stands where output was dropped.
func (p Policy) Marker(t *task.Task, now time.Time) task.Lines {
	name, keep := "log_keep_failed", p.Failed
	if t.State == task.Finished {
		name, keep = "log_keep_done", p.Done
	}
	text := fmt.Sprintf("what was printed was dropped: the task has ended as %s and %s is %v", t.State, name, keep)
	return task.Lines{Task: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Lines: []task.Line{{N: 1, At: now, Stream: task.System, Text: text}}}
}

// Store is where output lies.
type Store interface {
	// OutputTasks lists the tasks that have output.
	OutputTasks(ctx context.Context) ([]task.ID, error)
	// Load reads a task from the log.
	Load(ctx context.Context, id task.ID) (task.Task, error)
	// DropOutput puts one line in place of all output of a task, atomically. It reports false if
	// that has been done before.
	DropOutput(ctx context.Context, marker task.Lines) (bool, error)
}

// Keeper keeps a policy.
type Keeper struct {
	Store  Store
	Policy Policy
	// Every is how often it looks. Default a minute.
	Every time.Duration
	Now   func() time.Time
	Log   zerolog.Logger

	due map[task.ID]time.Time // when a task is to be looked at again; far away if nothing is left to do
}

// Run keeps the policy until ctx ends, whose error it returns.
func (k *Keeper) Run(ctx context.Context) error {
	if k.Policy == (Policy{}) {
		<-ctx.Done()
		return ctx.Err()
	}
	every := k.Every
	if every == 0 {
		every = time.Minute
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		dropped, err := k.sweep(ctx)
		if err != nil && ctx.Err() == nil {
			k.Log.Warn().Err(err).Msg("output that was kept long enough could not be dropped; trying again")
		}
		if dropped > 0 {
			k.Log.Info().Int("tasks", dropped).Msg("dropped output that was kept long enough")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

const (
	// lookAgain is when a task is looked at again that has not ended.
	lookAgain = 10 * time.Minute
	// settled is when a task is looked at again that has nothing left: a retry gives it output anew.
	settled = 24 * time.Hour
)

// sweep drops what is due and returns of how many tasks.
func (k *Keeper) sweep(ctx context.Context) (dropped int, err error) {
	ids, err := k.Store.OutputTasks(ctx)
	if err != nil {
		return 0, err
	}
	next := make(map[task.ID]time.Time, len(ids))
	for _, id := range ids {
		if at, known := k.due[id]; known && k.Now().Before(at) {
			next[id] = at
			continue
		}
		did, again, failed := k.look(ctx, id)
		if did {
			dropped++
		}
		if failed == nil {
			next[id] = again
		}
		err = errors.Join(err, failed)
		if ctx.Err() != nil {
			break
		}
	}
	k.due = next
	return dropped, err
}

// look drops the output of a task if that is due, and returns when to look again.
func (k *Keeper) look(ctx context.Context, id task.ID) (dropped bool, again time.Time, err error) {
	now := k.Now()
	t, err := k.Store.Load(ctx, id)
	if errors.Is(err, task.ErrUnknown) {
		return false, now.Add(settled), nil // not ours
	}
	if err != nil {
		return false, now, err
	}
	due, ok := k.Policy.Due(&t)
	switch {
	case !ok:
		return false, now.Add(lookAgain), nil
	case now.Before(due):
		return false, due, nil
	}
	dropped, err = k.Store.DropOutput(ctx, k.Policy.Marker(&t, now))
	return dropped, now.Add(settled), err
}
