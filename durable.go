package millrace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
	"millrace/worker"
)

// A function may have steps that are done once, however often it runs: [Step], [Sleep], [Await], [Call],
// [All], [Now], [NewID] and [Version]. The log remembers what each gave. When the function runs again, as
// after a lost worker, a failure or a sleep, it runs from its beginning, is given what is remembered, and
// so goes on behind its last step.
//
// So a function must come to the same steps in the same order each time: what decides about them comes
// from its parameters or from steps. What it does between steps is done again each time; effects belong
// into steps. Steps of one function come one after the other, not from several goroutines.

// ErrSuspended is why a step that waits returns to its function, which is to return that error, or one
// that wraps it, at once. Another attempt goes on when the wait is over. It is no failure.
var ErrSuspended = worker.ErrSuspended

// ErrChanged: the function comes to other steps than those that its task remembers, because its code has
// changed since. The task ends in error, and keeps its steps: with the right code, a retry by an operator
// goes on. [Version] lets old tasks go the old way; or the new code gets another name.
var ErrChanged = worker.ErrChanged

// ErrNoSignal: a signal did not come in time.
var ErrNoSignal = errors.New("the signal did not come in time")

// StepError is the failure of a [Step] that is not tried again, or of a child.
type StepError struct {
	// Step is the name of the step, and Message what it last said.
	Step, Message string
	// Tries is how often a [Step] was tried.
	Tries int
	// Child is the task of a [Call] that did not finish, and State and Reason how it ended.
	Child  ID
	State  task.State
	Reason string
}

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %s", e.Step, e.Message) }

// running is what a running function has in its context.
type running struct {
	app *App
	worker.Function
}

type runningKey struct{}

func runningOf(ctx context.Context, what string) (*running, error) {
	r, _ := ctx.Value(runningKey{}).(*running)
	if r == nil {
		return nil, fmt.Errorf("millrace: %s: %w", what, ErrNotRunning)
	}
	return r, nil
}

// ours names the package in an error of a step; nil stays nil.
func ours(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("millrace: %w", err)
}

// Step does a part of the function once. When it returns without an error, what do returned is stored, at most
// 64 MiB as JSON, and do is not called again for this task: not by another attempt, nor on another worker. Only
// if the worker is lost while do runs, or before its result is recorded, it is called again.
//
// The log has small results. One of more than 64 KiB, and all behind the first 128 KiB of a task, is stored
// beside it, with the files of tasks, for as long as the log knows the task; each attempt reads it again.
//
// With [Retries], and `retry` in [Fields], a failed do is tried again by itself, in another attempt after
// the pause; meanwhile Step returns [ErrSuspended]. Without, or when they are used up, or if the error is
// [Final], Step returns a [*StepError] with the words of the error, each time the function runs. If the
// function then fails, its next attempt tries the step anew. [Timeout] ends the context of each try, which then
// fails as any other. A step has no other options.
//
// The name is the function's own for it. The error may also wrap [ErrChanged], [task.ErrSteps] or
// [worker.ErrFenced], or be ctx's.
func Step[T any](ctx context.Context, name string, do func(context.Context) (T, error), options ...Option) (out T, err error) {
	r, err := runningOf(ctx, "step "+name)
	if err != nil {
		return out, err
	}
	s, todo, err := r.Begin(ctx, name)
	if err != nil {
		return out, ours(err)
	}
	if !todo {
		err := remembered(&s, &out)
		return out, err
	}
	of := settings{job: job.Job{Name: "step", Spec: job.Spec{Handler: "step"}}}.with(options)
	err = of.fault()
	if err == nil && len(options) > 0 {
		err = of.forStep()
	}
	if err != nil {
		r.Leave()
		return out, wrong(name, err)
	}
	within, done := ctx, func() {}
	if d := of.job.Timeout.Run; d > 0 {
		within, done = context.WithTimeout(ctx, time.Duration(d))
	}
	began := time.Now()
	made, err := do(within)
	done()
	if s.Took = value.Duration(time.Since(began)); err == nil {
		if s.Result, err = json.Marshal(made); err != nil {
			err = Final(fmt.Errorf("result: %w", err))
		}
	}
	if err == nil {
		if err := r.Done(ctx, s); err != nil {
			return out, ours(err)
		}
		return made, nil
	}
	if ctx.Err() != nil { // the attempt is being stopped
		r.Leave()
		return out, err
	}
	why := job.Failure{Final: worker.IsFinal(err), After: worker.PauseOf(err)}
	if err := r.Failed(ctx, &s, why, err.Error(), of.job.Retry); err != nil {
		return out, ours(err)
	}
	return out, failed(&s)
}

