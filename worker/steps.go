package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// ErrSuspended: a step waits, and another attempt goes on behind it. The function is to return at once.
var ErrSuspended = errors.New("the function waits, and goes on in another attempt")

// ErrChanged: the function comes to other steps than those that its task remembers.
var ErrChanged = errors.New("the function comes to other steps than before")

// InvalidStep is an error of a step that no function may have.
type InvalidStep struct{ error }

// Function is how far a function has come in one attempt. Its steps come one after the other.
type Function struct {
	// Of is the attempt. It must be set.
	Of *Attempt

	mu      sync.Mutex
	next    int          // guarded by mu; how many of the remembered steps it has come to
	fresh   []task.Step  // guarded by mu; steps that are done, and recorded with the next one
	stopped error        // guarded by mu; why it comes to no more steps
	busy    bool         // guarded by mu; a step is under way
	behind  string       // guarded by mu; the step that it last came to
	park    *task.Park   // guarded by mu; what it waits for
	told    int          // guarded by mu; how many it has recorded
	spare   [4]task.Step // of fresh
	handed  []task.Step  // guarded by mu; those of fresh that go with park
}

// known are the steps that the task remembers.
func (f *Function) known() []task.Step {
	if d := f.Of.Task.Durable; d != nil {
		return d.Steps
	}
	return nil
}

// first is how many steps are done and recorded. The caller holds mu.
func (f *Function) first() int { return f.Of.Task.Durable.Done() + f.told }

// begin comes to a step. It returns what is remembered of it; nil if it is to be done. Then end, leave or
// suspend must follow.
func (f *Function) begin(ctx context.Context, kind, name string) (*task.Step, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.stopped != nil:
		return nil, f.stopped
	case f.busy:
		f.stopped = fmt.Errorf("%s is begun while another step is under way: steps come one after the other", called(kind, name))
		return nil, f.stopped
	}
	if come := OnStep(ctx); come != nil {
		step := cmp.Or(name, kind)
		if err := come(f.behind, step); err != nil {
			f.stopped = fmt.Errorf("%s: %w", called(kind, name), err)
			return nil, f.stopped
		}
		f.behind = step
	}
	all := f.known()
	if Replays(ctx) && (f.next == len(all) || all[f.next].Open) {
		f.stopped = Final(fmt.Errorf("%w: step %d is %s, of which the record has no outcome", ErrChanged, f.next+1, called(kind, name)))
		return nil, f.stopped
	}
	if f.next == len(all) {
		f.busy = true
		return nil, nil
	}
	known := &all[f.next]
	if known.Kind != kind || known.Name != name {
		f.stopped = Final(fmt.Errorf("%w: step %d was %s, and now is %s", ErrChanged, f.next+1, called(known.Kind, known.Name), called(kind, name)))
		return nil, f.stopped
	}
	f.next++
	f.busy = known.Open
	return known, nil
}

func called(kind, name string) string {
	if name == "" {
		return kind
	}
	return kind + " " + strconv.Quote(name)
}

// end ends a step that begin has begun, with what is to be remembered. With later, that goes with the next
// step, before it, by settle, or with the end of the attempt.
func (f *Function) end(ctx context.Context, s task.Step, later bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
	s.At = f.Of.Now().UTC().Truncate(time.Microsecond)
	if f.fresh == nil {
		f.fresh = f.spare[:0]
	}
	f.fresh = append(f.fresh, s)
	if later {
		f.Of.Draw(f.fresh)
		return nil
	}
	return f.record(ctx, s.Kind, s.Name)
}

// settle records what is not recorded yet before a step takes effect that may have been made from it: an id,
// for example, by which the outside knows the effect again. The step has been begun.
func (f *Function) settle(ctx context.Context, kind, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fresh) == 0 {
		return nil
	}
	err := f.record(ctx, kind, name)
	f.busy = err == nil
	return err
}

// record records the fresh steps. The caller holds mu.
func (f *Function) record(ctx context.Context, kind, name string) error {
	if err := f.Of.Remember(ctx, f.first(), f.fresh); err != nil {
		if f.stopped = fmt.Errorf("%s: %w", called(kind, name), err); errors.Is(err, task.ErrSteps) {
			f.stopped = Final(f.stopped) // another attempt would only do the step again
		}
		return f.stopped
	}
	f.told += len(f.fresh)
	f.fresh = f.fresh[:0]
	return nil
}

