package millrace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
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
var ErrSuspended = errors.New("the function waits, and goes on in another attempt")

// ErrChanged: the function comes to other steps than those that its task remembers, because its code has
// changed since. The task ends in error, and keeps its steps: with the right code, a retry by an operator
// goes on. [Version] lets old tasks go the old way; or the new code gets another name.
var ErrChanged = errors.New("the function comes to other steps than before")

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
	of  *worker.Attempt

	mu      sync.Mutex
	next    int                             // guarded by mu; how many of the remembered steps it has come to
	fresh   []task.Step                     // guarded by mu; steps that are done, and recorded with the next one
	stopped error                           // guarded by mu; why it comes to no more steps
	busy    bool                            // guarded by mu; a step is under way
	replay  bool                            // guarded by mu; steps that are not remembered are not done
	behind  string                          // guarded by mu; the step that it last came to
	come    func(behind, step string) error // guarded by mu; asked at each step, unless it is nil
	park    *task.Park                      // guarded by mu; what it waits for
	told    int                             // guarded by mu; how many it has recorded
	spare   [4]task.Step                    // of fresh
	handed  []task.Step                     // guarded by mu; those of fresh that go with park
}

type runningKey struct{}

func runningOf(ctx context.Context, what string) (*running, error) {
	r, _ := ctx.Value(runningKey{}).(*running)
	if r == nil {
		return nil, fmt.Errorf("millrace: %s: %w", what, ErrNotRunning)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replay = r.replay || worker.Replays(ctx)
	r.come = worker.OnStep(ctx)
	return r, nil
}

// steps are those that the task remembers.
func (r *running) steps() []task.Step {
	if d := r.of.Task.Durable; d != nil {
		return d.Steps
	}
	return nil
}

// first is how many steps are done and recorded. The caller holds mu.
func (r *running) first() int { return r.of.Task.Durable.Done() + r.told }

// drawn are the kinds of steps that the log has only if another one follows, for nothing else needs them.
var drawn = []string{task.StepNow, task.StepID, task.StepAs}

// begin comes to a step. It returns what is remembered of it; nil if it is to be done. Then end must follow.
func (r *running) begin(kind, name string) (*task.Step, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped != nil:
		return nil, r.stopped
	case r.busy:
		r.stopped = fmt.Errorf("millrace: %s is begun while another step is under way: steps come one after the other", called(kind, name))
		return nil, r.stopped
	}
	if step := cmp.Or(name, kind); r.come != nil {
		if err := r.come(r.behind, step); err != nil {
			r.stopped = fmt.Errorf("millrace: %s: %w", called(kind, name), err)
			return nil, r.stopped
		}
		r.behind = step
	}
	all := r.steps()
	if r.replay && (r.next == len(all) && !slices.Contains(drawn, kind) || r.next < len(all) && all[r.next].Open) {
		r.stopped = worker.Final(fmt.Errorf("millrace: %w: step %d is %s, of which the record has no outcome", ErrChanged, r.next+1, called(kind, name)))
		return nil, r.stopped
	}
	if r.next == len(all) {
		r.busy = true
		return nil, nil
	}
	known := &all[r.next]
	if known.Kind != kind || known.Name != name {
		r.stopped = worker.Final(fmt.Errorf("millrace: %w: step %d was %s, and now is %s", ErrChanged, r.next+1, called(known.Kind, known.Name), called(kind, name)))
		return nil, r.stopped
	}
	r.next++
	r.busy = known.Open
	return known, nil
}

func called(kind, name string) string {
	if name == "" {
		return kind
	}
	return kind + " " + strconv.Quote(name)
}

// end ends a step that begin has begun, with what is to be remembered. With later, that goes with the next
// step, or before it, by settle.
func (r *running) end(ctx context.Context, s task.Step, later bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	s.At = r.of.Now().UTC().Truncate(time.Microsecond)
	if r.fresh == nil {
		r.fresh = r.spare[:0]
	}
	r.fresh = append(r.fresh, s)
	if later {
		return nil
	}
	return r.record(ctx, s.Kind, s.Name)
}

// settle records what is not recorded yet before a step takes effect that may have been made from it: an id,
// for example, by which the outside knows the effect again. The step has been begun.
func (r *running) settle(ctx context.Context, kind, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.fresh) == 0 {
		return nil
	}
	err := r.record(ctx, kind, name)
	r.busy = err == nil
	return err
}

// record records the fresh steps. The caller holds mu.
func (r *running) record(ctx context.Context, kind, name string) error {
	if err := r.of.Remember(ctx, r.first(), r.fresh); err != nil {
		r.stopped = fmt.Errorf("millrace: %s: %w", called(kind, name), err)
		return r.stopped
	}
	r.told += len(r.fresh)
	r.fresh = r.fresh[:0]
	return nil
}

