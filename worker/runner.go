package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"millrace/task"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/value"
)

// Runner runs attempts of one kind, for example child processes.
type Runner interface {
	// Run runs an attempt to its end. When ctx is done it stops the attempt, within
	// [Attempt.Grace], and returns only when no process of it is left. It never panics.
	Run(ctx context.Context, a *Attempt) Outcome
}

// Outcome is how an attempt ended.
type Outcome struct {
	// Class is "" for success, else one of [job.Classes].
	Class string
	// Exit is the exit code of a process.
	Exit *int
	// Message tells people what went wrong.
	Message string
	// Result is a small JSON value, or nil.
	Result json.RawMessage
	Usage  *task.Usage
	// Final forbids another attempt.
	Final bool
	// RetryAfter is the pause that the attempt asks for before the next one; 0 leaves it to the
	// task's policy.
	RetryAfter time.Duration
	// Snooze gives the task back, to be started again after this time. That is no failure, whatever
	// Class says. 0 for no snooze.
	Snooze time.Duration
	// Park is what the function waits for, without a worker; nil for nothing. That is no failure either.
	// Steps are those that it has done and not recorded, behind the first of its steps.
	Park  *task.Park
	First int
	Steps []task.Step
	// Stopped is set if the attempt ended because ctx was done.
	Stopped bool
	// Orphan is set if the attempt goes on without this process; then no other field is.
	Left bool
	// Survivors is how many processes could not be ended; the end of the attempt is then unknown.
	Survivors int
}

// Why an attempt is stopped; the cause of its context.
var (
	// ErrCancelled: a client has cancelled the task.
	ErrCancelled = errors.New("the task is cancelled")
	// ErrTimeout: the attempt ran longer than timeout.run.
	ErrTimeout = errors.New("the attempt ran longer than timeout.run allows")
	// ErrIdle: the attempt was silent for longer than timeout.idle.
	ErrIdle = errors.New("the attempt was silent for longer than timeout.idle allows")
	// ErrHeartbeat: the program sent no message for longer than timeout.heartbeat.
	ErrHeartbeat = errors.New("the program sent no heartbeat for longer than timeout.heartbeat allows")
	// ErrShutdown: the worker ends and gives the task back.
	ErrShutdown = errors.New("the worker shuts down")
	// ErrDrained: an operator has drained the node, and the grace for that is over.
	ErrDrained = errors.New("the node was drained")
	// ErrCutOff: the connection to the log is closed for good, so this process can serve nothing.
	ErrCutOff = errors.New("the worker's connection to the log is closed for good")
	// ErrSucceeded: another process has taken the node's name, or the node was retired.
	ErrSucceeded = errors.New("this process is no longer the node")
	// ErrHurry: the worker ends at once and gives the task back.
	ErrHurry = errors.New("the worker ends at once")
	// ErrLeaseLost: the worker cannot confirm that the task is still its own.
	ErrLeaseLost = errors.New("the lease could not be confirmed in time")
	// ErrFenced: the task no longer belongs to this attempt.
	ErrFenced = errors.New("the task has moved on to another attempt")
)

// Attempt is one try of a task on this worker.
type Attempt struct {
	// Task is the task as it was when the attempt started.
	Task task.Task
	// Deadline is when timeout.run ends it; zero if there is none.
	Deadline time.Time
	// Output takes what the attempt prints and produces.
	Output *Output

	worker  *Worker
	output  Output // Output points here
	lease   leaseState
	started atomic.Bool   // something of it may run
	heard   chan struct{} // holds one when there is a new heartbeat
	context context.Context
	stop    context.CancelCauseFunc
	release context.CancelFunc // of the deadline's timer; nil without one
	silence *time.Timer        // of timeout.idle; nil without one
	quiet   *time.Timer        // of timeout.heartbeat; nil without one
	last    []byte             // the checkpoint to continue from
	timeout runTimeout
	kept    *kept // nil if the attempt ends with its worker
	spawned spawned
	memory  memory
	span    Span // nil without a tracer
}

// Tracer begins spans of attempts.
type Tracer interface {
	// Attempt begins the span of the current attempt of a task. root is the task's outermost
	// ancestor, or the task itself. Work that runs in the returned context becomes a child of the
	// span.
	Attempt(ctx context.Context, t *task.Task, root task.ID) (context.Context, Span)
}