// Leave ends a step that has come to nothing.
func (f *Function) Leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
}

// stop lets the function come to no more steps.
func (f *Function) stop(why error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = why
	return why
}

// suspend ends the attempt while the function waits.
func (f *Function) suspend(p task.Park, with ...task.Step) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy, f.park = false, &p
	f.handed = append(f.fresh, with...)
	f.stopped = fmt.Errorf("%s: %w", called(p.Kind, p.Step), ErrSuspended)
	return f.stopped
}

// Ends returns what the attempt comes to when its function has returned an error, or nil.
func (f *Function) Ends(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.known()
	switch {
	case f.park != nil:
		return Suspend(*f.park, f.first(), f.handed)
	case f.stopped != nil && (err == nil || IsFinal(f.stopped)):
		return f.stopped // the function has gone on without the step
	case err == nil && f.next < len(all):
		return Final(fmt.Errorf("%w: it ends before %s, which was step %d", ErrChanged, called(all[f.next].Kind, all[f.next].Name), f.next+1))
	}
	return err
}

// Begin comes to a step that the caller does. It returns the step if it is done; else with what is known of
// its tries, and to do. Then [Function.Done], [Function.Failed] or [Function.Leave] must follow.
func (f *Function) Begin(ctx context.Context, name string) (s task.Step, todo bool, err error) {
	known, err := f.begin(ctx, task.StepDo, name)
	s = task.Step{Name: name, Kind: task.StepDo}
	switch {
	case err != nil:
		return s, false, err
	case known != nil && !known.Open:
		s = *known
		if s.Result, err = f.Of.ResultOf(ctx, known); err != nil {
			return s, false, f.stop(fmt.Errorf("%s: what it gave: %w", called(s.Kind, name), err))
		}
		return s, false, nil
	case known != nil:
		s.Tries = known.Tries
	}
	return s, true, f.settle(ctx, s.Kind, name)
}

// Done records what a step gave, as JSON.
func (f *Function) Done(ctx context.Context, s task.Step) error {
	if s.Tries > 0 {
		s.Tries++
	}
	return f.end(ctx, s, false)
}

// maxError is how much of an error is remembered, in bytes.
const maxError = 2000

// Failed records that a step failed. If the retries allow another try, the function waits for it, and the
// error wraps [ErrSuspended]; else the step has failed for good, and s says why. One that failed while the
// attempt is being stopped has come to nothing.
func (f *Function) Failed(ctx context.Context, s *task.Step, why job.Failure, message string, retry job.Retry) error {
	if ctx.Err() != nil {
		f.Leave()
		return context.Cause(ctx)
	}
	s.Tries++
	s.Error = value.Cut(message, maxError)
	why.Class, why.Chance, why.Failures, why.At = value.Task, rand.Float64(), s.Tries, f.Of.Now()
	if due, _, again := retry.Plan(why); again {
		s.Open = true
		return f.suspend(task.Park{Step: s.Name, Kind: task.StepDo, Until: due}, *s)
	}
	return f.end(ctx, *s, false)
}

// Sleep waits for d, once.
func (f *Function) Sleep(ctx context.Context, name string, d time.Duration) error {
	switch known, err := f.begin(ctx, task.StepSleep, name); {
	case err != nil || known != nil:
		return err
	case d <= 0:
		return f.end(ctx, task.Step{Name: name, Kind: task.StepSleep}, true)
	}
	return f.suspend(task.Park{Step: name, Kind: task.StepSleep, Until: f.Of.Now().Add(d)})
}

