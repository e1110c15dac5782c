package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// The values of [Work.Holds]. A task is offered when the last of its holds has opened, in any
// order.
const (
	// HoldNeeds opens when all the tasks that this one needs have ended as required.
	HoldNeeds = "needs"
	// HoldSignal opens when a signal comes from outside.
	HoldSignal = "signal"
	// HoldLimit opens when the task's limits admit it. The offer itself opens it, so it leaves no
	// fact on the chain; [Unhold] is for the others.
	HoldLimit = "limit"
)

// AwaitsSignal tells whether the signal of a person is what a task waits for now: it is its turn. The run of a
// monitor waits for a program's.
func (t *Task) AwaitsSignal() bool {
	return t.State == Held && slices.Contains(t.Holds, HoldSignal) && !slices.Contains(t.Holds, HoldNeeds) && !t.Spec.Monitors()
}

// Unhold opens one of the holds of a task that waits.
type Unhold struct {
	Hold string
	// Signal is the name of the signal that is meant; "" for whichever the task waits for.
	Signal string
	// Reason says in words why it opens.
	Reason string
	// Inputs are added to what the task was told before: a JSON object, or nil.
	Inputs json.RawMessage
	// Ends are the last known messages of the needed tasks, as in [By.Ends]; nil for any other
	// hold.
	Ends []uint64
}

// Reject ends a task that waits for a signal, because somebody refuses that.
type Reject struct {
	// By is who does. Detail says so in words, with the reason. Signal is as in [Unhold].
	By, Detail, Signal string
}

// Unheld records that a hold has opened. If it was the last, an offer must follow.
type Unheld struct {
	Hold   string `json:"hold,omitzero" redact:"word"`
	Reason string `json:"reason,omitzero" redact:"hide"`
	// Inputs is all that the task is told by its holds; nil for nothing.
	Inputs json.RawMessage `json:"inputs,omitzero" redact:"drop"`
}

// Skip ends a task whose needs can no longer be met.
type Skip struct {
	Reason string
	// Ends are the last known messages of the needed tasks, as in [By.Ends].
	Ends []uint64
}

func (Unhold) isCommand() {}
func (Skip) isCommand()   {}
func (Reject) isCommand() {}
func (Unheld) isEvent()   {}

// Handles tells whether it is a handler of how a task with steps ends.
func (w *Work) Handles() bool {
	return w.Parent != "" && w.Needs != nil && strings.HasPrefix(path.Base(w.Step), job.HandlerPrefix)
}

// FirstHolds returns the holds of a task at its birth.
func (w *Work) FirstHolds() []string {
	var holds []string
	if w.Needs != nil {
		holds = append(holds, HoldNeeds)
	}
	if w.Spec.Signal != nil {
		holds = append(holds, HoldSignal)
	}
	if w.Spec.Limited() {
		holds = append(holds, HoldLimit)
	}
	return holds
}

// Offers tells whether the birth is also the first offer.
func (e *Submitted) Offers() bool { return e.Due.IsZero() && len(e.Holds) == 0 && !e.Spec.Parental() }

// HeldBy refuses what is meant for a hold that the task does not have, or for another signal than the one
// for which it waits now, "" for any: whoever answers twice must not answer the next question of a function. The
// error wraps [ErrEnded] or [ErrNotHeld].
func (t *Task) HeldBy(hold, signal string) error {
	switch is := t.Signal().Called(); {
	case t.State.Terminal():
		return fmt.Errorf("%w: it is %s", ErrEnded, t.State)
	case !slices.Contains(t.Holds, hold):
		return fmt.Errorf("%w: %s", ErrNotHeld, hold)
	case signal != "" && signal != is:
		return fmt.Errorf("%w: signal %q; it waits for %q", ErrNotHeld, signal, is)
	}
	return nil
}

// Meant are those of several tasks whose signal a name means: that of the signal, or of the step that waits for it;
// if both fit, of the step. "" means all.
func Meant(all []Task, name string) (meant []Task) {
	for i := range all {
		if name == "" || all[i].Signal().Called() == name || all[i].Step == name {
			meant = append(meant, all[i])
		}
	}
	if i := slices.IndexFunc(meant, func(t Task) bool { return name != "" && t.Step == name }); i >= 0 {
		return meant[i : i+1]
	}
	return meant
}

func unhold(t *Task, c Unhold) (Event, error) {
	if err := t.HeldBy(c.Hold, c.Signal); err != nil {
		return nil, err
	}
	if c.Hold == HoldLimit {
		return nil, fmt.Errorf("hold %q opens by an offer, not by a command", c.Hold)
	}
	if t.Waits() != nil { // its function alone is told
		return Unheld{Hold: c.Hold, Reason: c.Reason, Inputs: c.Inputs}, nil
	}
	inputs, err := joinInputs(t.Inputs, c.Inputs)
	if err != nil {
		return nil, err
	}
	return Unheld{Hold: c.Hold, Reason: c.Reason, Inputs: inputs}, nil
}