// leave ends a step that begin has begun, and that has come to nothing.
func (r *running) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
}

// suspend ends the attempt while the function waits.
func (r *running) suspend(p task.Park, with ...task.Step) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy, r.park = false, &p
	r.handed = append(r.fresh, with...)
	r.stopped = fmt.Errorf("millrace: %s: %w", called(p.Kind, p.Step), ErrSuspended)
	return r.stopped
}

// ends returns what the attempt comes to, when its function has returned.
func (r *running) ends(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.steps()
	switch {
	case r.park != nil:
		return worker.Suspend(*r.park, r.first(), r.handed)
	case err == nil && r.stopped != nil:
		return r.stopped // the function has gone on without the step
	case err == nil && r.next < len(all):
		return worker.Final(fmt.Errorf("millrace: %w: it ends before %s, which was step %d", ErrChanged, called(all[r.next].Kind, all[r.next].Name), r.next+1))
	}
	return err
}

// Step does a part of the function once. When it returns without an error, what do returned is in the log,
// at most 64 KiB as JSON, and do is not called again for this task: not by another attempt, nor on another
// worker. Only if the worker is lost while do runs, or before its result is recorded, it is called again.
//
// With [Retries], and `retry` in [Fields], a failed do is tried again by itself, in another attempt after
// the pause; meanwhile Step returns [ErrSuspended]. Without, or when they are used up, or if the error is
// [Final], Step returns a [*StepError] with the words of the error, each time the function runs. If the
// function then fails, its next attempt tries the step anew.
//
// The name is the function's own for it. The error may also wrap [ErrChanged], [task.ErrSteps] or
// [worker.ErrFenced], or be ctx's.
func Step[T any](ctx context.Context, name string, do func(context.Context) (T, error), options ...Option) (out T, err error) {
	r, err := runningOf(ctx, "step "+name)
	if err != nil {
		return out, err
	}
	known, err := r.begin(task.StepDo, name)
	if err != nil {
		return out, err
	}
	s := task.Step{Name: name, Kind: task.StepDo}
	if known != nil {
		if s.Tries = known.Tries; !known.Open {
			err := remembered(known, &out)
			return out, err
		}
	}
	of := settings{job: job.Job{Name: "step", Spec: job.Spec{Handler: "step"}}}.with(options)
	if err := of.fault(); err != nil {
		r.leave()
		return out, wrong(name, err)
	}
	if err := r.settle(ctx, s.Kind, name); err != nil {
		return out, err
	}
	began := time.Now()
	made, err := do(ctx)
	if s.Took = value.Duration(time.Since(began)); err == nil {
		if s.Result, err = json.Marshal(made); err != nil {
			err = Final(fmt.Errorf("result: %w", err))
		}
	}
	switch {
	case err == nil:
		s.Tries = 0
		if err := r.end(ctx, s, false); err != nil {
			return out, err
		}
		return made, nil
	case ctx.Err() != nil: // the attempt is being stopped
		r.leave()
		return out, err
	}
	s.Tries++
	s.Error = value.Cut(err.Error(), maxStepError)
	due, _, again := of.job.Retry.Plan(job.Failure{
		Class: value.Task, Final: worker.IsFinal(err), After: worker.PauseOf(err), Chance: rand.Float64(), Failures: s.Tries, At: r.of.Now(),
	})
	if again {
		s.Open = true
		return out, r.suspend(task.Park{Step: name, Kind: task.StepDo, Until: due}, s)
	}
	if err := r.end(ctx, s, false); err != nil {
		return out, err
	}
	return out, failed(&s)
}

// maxStepError is how much of an error is remembered, in bytes.
const maxStepError = 2000

