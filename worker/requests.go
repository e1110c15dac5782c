package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/output"
	"millrace/task/value"
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
	s.ID, s.Parent, s.Trace = birth.ChildID(a.Task.ID, key), a.Task.ID, a.Task.Trace
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

// Checkpoint stores the value from which a later attempt continues, at most [MaxCheckpoint] bytes
// of JSON, in place of the previous one. When it returns without an error the value is durable. The
// error wraps [task.ErrFenced] if the task no longer belongs to this attempt.
func (a *Attempt) Checkpoint(ctx context.Context, value []byte) error {
	if len(value) > MaxCheckpoint {
		return fmt.Errorf("checkpoint: it has %d bytes, want at most %d", len(value), MaxCheckpoint)
	}
	a.Output.Heartbeat()
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	return a.worker.outputs.SaveCheckpoint(ctx, output.Checkpoint{
		Task: a.Task.ID, Attempt: a.Task.Attempt, Epoch: a.Task.Epoch, At: a.worker.cfg.Now(), Value: value,
	})
}

// memory is the task with the steps that the attempt has recorded.
type memory struct {
	mu sync.Mutex
	is *task.Task // guarded by mu; nil if it has recorded none
	// drawn are steps behind them, which the log gets with the next one, or with the end of the attempt.
	drawn []task.Step // guarded by mu
}

// Draw says which steps are done behind those that are recorded: all of them, each time.
func (a *Attempt) Draw(steps []task.Step) {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	a.memory.drawn = slices.Clone(steps)
}

func (a *Attempt) drawn() []task.Step {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	return a.memory.drawn
}

// Remember records steps that the function has done for good, behind the first of its steps. When it
// returns without an error, they are in the log, and what is too large for it is stored apart. The error wraps
// [task.ErrFenced] if the task no longer belongs to this attempt, and [task.ErrSteps] if they are too many or
// too large.
func (a *Attempt) Remember(ctx context.Context, first int, steps []task.Step) error {
	a.Output.Heartbeat()
	if err := a.setApart(ctx, steps); err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	t, _, err := a.worker.protocol.Recorder.Do(ctx, a.known(), task.Remember{Epoch: a.Task.Epoch, First: first, Steps: steps})
	if err != nil {
		return fmt.Errorf("remember: %w", err)
	}
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	a.memory.is, a.memory.drawn = &t, nil
	return nil
}

// setApart stores the results apart that the log is not to have, before the fact that says where they are.
func (a *Attempt) setApart(ctx context.Context, steps []task.Step) error {
	t := a.known()
	for i := range steps {
		s := &steps[i]
		n := len(s.Result)
		if !t.Apart(n) || s.Kind != task.StepDo || n > task.MaxStepApart {
			continue // small, or refused
		}
		digest := value.Digest(s.Result)
		if err := a.worker.outputs.SaveStep(ctx, t.ID, digest, s.Result); err != nil {
			return fmt.Errorf("store %d bytes: %w", n, err)
		}
		s.Result, s.Digest, s.Size = nil, digest, n
	}
	return nil
}

// ResultOf returns what a step has given that the task remembers, wherever it is stored.
func (a *Attempt) ResultOf(ctx context.Context, s *task.Step) ([]byte, error) {
	if s.Digest == "" {
		return s.Result, nil
	}
	result, err := a.worker.outputs.StepResult(ctx, a.Task.ID, s.Digest, s.Size)
	if err == nil && value.Digest(result) != s.Digest {
		err = fmt.Errorf("the store has other %d bytes in its place", len(result))
	}
	return result, err
}

// Now is the time, by the clock of the log.
func (a *Attempt) Now() time.Time { return a.worker.cfg.Now() }

// known is the task as this attempt has recorded it last.
func (a *Attempt) known() task.Task {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	if a.memory.is != nil {
		return *a.memory.is
	}
	return a.Task
}

// MaxCheckpoint is the largest checkpoint, in bytes.
const MaxCheckpoint = 64 << 10

// asking bounds the wait for the server's answer to a program's request.
const asking = 30 * time.Second

// Last returns the checkpoint from which the attempt continues; nil if there is none.
func (a *Attempt) Last() []byte { return a.last }

// ErrUnread: the checkpoint of an earlier attempt could not be read.
var ErrUnread = errors.New("the checkpoint of an earlier attempt could not be read")

// resume reads the checkpoint of an earlier attempt. A first attempt has none, so it costs no read.
func (a *Attempt) resume(ctx context.Context) error {
	if a.Task.Attempt <= 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	c, err := a.worker.outputs.Checkpoint(ctx, a.Task.ID)
	if err != nil {
		return err
	}
	a.last = c.Value
	return nil
}

// Extend asks that the run timeout pass no earlier than by from now, and returns when it now
// passes: no later than timeout.extend allows, zero if there is no timeout. The deadline of a
// Go function without a timeout.extend of its own is fixed: there Extend returns an error.
func (a *Attempt) Extend(ctx context.Context, by time.Duration) (time.Time, error) {
	if a.fixed() && !a.Deadline.IsZero() {
		return a.Deadline, errors.New("extend: the deadline of a handler is fixed, unless its timeout.extend says by how much it may move")
	}
	a.Output.Heartbeat()
	until := a.until()
	if until.IsZero() || !a.worker.cfg.Now().Add(by).After(until) {
		return until, nil
	}
	// Ask for half as much again, so that a program that asks often leaves few facts.
	asked := a.worker.cfg.Now().Add(by + by/2)
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	t, _, err := a.worker.protocol.Recorder.Do(ctx, a.Task, task.Extend{Epoch: a.Task.Epoch, Until: asked})
	if err != nil {
		return until, fmt.Errorf("extend: %w", err)
	}
	return a.runUntil(t.RunUntil()), nil
}