// forStep refuses what a step cannot have, rather than ignore it.
func (s *settings) forStep() error {
	may := settings{job: job.Job{Name: s.job.Name, Spec: job.Spec{Handler: s.job.Handler, Retry: s.job.Retry}}, wrong: s.wrong}
	may.job.Timeout.Run = s.job.Timeout.Run
	if !reflect.DeepEqual(*s, may) {
		return errors.New("a step has no options but Retries, Timeout, and Fields with retry and timeout.run")
	}
	return nil
}

// remembered reads what a step gave.
func remembered(s *task.Step, out any) error {
	if s.Error != "" {
		return failed(s)
	}
	if len(s.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(s.Result, out); err != nil {
		return worker.Final(fmt.Errorf("millrace: %w: what %s %s gave is of another type: %w", ErrChanged, s.Kind, s.Name, value.Plainly(err)))
	}
	return nil
}

func failed(s *task.Step) *StepError {
	return &StepError{Step: s.Name, Message: s.Error, Tries: s.Tries}
}

// Sleep waits for d, once. The task has no slot, no lease and no place in limits meanwhile, and no process
// need live. It returns [ErrSuspended] first, and nil in the attempt that follows.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	r, err := runningOf(ctx, "sleep "+name)
	if err != nil {
		return err
	}
	return ours(r.Sleep(ctx, name, d))
}

// Await waits for a signal (`millrace task approve`, [Run.Signal], a button on pages, which show the name), and
// returns the data that came with it. Who answers must give a T, as parameters of a function have it: a struct's
// fields, or any other T as the answer itself. A missing, unknown or wrong one is refused, and the function waits on,
// unless T reads JSON by itself or its form has more than 16 KiB. An approval without any answer is a
// zero T, if T may be missing: a struct{}, one of which all fields may be left out, a pointer to no struct, an any.
// Timeout is how long it waits, 0 for ever; then the error wraps [ErrNoSignal]. It wraps [ErrInvalid] if the data are
// no T nevertheless: the function may ask again by another Await. It waits as [Sleep] does. A name is 1 to 64 letters,
// digits, '_' or '-'. An answer that names one wait, as [Run.SignalTo] and buttons do, answers no wait of another
// name: number those of a loop.
func Await[T any](ctx context.Context, name string, timeout time.Duration) (out T, err error) {
	r, err := runningOf(ctx, "await "+name)
	if err != nil {
		return out, err
	}
	if err := value.ValidName("signal", name); err != nil {
		return out, fmt.Errorf("millrace: await: %w", client.Wrong(err))
	}
	data, came, err := r.Await(ctx, name, timeout, func() ([]param.Param, bool) { return asked(reflect.TypeFor[T]()) })
	switch {
	case err != nil:
		return out, ours(err)
	case !came:
		return out, fmt.Errorf("millrace: await %s: %w", name, ErrNoSignal)
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &out); err != nil {
			return out, worker.Final(fmt.Errorf("millrace: await %s: what came with the signal: %w", name, client.Wrong(value.Plainly(err))))
		}
	}
	return out, nil
}

// Call has another function run as a child of the task, and returns its result. The same step never makes
// a second child. It waits as [Sleep] does. If the child ends otherwise than finished, the error is a
// [*StepError]. Errors of the submission are those of [Function.Submit].
func Call[In, Out any](ctx context.Context, name string, f *Function[In, Out], in In, options ...Option) (out Out, err error) {
	c := f.With(in, options...)
	if err := All(ctx, name, c); err != nil {
		return out, err
	}
	return c.Result()
}