func skip(t *Task, c Skip) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, fmt.Errorf("%w: it is %s", ErrEnded, t.State)
	case !slices.Contains(t.Holds, HoldNeeds):
		return nil, ErrNotWaiting
	}
	return CancelConfirmed{Reason: c.Reason, Code: value.Skipped}, nil
}

// reject ends the task as a signal that does not come in time does.
func reject(t *Task, c Reject) (Event, error) {
	if err := t.HeldBy(HoldSignal, c.Signal); err != nil {
		return nil, err
	}
	if err := t.Signal().May(c.By); err != nil {
		return nil, err
	}
	return GivenUp{Reason: value.Rejected, Detail: c.Detail}, nil
}

func (t *Task) unheld(e Unheld, r Recorded) {
	i := slices.Index(t.Holds, e.Hold)
	if i < 0 || t.State != Held {
		return
	}
	t.Holds = slices.Concat(t.Holds[:i], t.Holds[i+1:]) // facts share this slice
	t.Turn, t.Message = r.Seq, e.Reason
	switch {
	case t.Waits() != nil:
		t.unparked(true, r, e.Inputs, e.Reason)
	case len(e.Inputs) > 0:
		t.Inputs = e.Inputs
	}
	t.BoundWhole(value.Later(r.At, t.Due))
	if bound := t.pendingTimeout(); bound > 0 && !t.WaitsForOthers() {
		t.StartBy = value.Later(r.At, t.Due).Add(bound)
	}
	switch {
	case len(t.Holds) > 0:
		t.Reason, t.Since = t.Holds[0], r.At
	case t.Spec.Parental(): // its children are offered
		t.bear(r)
	case t.Due.After(r.At):
		t.enter(Scheduled, "", e.Reason, r)
	default:
		t.enter(Pending, "", e.Reason, r)
	}
}

// FreedOffer returns the offer of a task whose needs are met and whose birth lies on no chain, as
// earlier versions placed it. The offer also opens that hold, so one write does the work of two. The
// second result is false if c itself must open the hold on the chain: the task has one, there are
// other holds, or the task is due later, or is a parent.
func FreedOffer(t Task, c Unhold, now time.Time) (Queued, bool, error) {
	if c.Hold != HoldNeeds || t.State != Held || t.Head != 0 || len(t.Holds) != 1 || t.Holds[0] != HoldNeeds ||
		!t.Due.IsZero() || t.Spec.Parental() {
		return Queued{}, false, nil
	}
	all, err := joinInputs(t.Inputs, c.Inputs)
	if err != nil {
		return Queued{}, false, err
	}
	turn := t.Turn
	t.unheld(Unheld{Hold: HoldNeeds, Reason: c.Reason, Inputs: all}, Recorded{At: now})
	return Queued{Work: t.Work, Attempt: t.Attempt + 1, After: turn, Reason: c.Reason}, true, nil
}

// freed takes over from an offer the values that the opening of the needs sets.
func (t *Task) freed(e *Queued) {
	t.Inputs, t.StartBy, t.EndBy = e.Inputs, e.StartBy, e.EndBy
}

// WaitsForOthers tells whether the task has a hold other than its limits. The pending timeout has
// then not begun.
func (w *Work) WaitsForOthers() bool {
	return slices.ContainsFunc(w.Holds, func(h string) bool { return h != HoldLimit })
}

// holdAgain holds a reopened task by its needs, whose ends may have changed, and by its signal if
// that was never given.
func (t *Task) holdAgain(unsaid bool, why string, r Recorded) {
	var holds []string
	if t.Needs != nil {
		holds = append(holds, HoldNeeds) // their new inputs then win over the old ones
	}
	if unsaid {
		holds = append(holds, HoldSignal)
	}
	if len(holds) == 0 {
		return
	}
	t.Holds, t.StartBy = append(holds, t.Holds...), time.Time{}
	t.enter(Held, holds[0], why, r)
}

// ErrNotHeld: the task does not have the hold that was to be opened.
var ErrNotHeld = errors.New("the task does not wait for this now")

// joinInputs merges two objects; members of more win.
func joinInputs(to, more json.RawMessage) (json.RawMessage, error) {
	if len(to) == 0 || len(more) == 0 {
		return slices.Concat(to, more), nil
	}
	var all, add map[string]json.RawMessage
	if err := json.Unmarshal(more, &add); err != nil {
		return nil, fmt.Errorf("inputs: %w", value.Plainly(err))
	}
	if json.Unmarshal(to, &all) != nil || all == nil {
		return more, nil // the old value is no object, and must not hold the task for ever
	}
	maps.Copy(all, add)
	return value.JSON(all)
}