// remembered reads what a step gave.
func remembered(s *task.Step, out any) error {
	if s.Error != "" {
		return failed(s)
	}
	if len(s.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(s.Result, out); err != nil {
		return worker.Final(fmt.Errorf("millrace: %w: what %s gave is of another type: %w", ErrChanged, called(s.Kind, s.Name), value.Plainly(err)))
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
	switch known, err := r.begin(task.StepSleep, name); {
	case err != nil || known != nil:
		return err
	case d <= 0:
		return r.end(ctx, task.Step{Name: name, Kind: task.StepSleep}, true)
	}
	return r.suspend(task.Park{Step: name, Kind: task.StepSleep, Until: r.of.Now().Add(d)})
}

// Await waits for a signal by the name (`millrace task signal`, [Run.Signal], a button on pages), and
// returns the data that came with it. Timeout is how long it waits, 0 for ever; then the error wraps
// [ErrNoSignal]. It waits as [Sleep] does. A name is 1 to 64 letters, digits, '_' or '-'.
func Await[T any](ctx context.Context, name string, timeout time.Duration) (out T, err error) {
	r, err := runningOf(ctx, "await "+name)
	if err != nil {
		return out, err
	}
	if err := value.ValidName("signal", name); err != nil {
		return out, fmt.Errorf("millrace: await: %w", client.Wrong(err))
	}
	known, err := r.begin(task.StepAwait, name)
	switch {
	case err != nil:
		return out, err
	case known == nil:
		p := task.Park{Step: name, Kind: task.StepAwait}
		if timeout > 0 {
			p.Until = r.of.Now().Add(timeout)
		}
		return out, r.suspend(p)
	case known.Error != "":
		return out, fmt.Errorf("millrace: await %s: %w", name, ErrNoSignal)
	}
	var said struct{ Data json.RawMessage }
	if err := remembered(known, &said); err != nil || len(said.Data) == 0 {
		return out, err
	}
	is := *known
	is.Result = said.Data
	err = remembered(&is, &out)
	return out, err
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
		if err := json.Unmarshal(is.Result, &c.out); err != nil {
			c.err = fmt.Errorf("millrace: result of task %s: %w", is.Task, value.Plainly(err))
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
	known, err := r.begin(task.StepCall, name)
	switch {
	case err != nil:
		return err
	case known != nil:
		all := map[string]task.Input{}
		if err := remembered(known, &all); err != nil {
			return err
		}
		if len(all) != len(calls) {
			return worker.Final(fmt.Errorf("millrace: %w: step %q had %d calls, and now has %d", ErrChanged, name, len(all), len(calls)))
		}
		for i, c := range calls {
			c.take(name, all[strconv.Itoa(i)])
		}
		return nil
	}
	if err := r.settle(ctx, task.StepCall, name); err != nil {
		return err
	}
	p := task.Park{Step: name, Kind: task.StepCall}
	for i, c := range calls {
		id, err := c.spawn(ctx, r.key(name, i))
		if err != nil {
			r.leave()
			return err
		}
		p.Of = append(p.Of, task.Need{Task: id, Name: strconv.Itoa(i), When: job.WhenEnd})
	}
	if err := (&task.Needs{Of: p.Of}).Validate(); err != nil {
		r.leave()
		return fmt.Errorf("millrace: call %s: %w", name, client.Wrong(err))
	}
	return r.suspend(p)
}

// key is the key of a child: of the step at this place of the function, so that a step in a loop has others
// each time.
func (r *running) key(name string, i int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%s-%d-%d", name, r.first()+len(r.fresh), i)
}

// Now is the time at which the function first came here.
func Now(ctx context.Context) (time.Time, error) {
	return once(ctx, task.StepNow, func(of *worker.Attempt) time.Time { return of.Now().UTC().Round(0) })
}

// NewID is an id that is drawn once.
func NewID(ctx context.Context) (ID, error) {
	return once(ctx, task.StepID, func(*worker.Attempt) ID { return client.NewID() })
}

func once[T any](ctx context.Context, kind string, draw func(*worker.Attempt) T) (is T, err error) {
	r, err := runningOf(ctx, kind)
	if err != nil {
		return is, err
	}
	known, err := r.begin(kind, "")
	if err != nil {
		return is, err
	}
	if known != nil {
		err := remembered(known, &is)
		return is, err
	}
	is = draw(r.of)
	text, err := json.Marshal(is)
	if err != nil {
		r.leave()
		return is, err
	}
	return is, r.end(ctx, task.Step{Kind: kind, Result: text}, true)
}

// Version lets code change under running tasks: it returns is for a task that comes here for the first
// time, for good, and 0 for one whose steps go on behind this place, for it passed here before the code
// asked. The code keeps both ways until no old task is left.
func Version(ctx context.Context, name string, is int) (int, error) {
	r, err := runningOf(ctx, "version "+name)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	all := r.steps()
	passed := r.stopped == nil && r.next < len(all) && (all[r.next].Kind != task.StepAs || all[r.next].Name != name)
	r.mu.Unlock()
	if passed {
		return 0, nil
	}
	known, err := r.begin(task.StepAs, name)
	if err != nil {
		return 0, err
	}
	if known != nil {
		err := remembered(known, &is)
		return is, err
	}
	return is, r.end(ctx, task.Step{Kind: task.StepAs, Name: name, Result: []byte(strconv.Itoa(is))}, true)
}