// CallEach is [Call] for several at once, one of each of all, at most 100. It returns their results in the same
// order. The error is that of the first that did not finish, when all have ended.
func CallEach[In, Out any](ctx context.Context, name string, f *Function[In, Out], all []In, options ...Option) ([]Out, error) {
	calls, children := make([]*Calling[Out], len(all)), make([]Child, len(all))
	for i, in := range all {
		calls[i] = f.With(in, options...)
		children[i] = calls[i]
	}
	if err := All(ctx, name, children...); err != nil {
		return nil, err
	}
	results := make([]Out, len(all))
	for i, c := range calls {
		var err error
		if results[i], err = c.Result(); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// Child is a child that [All] is to make.
type Child interface {
	spawn(ctx context.Context, key string) (ID, error)
	take(step string, is task.Input)
}

// Calling is a call of a function that returns Out, for [All].
type Calling[Out any] struct {
	make func(ctx context.Context, key string) (ID, error)
	out  Out
	err  error
}

// With is a call of the function, for [All].
func (f *Function[In, Out]) With(in In, options ...Option) *Calling[Out] {
	return &Calling[Out]{
		err: fmt.Errorf("millrace: %s: %w", f.of.name, ErrSuspended),
		make: func(ctx context.Context, key string) (ID, error) {
			run, err := f.Spawn(ctx, key, in, options...)
			if err != nil {
				return "", err
			}
			return run.ID, nil
		},
	}
}

func (c *Calling[Out]) spawn(ctx context.Context, key string) (ID, error) { return c.make(ctx, key) }

func (c *Calling[Out]) take(step string, is task.Input) {
	c.err = nil
	if is.State != task.Finished {
		c.err = &StepError{Step: step, Child: is.Task, State: is.State, Reason: is.Reason, Message: fmt.Sprintf("task %s is %s", is.Task, task.End{State: is.State, Reason: is.Reason})}
	} else if len(is.Result) > 0 {
		if err := decodeResult(is.Result, &c.out); err != nil {
			c.err = fmt.Errorf("millrace: result of task %s: %w", is.Task, err)
		}
	}
}

// Result is what the function returned, once [All] has returned nil; a [*StepError] if it has not finished.
func (c *Calling[Out]) Result() (Out, error) { return c.out, c.err }

// All has several calls run at once, and waits until all of them have ended, as [Call] does. Its error is
// not theirs: each has its own [Calling.Result]. At most 100 calls.
func All(ctx context.Context, name string, calls ...Child) error {
	r, err := runningOf(ctx, "call "+name)
	if err != nil || len(calls) == 0 {
		return err
	}
	var refused error
	ended, err := r.Call(ctx, name, len(calls), func(i int, key string) (id ID, err error) {
		id, refused = calls[i].spawn(ctx, key)
		return id, refused
	})
	switch {
	case refused != nil:
		return refused
	case err != nil:
		if bad, ok := errors.AsType[worker.InvalidStep](err); ok {
			err = client.Wrong(bad)
		}
		return fmt.Errorf("millrace: call %s: %w", name, err)
	}
	for i, c := range calls {
		c.take(name, ended[i])
	}
	return nil
}

// Now is the time at which the function first came here.
func Now(ctx context.Context) (is time.Time, err error) {
	r, err := runningOf(ctx, task.StepNow)
	if err != nil {
		return is, err
	}
	return drawn[time.Time](task.StepNow)(r.Function.Now(ctx))
}

// NewID is an id that is drawn once.
func NewID(ctx context.Context) (is ID, err error) {
	r, err := runningOf(ctx, task.StepID)
	if err != nil {
		return is, err
	}
	return drawn[ID](task.StepID)(r.Function.NewID(ctx))
}

// drawn reads what a step of a kind gave.
func drawn[T any](kind string) func(json.RawMessage, error) (T, error) {
	return func(text json.RawMessage, err error) (is T, _ error) {
		if err != nil {
			return is, ours(err)
		}
		err = remembered(&task.Step{Kind: kind, Result: text}, &is)
		return is, err
	}
}

// Version lets code change under running tasks: it returns is for a task that comes here for the first
// time, for good, and 0 for one whose steps go on behind this place, for it passed here before the code
// asked. The code keeps both ways until no old task is left.
func Version(ctx context.Context, name string, is int) (int, error) {
	r, err := runningOf(ctx, "version "+name)
	if err != nil {
		return 0, err
	}
	return drawn[int](task.StepAs)(r.Function.Version(ctx, name, is))
}
