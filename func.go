package millrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/schedule"
	"millrace/task/value"
	"millrace/worker"
)

// Function is a Go function with a name, which some programs submit and others run. [Func] makes
// one.
type Function[In, Out any] struct {
	run func(context.Context, In) (Out, error)
	of  handler
}

// Handler is a [Function] of any types.
type Handler interface{ handler() *handler }

// handler is what of a function does not depend on its types.
type handler struct {
	name     string
	in, out  reflect.Type
	settings settings
	run      func(ctx context.Context, t *Task) error // nil in programs that only submit
}

func (f *Function[In, Out]) handler() *handler { return &f.of }

// Func names a function, with the options of all its tasks. The name is 1 to 64 letters a to z or A
// to Z, digits, '_', '-', '.' or ':'; it stays the same as long as there are tasks with it.
//
// A task carries In and Out as JSON: the fields of a struct or a map are the task's parameters, and
// any other In is one parameter, value. A field's tag doc says to people what it is, and enum:"eu,us" which
// values it may have. Run must return soon after ctx has ended: when the task is
// cancelled, its time is up, or the worker ends. An error is a failure, after which the options say
// whether there is another attempt; a panic is a failure, too, and the task's log has its stack.
//
// A wrong name or option is an error of whatever uses the function first. In a program that only submits, run may
// be nil.
func Func[In, Out any](name string, run func(context.Context, In) (Out, error), options ...Option) *Function[In, Out] {
	f := &Function[In, Out]{run: run}
	f.of = handler{name: name, in: reflect.TypeFor[In](), out: reflect.TypeFor[Out]()}
	if run != nil {
		f.of.run = f.attempt
	}
	of := settings{job: job.Job{Name: jobName(name), Spec: job.Spec{Handler: name}}}
	of = of.with(options)
	if err := value.JoinFaults(of.job.Validate(), schedule.ValidateOfJob(&of.job, "schedule", nil)); err != nil && len(of.wrong) == 0 {
		of.wrong = append(of.wrong, err)
	}
	f.of.settings = of
	return f
}

// Action is [Func] for a function that returns nothing but an error.
func Action[In any](name string, run func(context.Context, In) error, options ...Option) *Function[In, struct{}] {
	if run == nil {
		return Func[In, struct{}](name, nil, options...)
	}
	return Func(name, func(ctx context.Context, in In) (struct{}, error) { return struct{}{}, run(ctx, in) }, options...)
}

// jobName is the name of the job as which a function is stored: names of jobs have no dots or
// colons.
func jobName(function string) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(function)
}

// asJob returns the function as a job, with its parameters and its result declared.
func (h *handler) asJob() (job.Job, error) {
	j := h.settings.job
	err := h.settings.fault()
	if err == nil {
		if j.Params.Declared = declared(h.in); j.Returns == nil {
			j.Returns = returned(h.out)
		}
		err = j.Validate()
	}
	if err != nil {
		return j, wrong(h.name, err)
	}
	return j, nil
}

// submission returns what makes a task of the function, now.
func (f *Function[In, Out]) submission(ctx context.Context, app *App, in In, options []Option) (Submission, error) {
	of := f.of.settings.with(options)
	if of.job.Schedule != f.of.settings.job.Schedule {
		return of.each, wrong(f.of.name, errors.New("planned runs are no option of a submission: give Cron or Every to Func, or to Schedule"))
	}
	return f.made(ctx, app, in, of)
}

// made returns what makes a task of the function with these settings.
func (f *Function[In, Out]) made(ctx context.Context, app *App, in In, of settings) (Submission, error) {
	err := of.fault()
	s := of.each
	if err == nil {
		s.Params, err = encode(in)
	}
	if err != nil {
		return s, wrong(f.of.name, err)
	}
	s.Spec, s.Queue, s.Priority, s.Labels, s.Group = &of.job.Spec, of.job.Queue, of.job.Priority, of.job.Labels, of.job.Group
	if of.stored {
		s.Spec, s.Job = nil, of.job.Name
		if s.Queue == f.of.settings.job.Queue {
			s.Queue = ""
		}
		if err := replace(&s, f.of.settings.job.Spec, of.job.Spec); err != nil {
			return s, wrong(f.of.name, err)
		}
	}
	return s, app.looked(ctx, &s)
}

// to refuses to submit to no App.
func (h *handler) to(app *App) error {
	if app == nil || app.client == nil {
		return wrong(h.name, errors.New("there is no App to submit to: Open makes one"))
	}
	return nil
}

// replace has a submission of a stored job say what an option of its own has changed.
func replace(s *Submission, stored, asked job.Spec) error {
	if asked.Retry.Max != stored.Retry.Max {
		s.Retries = &asked.Retry.Max
		stored.Retry.Max = asked.Retry.Max
	}
	if !reflect.DeepEqual(asked.Unique, stored.Unique) {
		s.Unique = &asked.Unique
		stored.Unique = asked.Unique
	}
	is, was := &asked.Timeout, &stored.Timeout
	for _, t := range []struct {
		is, was *value.Duration
		to      **value.Duration
	}{{&is.Run, &was.Run, &s.Run}, {&is.Pending, &was.Pending, &s.Pending}, {&is.Assign, &was.Assign, &s.Assign}, {&is.Total, &was.Total, &s.Total}} {
		if *t.is != *t.was {
			*t.to, *t.was = t.is, *t.is
		}
	}
	if !reflect.DeepEqual(asked, stored) {
		return errors.New("an option of this submission is for all tasks of a stored job: give it to Func")
	}
	return nil
}

