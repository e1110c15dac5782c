package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/job"
)

// Policy is the settings for tasks whose job sets none. Zero means as long as the stream keeps
// them.
type Policy struct {
	Done   time.Duration // of tasks that finished
	Failed time.Duration // of all others
}

// Kind is a kind of kept data.
type Kind string

const (
	// Output is the output lines of tasks.
	Output Kind = "log"
	// Records are the records that tasks have produced.
	Records Kind = "data"
)

// keep is how long the data of an ended task is kept, and the setting that says so; 0 if none does.
func (k Kind) keep(p Policy, t *task.Task) (time.Duration, string) {
	own := t.Kept().Records
	if k == Output {
		own = t.Kept().Output
	}
	if d, name := own(t.State == task.Finished); d > 0 {
		return d, name
	}
	if t.State == task.Finished {
		return p.Done, string(k) + "_keep_done"
	}
	return p.Failed, string(k) + "_keep_failed"
}

// Due returns when to drop a task's data; false if never, or not yet known because the task has not
// ended.
func (k Kind) Due(p Policy, t *task.Task) (time.Time, bool) {
	if !t.State.Terminal() {
		return time.Time{}, false
	}
	d, _ := k.keep(p, t)
	return t.EndedAt.Add(d), d > 0
}

// Reason says why the data is dropped.
func (k Kind) Reason(p Policy, t *task.Task) string {
	d, name := k.keep(p, t)
	return fmt.Sprintf("the task has ended as %s and %s is %v", t.State, name, d)
}

// Store is the store of the kept data.
type Store interface {
	// Forget drops the data of tasks that the log has forgotten.
	Forget(ctx context.Context) error
	// Tasks lists the tasks with data.
	Tasks(ctx context.Context) ([]task.ID, error)
	// Known returns the known tasks among the given ones, quickly: the answer may be outdated.
	Known(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Load reads a task from the log.
	Load(ctx context.Context, id task.ID) (task.Task, error)
	// Drop replaces all of a task's data by one message with a count and a reason, in one step. It
	// returns false if that was done before.
	Drop(ctx context.Context, t *task.Task, reason string, now time.Time) (bool, error)
}

// Retention enforces a policy.
type Retention struct {
	Kind   Kind
	Store  Store
	Policy Policy
	// Every is the interval of its checks. Default one minute. While neither the policy nor any job
	// limits anything, the interval grows with the number of tasks.
	Every time.Duration
	Now   func() time.Time
	Log   *slog.Logger

	due  map[task.ID]time.Time // when to check a task again; far away if nothing is left to do
	asks bool                  // some job sets its own time
}

// Run enforces the policy until ctx ends, whose error it returns.
func (k *Retention) Run(ctx context.Context) error {
	k.Log = cmp.Or(k.Log, slog.New(slog.DiscardHandler))
	every := k.Every
	if every == 0 {
		every = time.Minute
	}
	next := time.NewTimer(every)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		}
		dropped, err := k.sweep(ctx)
		if err != nil && ctx.Err() == nil {
			k.Log.Warn("what was kept long enough could not be dropped; trying again", "error", err, "what", string(k.Kind))
		}
		if dropped > 0 {
			k.Log.Info("dropped what was kept long enough", "tasks", dropped, "what", string(k.Kind))
		}
		if k.Policy == (Policy{}) && !k.asks && err == nil {
			next.Reset(max(every, time.Duration(len(k.due))*idle))
		} else {
			next.Reset(every)
		}
	}
}

const (
	// idle is the interval between checks per task, while nothing is ever to be dropped.
	idle = time.Millisecond
	// settled is when a task without data is checked again, because a retry gives it new data.
	settled = 24 * time.Hour
	// eachTime is how many tasks are read at once.
	eachTime = 250
)

// sweep drops due data and returns for how many tasks.
func (k *Retention) sweep(ctx context.Context) (dropped int, err error) {
	if err := k.Store.Forget(ctx); err != nil {
		return 0, err
	}
	ids, err := k.Store.Tasks(ctx)
	if err != nil {
		return 0, err
	}
	now, next := k.Now(), make(map[task.ID]time.Time, len(ids))
	var look []task.ID
	for _, id := range ids {
		if at, known := k.due[id]; known && now.Before(at) {
			next[id] = at
		} else {
			look = append(look, id)
		}
	}
	for some := range slices.Chunk(look, eachTime) {
		tasks, failed := k.Store.Known(ctx, some)
		err = errors.Join(err, failed)
		for i := range tasks {
			did, again, failed := k.look(ctx, &tasks[i], now)
			if did {
				dropped++
			}
			if failed == nil {
				next[tasks[i].ID] = again
			}
			err = errors.Join(err, failed)
			if ctx.Err() != nil {
				return dropped, ctx.Err()
			}
		}
	}
	k.due = next
	return dropped, err
}

// look drops a task's data if that is due, and returns when to check again.
func (k *Retention) look(ctx context.Context, t *task.Task, now time.Time) (dropped bool, again time.Time, err error) {
	k.asks = k.asks || t.Kept() != job.Keep{}
	due, ok := k.Kind.Due(k.Policy, t)
	switch {
	case !ok && t.State.Terminal():
		return false, now.Add(settled), nil // nothing limits its time
	case !ok:
		return false, now, nil // it may end soon, and be kept for seconds
	case now.Before(due):
		return false, due, nil
	}
	latest, err := k.Store.Load(ctx, t.ID) // it may have been reopened meanwhile
	if err != nil {
		return false, now, err
	}
	if due, ok = k.Kind.Due(k.Policy, &latest); !ok || now.Before(due) {
		return false, now, nil
	}
	dropped, err = k.Store.Drop(ctx, &latest, k.Kind.Reason(k.Policy, &latest), now)
	return dropped, now.Add(settled), err
}