// Span is the span of one attempt.
type Span interface {
	// Traceparent returns the span's place in W3C's traceparent form.
	Traceparent() string
	// End ends the span: an empty class means success, else why says what happened.
	End(at time.Time, class, why string)
}

// Traceparent returns the trace context for the attempt's program: the attempt's own span if the
// worker traces, else the context with which the task was submitted; "" if there is none.
func (a *Attempt) Traceparent() string {
	if a.span != nil {
		return a.span.Traceparent()
	}
	return a.Task.Trace
}

// trace begins the span of the attempt.
func (a *Attempt) trace() {
	w := a.worker
	if w.cfg.Tracer == nil {
		return
	}
	a.context, a.span = w.cfg.Tracer.Attempt(a.context, &a.Task, w.root(a.context, &a.Task))
}

// root returns the outermost ancestor of a task, as far as the log can be read. A task with its own
// trace context does not need it.
func (w *Worker) root(ctx context.Context, t *task.Task) task.ID {
	root := t.ID
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	for id := t.Parent; id != "" && t.Trace == ""; {
		above, err := w.protocol.Recorder.Load(ctx, id)
		if err != nil {
			return id
		}
		root, id = id, above.Parent
	}
	return root
}

// traced ends the span with the outcome of the attempt.
func (a *Attempt) traced(o *Outcome) {
	if a.span == nil {
		return
	}
	class, why := o.Class, o.Message
	if o.Stopped {
		class, why = "stopped", "it was stopped"
		if cause := context.Cause(a.context); cause != nil {
			why = cause.Error()
		}
	}
	a.span.End(a.worker.cfg.Now(), class, why)
}

// end releases what the attempt holds.
func (a *Attempt) end() {
	a.stop(nil)
	if a.release != nil {
		a.release()
	}
	for _, timer := range []*time.Timer{a.silence, a.quiet, a.timeout.timer} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// Grace is how long an attempt that is stopped for this cause may take to end by itself. It is
// shorter than the task's own grace when the lease is at stake: the attempt must be gone before
// another worker can have started the task.
func (a *Attempt) Grace(cause error) time.Duration {
	grace := a.Task.Spec.Timeout.Grace()
	switch {
	case errors.Is(cause, ErrLeaseLost), errors.Is(cause, ErrCutOff):
		grace = min(grace, a.worker.safety.grace())
	case errors.Is(cause, ErrSucceeded):
		grace = min(grace, a.worker.safety.grace(), node.Succession/3)
	case errors.Is(cause, ErrHurry):
		grace = 0
	}
	return grace
}

// Handler is a Go function that runs tasks. Its argument t holds task id, attempt, epoch and
// parameters. It must return soon after ctx is done. ctx has the deadline of timeout.run, unless
// timeout.extend lets that move, and [FromContext] finds the attempt in it.
//
// A nil error is success. Any other error is a failure of class "task", retried as the task's
// policy says, unless it wraps what [Final], [RetryAfter] or [Snooze] returns. A panic is a
// failure.
type Handler func(ctx context.Context, t task.Task) error

// Final marks an error as permanent: the task gets no further attempt.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return finalError{err}
}

type finalError struct{ error }

// IsFinal tells whether an error is, or wraps, an error that [Final] made.
func IsFinal(err error) bool {
	var final finalError
	return errors.As(err, &final)
}

func (e finalError) Unwrap() error { return e.error }

// RetryAfter asks that the next attempt, if the task's policy allows one, start after d instead of
// the policy's back-off: for example, after the pause that a rate-limiting server asked for. The
// policy's max_delay caps it. With a nil error, or a d of zero or less, it changes nothing.
func RetryAfter(err error, d time.Duration) error {
	if err == nil || d <= 0 {
		return err
	}
	return retryAfterError{err, d}
}

type retryAfterError struct {
	error
	after time.Duration
}

func (e retryAfterError) Unwrap() error { return e.error }

// PauseOf returns the pause that an error asks for by [RetryAfter]; 0 for none.
func PauseOf(err error) time.Duration {
	asked, _ := errors.AsType[retryAfterError](err)
	return asked.after
}

// Snooze is an error by which a handler gives its task back, to be started again after d: for
// example, because what it needs is not there yet. That is no failure and takes no retry. A d of
// zero or less is at once.
func Snooze(d time.Duration) error { return snoozeError{max(d, time.Nanosecond)} }

type snoozeError struct{ d time.Duration }