// Submit makes a task that calls the function with in. When it returns without an error, the task
// is in the log and comes to an end, whether or not a worker is there. After an error of ctx the
// task may exist; with [WithID] it is safe to submit it again.
//
// The error wraps [ErrInvalid], [ErrTooLarge], [ErrFull], [ErrOther], or ctx's; or it is a
// [*Taken].
func (f *Function[In, Out]) Submit(ctx context.Context, app *App, in In, options ...Option) (*Run[Out], error) {
	s, err := f.submission(ctx, app, in, options)
	if err == nil {
		err = f.of.to(app)
	}
	if err != nil {
		return nil, err
	}
	made, err := app.client.Submit(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("millrace: %s: %w", f.of.name, err)
	}
	return &Run[Out]{ID: made.ID, Existing: made.Existing || made.Again, app: app}, nil
}

// SubmitAll is [Function.Submit] for many at once, far faster than one by one. If one is wrong,
// nothing is submitted; after any other error the runs are those of the first ones, which exist, and
// more may.
func (f *Function[In, Out]) SubmitAll(ctx context.Context, app *App, all []In, options ...Option) ([]*Run[Out], error) {
	if err := f.of.to(app); err != nil {
		return nil, err
	}
	submissions := make([]Submission, len(all))
	for i, in := range all {
		var err error
		if submissions[i], err = f.submission(ctx, app, in, options); err != nil {
			return nil, err
		}
	}
	runs := make([]*Run[Out], 0, len(all))
	err := app.client.SubmitAll(ctx, submissions, func(made Receipt) {
		runs = append(runs, &Run[Out]{ID: made.ID, Existing: made.Existing || made.Again, app: app})
	})
	if err != nil {
		return runs, fmt.Errorf("millrace: %s: %w", f.of.name, err)
	}
	return runs, nil
}

// Spawn makes a child of the task that ctx belongs to. The same key never makes a second child, not
// even from a later attempt, so a function that runs again finds the children that it has. If the
// task is cancelled, or its time is up, its children end with it. The error wraps [ErrNotRunning]
// outside a function, and those of [Function.Submit].
//
// [Run.Result] of a child holds the parent's slot: if all slots wait for children, nobody runs
// them.
func (f *Function[In, Out]) Spawn(ctx context.Context, key string, in In, options ...Option) (*Run[Out], error) {
	of, app := worker.FromContext(ctx), From(ctx)
	if of == nil || app == nil {
		return nil, fmt.Errorf("millrace: spawn %s: %w", f.of.name, ErrNotRunning)
	}
	s, err := f.submission(ctx, app, in, options)
	if err != nil {
		return nil, err
	}
	if s.Job == "" {
		s.Queue = cmp.Or(s.Queue, placement.DefaultQueue)
	}
	id, err := of.Spawn(ctx, key, s)
	if err != nil {
		return nil, fmt.Errorf("millrace: %s: %w", f.of.name, err)
	}
	return &Run[Out]{ID: id, app: app}, nil
}

// Schedule stores a schedule under a name, in place of the one that has it: at each tick a
// scheduler submits in. [Cron], [Every] or `schedule` in [Fields] says when.
func (f *Function[In, Out]) Schedule(ctx context.Context, app *App, name string, in In, options ...Option) error {
	of := f.of.settings.with(options)
	s, err := f.made(ctx, app, in, of)
	if err == nil {
		err = f.of.to(app)
	}
	if err != nil {
		return err
	}
	when := of.job.Schedule
	if when == nil {
		return wrong(f.of.name, fmt.Errorf("schedule %s has no planned runs: say when with Cron or Every", name))
	}
	s.Trace = "" // its tasks are nobody's
	if _, _, err := app.client.PutSchedule(ctx, schedule.Definition{Name: name, When: *when, Make: s}); err != nil {
		return fmt.Errorf("millrace: %s: %w", f.of.name, err)
	}
	return nil
}

// Run returns the run with an id, for example in another process than the one that has submitted
// it. It asks nobody whether there is such a task.
func (f *Function[In, Out]) Run(app *App, id ID) *Run[Out] { return &Run[Out]{ID: id, app: app} }

// attempt runs one attempt.
func (f *Function[In, Out]) attempt(ctx context.Context, t *Task) error {
	in, err := decode[In](t.Params)
	if err != nil {
		return worker.Final(fmt.Errorf("parameters: %w", value.Plainly(err))) // no other attempt mends that
	}
	out, err := f.run(ctx, in)
	if err != nil {
		return err
	}
	result, err := encodeResult(out)
	if err != nil {
		return worker.Final(fmt.Errorf("result: %w", err))
	}
	worker.FromContext(ctx).Output.SetResult(result)
	return nil
}

// NameOf returns the name of a function.
func NameOf(f Handler) string { return f.handler().name }

// Input returns the parameters of a task of the function, for example of one in a list. The error says that they are
// not of type In.
func (f *Function[In, Out]) Input(t Task) (In, error) { return decode[In](t.Params) }
