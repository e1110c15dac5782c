package millrace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/ipc"
)

// A handler may have steps that are done once, however often it runs. In each attempt it runs from its
// beginning, comes to the same steps in the same order, is given what is remembered, and so goes on behind
// its last step.

// ErrSuspended: a step waits. The handler is to return at once; its task goes on behind the step, in another
// attempt.
var ErrSuspended = errors.New("the handler waits, and goes on in another attempt")

// ErrNoSignal: a signal did not come in time.
var ErrNoSignal = errors.New("the signal did not come in time")

// StepError says why a step has failed for good, or that the child of a call has not finished.
type StepError struct {
	Step, Message string
	// Tries is how often a [Step] was tried.
	Tries int
	// Child is how the child of a call has ended; else nil.
	Child *Child
}

func (e *StepError) Error() string { return "step " + e.Step + ": " + e.Message }

// Child is how a child of [CallAll] has ended.
type Child struct {
	Task   string          `json:"task"`
	State  string          `json:"state"`
	Reason string          `json:"reason"`
	Result json.RawMessage `json:"result"`
	step   string
}

// Read reads the result into v. The error is a [*StepError] unless the child is finished.
func (c *Child) Read(v any) error {
	if c.State != "finished" {
		why := fmt.Sprintf("task %s is %s", c.Task, c.State)
		if c.Reason != "" {
			why += ": " + c.Reason
		}
		return &StepError{Step: c.step, Message: why, Child: c}
	}
	return decode(c.Result, v)
}

func decode(text json.RawMessage, v any) error {
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, v)
}

// Step does a part of the task once, and remembers as JSON what do returned. Retry says when it is tried
// again by itself, as `retry` of a job, such as {"max": 3}; nil for never. The error is a [*StepError] when
// the step has failed for good; it wraps [ErrSuspended] or [ErrRefused], or is ctx's.
func Step[T any](ctx context.Context, name string, retry map[string]any, do func(context.Context) (T, error)) (out T, err error) {
	is, err := comes(ctx, map[string]any{"kind": "step", "name": name, "retry": retry})
	if err != nil || is.Known {
		return out, errors.Join(err, decode(is.Value, &out))
	}
	made, err := do(ctx)
	end := map[string]any{"result": made}
	if failed, ok := errors.AsType[*FailError](err); ok {
		end = map[string]any{"error": failed.Failure}
	} else if err != nil {
		end = map[string]any{"error": Failure{Message: err.Error()}}
	}
	answer, err := FromContext(ctx).ask(ctx, ipc.TypeStepped, end)
	if err == nil {
		_, err = became(name, answer)
	}
	return made, err
}

// Sleep waits for d, once. No slot is taken meanwhile. The error wraps [ErrSuspended] or [ErrRefused], or is
// ctx's.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	_, err := comes(ctx, map[string]any{"kind": "sleep", "name": name, "for": d.Seconds()})
	return err
}

// WaitFor waits for a signal, and returns the data that came with it. Timeout is how long it waits, 0 for
// ever; then the error wraps [ErrNoSignal]. Form are the questions that whoever gives it answers, each as a job
// declares a parameter; one without a name is the only one, whose answer is the data. Others are refused, none at
// all included, unless there is no form. Other errors are those of [Sleep].
func WaitFor[T any](ctx context.Context, name string, timeout time.Duration, form ...map[string]any) (out T, err error) {
	asked := map[string]any{"kind": "await", "name": name}
	if len(form) > 0 {
		asked["form"] = form
	}
	if timeout > 0 {
		asked["timeout"] = timeout.Seconds()
	}
	is, err := comes(ctx, asked)
	if _, failed := errors.AsType[*StepError](err); failed {
		return out, fmt.Errorf("%s: %w", name, ErrNoSignal)
	}
	return out, errors.Join(err, decode(is.Value, &out))
}

// Call has a child run, as [Program.Spawn] does, and returns its result. The error is a [*StepError] if the
// child has not finished; others are those of [Sleep].
func Call[T any](ctx context.Context, name string, child map[string]any) (out T, err error) {
	ended, err := CallAll(ctx, name, child)
	if err == nil {
		err = ended[0].Read(&out)
	}
	return out, err
}

// CallAll has several children run at once, and returns how they ended. Errors are those of [Sleep].
func CallAll(ctx context.Context, name string, children ...map[string]any) (ended []Child, err error) {
	is, err := comes(ctx, map[string]any{"kind": "call", "name": name, "of": children})
	if err == nil {
		err = decode(is.Value, &ended)
	}
	if err == nil && len(ended) != len(children) {
		err = fmt.Errorf("%s: %d children have ended, want %d", name, len(ended), len(children))
	}
	for i := range ended {
		ended[i].step = name
	}
	return ended, err
}

// Now is the time at which the handler first came here. Errors are those of [Sleep].
func Now(ctx context.Context) (time.Time, error) {
	return gave[time.Time](ctx, map[string]any{"kind": "now"})
}

// NewID is an id that is drawn once. Errors are those of [Sleep].
func NewID(ctx context.Context) (string, error) {
	return gave[string](ctx, map[string]any{"kind": "id"})
}

// Version returns is for a task that comes here for the first time, and 0 for one that passed before there
// was this. Errors are those of [Sleep].
func Version(ctx context.Context, name string, is int) (int, error) {
	return gave[int](ctx, map[string]any{"kind": "version", "name": name, "is": is})
}

func gave[T any](ctx context.Context, step map[string]any) (out T, err error) {
	is, err := comes(ctx, step)
	if err == nil {
		err = decode(is.Value, &out)
	}
	return out, err
}

// comes comes to a step, and returns what becomes of it.
func comes(ctx context.Context, step map[string]any) (ipc.Outcome, error) {
	name, _ := step["name"].(string)
	p := FromContext(ctx)
	if p == nil {
		return ipc.Outcome{}, fmt.Errorf("step %s: no handler has this context: %w", name, ErrNoAnswer)
	}
	answer, err := p.ask(ctx, ipc.TypeStep, step)
	if err != nil {
		return ipc.Outcome{}, err
	}
	return became(name, answer)
}

func became(name string, answer ipc.Receipt) (is ipc.Outcome, err error) {
	if answer.Step != nil {
		is = *answer.Step
	}
	switch {
	case is.Suspended:
		return is, fmt.Errorf("step %s: %w", name, ErrSuspended)
	case is.Failed != "":
		return is, &StepError{Step: name, Message: is.Failed, Tries: is.Tries}
	}
	return is, nil
}
