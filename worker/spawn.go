package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/family"
	"millrace/task/output"
)

// spawned counts the children that an attempt has asked for.
type spawned struct {
	mu        sync.Mutex
	keys      map[string]bool // guarded by mu
	ancestors int             // guarded by mu; ancestors of the task, if counted
	counted   bool            // guarded by mu
}

// Spawn submits a child of the task and returns its id. The same key never makes a second child,
// not even from a later attempt. A child that names no job and no queue waits in its parent's
// queue.
//
// The error wraps [birth.ErrSpawn] if the worker's [Config.Spawning] does not allow the child. An
// attempt that is being stopped gets no more children.
func (a *Attempt) Spawn(ctx context.Context, key string, s birth.Submission) (task.ID, error) {
	if a.worker.cfg.Submit == nil {
		return "", errors.New("spawn: this worker cannot submit tasks: set Submit of its configuration")
	}
	if a.context.Err() != nil {
		return "", fmt.Errorf("spawn: the attempt is being stopped: %w", context.Cause(a.context))
	}
	a.Output.Heartbeat()
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	if err := a.mayHave(ctx, key, &s); err != nil {
		return "", fmt.Errorf("spawn: %w", err)
	}
	s.ID, s.Parent, s.Trace = family.ChildID(a.Task.ID, key), a.Task.ID, a.Task.Trace
	switch err := a.worker.cfg.Submit(ctx, s); {
	case errors.Is(err, task.ErrOther):
		a.Output.Line(output.System, fmt.Sprintf("SPAWN asks for the child %q again, and for something else; the first one stays: %v", key, err))
	case err != nil:
		return "", fmt.Errorf("spawn: %w", err)
	}
	return s.ID, nil
}

// mayHave checks a child against the bounds of the worker.
func (a *Attempt) mayHave(ctx context.Context, key string, s *birth.Submission) error {
	own := &a.spawned
	own.mu.Lock()
	defer own.mu.Unlock()
	bounds := a.worker.cfg.Spawning
	if !own.counted {
		n, err := a.ancestors(ctx, bounds.Depth)
		if err != nil {
			return err
		}
		own.ancestors, own.counted = n, true
	}
	n := len(own.keys) + 1
	if own.keys[key] {
		n--
	}
	if err := bounds.Check(&a.Task, s, n, own.ancestors); err != nil {
		return err
	}
	if own.keys == nil {
		own.keys = map[string]bool{}
	}
	own.keys[key] = true
	return nil
}

// ancestors counts the tasks above this one, up to most.
func (a *Attempt) ancestors(ctx context.Context, most int) (int, error) {
	n := 0
	for id := a.Task.Parent; id != "" && n < most; n++ {
		above, err := a.worker.protocol.Recorder.Load(ctx, id)
		if errors.Is(err, task.ErrUnknown) {
			return n + 1, nil
		}
		if err != nil {
			return n, err
		}
		id = above.Parent
	}
	return n, nil
}