func (e snoozeError) Error() string {
	return "it asked to be started again in " + value.Duration(e.d).String()
}

// Suspend is an error by which a handler gives its task back while its function waits in a step. steps
// are those that it has done and not recorded, behind the first of its steps.
func Suspend(park task.Park, first int, steps []task.Step) error {
	return suspendError{park, first, steps}
}

type suspendError struct {
	park  task.Park
	first int
	steps []task.Step
}

func (e suspendError) Error() string { return e.park.Words() }

type replayKey struct{}

// Rerun runs the handler of a task again, as the attempt that a record has of it: it is given what the task
// remembers, and does no step beyond that. Nothing is claimed or reported, and nothing ends the attempt but ctx.
func (w *Worker) Rerun(ctx context.Context, t task.Task) Outcome {
	a := &Attempt{worker: w, Task: t}
	a.output = Output{worker: w, ctx: ctx, task: t.ID, attempt: t.Attempt, epoch: t.Epoch, allowed: w.allows(&t)}
	a.Output, a.heard = &a.output, make(chan struct{}, 1)
	a.started.Store(true)
	a.context, a.stop = context.WithCancelCause(context.WithValue(ctx, replayKey{}, true))
	defer a.end()
	o := w.handlers.Run(a.context, a)
	if err := a.Output.close(); err != nil && o.Class == "" {
		o.Class, o.Message = value.Task, err.Error()
	}
	return o
}

// Replays tells whether ctx is of [Worker.Rerun].
func Replays(ctx context.Context) bool { return ctx.Value(replayKey{}) != nil }

type stepsKey struct{}

// AtSteps returns a context in which a function asks come before it does a step or is given what it remembers of one:
// with the name of the step behind which it comes, "" for none, and that of this one; those without a name go by their
// kind. An error of come ends the function's steps.
func AtSteps(ctx context.Context, come func(behind, step string) error) context.Context {
	return context.WithValue(ctx, stepsKey{}, come)
}

// OnStep returns what [AtSteps] has set in ctx; nil if nothing.
func OnStep(ctx context.Context) func(behind, step string) error {
	come, _ := ctx.Value(stepsKey{}).(func(behind, step string) error)
	return come
}

type attemptKey struct{}

// FromContext returns the attempt that a handler runs; nil outside a handler.
func FromContext(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// handlers run attempts by the name that their task gives.
type handlers map[string]Runner

// Run implements [Runner].
func (h handlers) Run(ctx context.Context, a *Attempt) Outcome {
	if r, ok := h[a.Task.Spec.Handler]; ok {
		return r.Run(ctx, a)
	}
	return Outcome{Class: value.System, Message: fmt.Sprintf(
		"node %s has no handler %q: register it with Handle, or let this queue be served only by workers that have it", a.worker.cfg.Node, a.Task.Spec.Handler)}
}

// fixed tells whether the deadline of the attempt is that of a context, which cannot be extended.
func (a *Attempt) fixed() bool {
	_, function := a.worker.handlers[a.Task.Spec.Handler].(Handler)
	return a.Task.Spec.Run == nil && function && a.Task.Spec.Timeout.Extend == 0
}

// Run implements [Runner].
func (h Handler) Run(ctx context.Context, a *Attempt) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			a.Output.Line(output.System, fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			o = Outcome{Class: value.Task, Message: fmt.Sprintf("the handler panicked: %v", p)}
		}
	}()
	t := a.Task
	t.Params = t.ParamsObject()
	err := h(context.WithValue(ctx, attemptKey{}, a), t)
	if err != nil {
		o = Failed(err)
		o.Stopped = ctx.Err() != nil
	}
	o.Result = a.Output.result()
	return o
}

// Failed is how an attempt ended whose function has returned this error.
func Failed(err error) Outcome {
	o := Outcome{Class: value.Task, Message: err.Error(), Final: IsFinal(err), RetryAfter: PauseOf(err)}
	if asked, ok := errors.AsType[snoozeError](err); ok {
		o.Snooze = asked.d
	}
	if waits, ok := errors.AsType[suspendError](err); ok {
		o.Park, o.First, o.Steps = &waits.park, waits.first, waits.steps
	}
	return o
}

// noCommands runs tasks of commands where none may run.
type noCommands struct{}

func (noCommands) Run(context.Context, *Attempt) Outcome {
	return Outcome{Class: value.System, Message: "this worker runs only handlers: let queues with commands be served by `millrace worker`"}
}