// Await waits for a signal for at most timeout, 0 for ever. It returns the data that came with it, nil for
// none, and false if it did not come in time. Form returns that of its answers, as [task.Park] has it; nil for none.
func (f *Function) Await(ctx context.Context, name string, timeout time.Duration, form func() ([]param.Param, bool)) (data json.RawMessage, came bool, err error) {
	known, err := f.begin(ctx, task.StepAwait, name)
	switch {
	case err != nil:
		return nil, false, err
	case known == nil:
		p := task.Park{Step: name, Kind: task.StepAwait}
		if form != nil {
			p.Form, p.Alone = form()
		}
		if timeout > 0 {
			p.Until = f.Of.Now().Add(timeout)
		}
		return nil, false, f.suspend(p)
	case known.Error != "":
		return nil, false, nil
	}
	var said struct{ Data json.RawMessage }
	if len(known.Result) > 0 {
		if err := json.Unmarshal(known.Result, &said); err != nil {
			return nil, false, fmt.Errorf("%s: %w", called(known.Kind, name), value.Plainly(err))
		}
	}
	return said.Data, true, nil
}

// Call has n children made, and waits until all of them have ended. The key that spawn is given never makes
// a second child. It returns how they ended.
func (f *Function) Call(ctx context.Context, name string, n int, spawn func(i int, key string) (task.ID, error)) ([]task.Input, error) {
	known, err := f.begin(ctx, task.StepCall, name)
	switch {
	case err != nil:
		return nil, err
	case known != nil:
		return inputs(known, n)
	}
	if err := f.settle(ctx, task.StepCall, name); err != nil {
		return nil, err
	}
	p := task.Park{Step: name, Kind: task.StepCall}
	for i := range n {
		id, err := spawn(i, f.key(name, i))
		if err != nil {
			f.Leave()
			return nil, err
		}
		p.Of = append(p.Of, task.Need{Task: id, Name: strconv.Itoa(i), When: job.WhenEnd})
	}
	if err := (&task.Needs{Of: p.Of}).Validate(); err != nil {
		f.Leave()
		return nil, InvalidStep{err}
	}
	return nil, f.suspend(p)
}

// inputs are how n children ended, of a step that waited for them.
func inputs(known *task.Step, n int) ([]task.Input, error) {
	all := map[string]task.Input{}
	if err := json.Unmarshal(known.Result, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", called(known.Kind, known.Name), value.Plainly(err))
	}
	if len(all) != n {
		return nil, Final(fmt.Errorf("%w: step %q had %d calls, and now has %d", ErrChanged, known.Name, len(all), n))
	}
	ended := make([]task.Input, n)
	for i := range ended {
		ended[i] = all[strconv.Itoa(i)]
	}
	return ended, nil
}

// key is the key of a child: of the step at this place of the function, so that a step in a loop has others
// each time.
func (f *Function) key(name string, i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%s-%d-%d", name, f.first()+len(f.fresh), i)
}

// Now is the time at which the function first came here, as JSON.
func (f *Function) Now(ctx context.Context) (json.RawMessage, error) {
	return f.once(ctx, task.StepNow, func() any { return f.Of.Now().UTC().Round(0) })
}

// NewID is an id that is drawn once, as JSON.
func (f *Function) NewID(ctx context.Context) (json.RawMessage, error) {
	return f.once(ctx, task.StepID, func() any { return events.NewID(f.Of.Now()) })
}

func (f *Function) once(ctx context.Context, kind string, draw func() any) (json.RawMessage, error) {
	known, err := f.begin(ctx, kind, "")
	if err != nil {
		return nil, err
	}
	if known != nil {
		return known.Result, nil
	}
	text := value.Must(json.Marshal(draw()))
	return text, f.end(ctx, task.Step{Kind: kind, Result: text}, true)
}

// Version returns is for a task that comes here for the first time, for good, and 0 for one whose steps go
// on behind this place, for it passed here before the code asked.
func (f *Function) Version(ctx context.Context, name string, is int) (json.RawMessage, error) {
	f.mu.Lock()
	all := f.known()
	passed := f.stopped == nil && (f.next < len(all) || Replays(ctx)) && (f.next == len(all) || all[f.next].Kind != task.StepAs || all[f.next].Name != name)
	f.mu.Unlock()
	if passed {
		return json.RawMessage("0"), nil
	}
	known, err := f.begin(ctx, task.StepAs, name)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return known.Result, nil
	}
	text := json.RawMessage(strconv.Itoa(is))
	return text, f.end(ctx, task.Step{Kind: task.StepAs, Name: name, Result: text}, true)
}
