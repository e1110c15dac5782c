package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/reason"
	"millrace/task/value"
)

// What can hold a task, in [Work.Holds]. A task is offered when the last of its
// holds has opened, in whatever order they do.
const (
	// HoldNeeds opens when all that the task needs has ended as it wants. If nothing else holds the
	// task it opens by the offer itself, see [FreedOffer].
	HoldNeeds = "needs"
	// HoldSignal opens when somebody outside says so.
	HoldSignal = "signal"
	// HoldLimit opens when the task's limits admit it. It opens by the offer itself and so
	// leaves nothing on the chain: [Unhold] is for the others.
	HoldLimit = "limit"
)

// Unhold opens one of the holds of a task that waits.
type Unhold struct {
	Hold string
	// Reason says in words why it opens.
	Reason string
	// Inputs is what the task is told with it, beside what it was told before: a
	// JSON object, or nil.
	Inputs json.RawMessage
	// Ends are those of the needed tasks, as [By] has them; nil for any other hold.
	Ends []uint64
}

// Unheld is a hold that has opened. If it was the last, an offer must follow.
type Unheld struct {
	Hold   string `json:"hold,omitzero"`
	Reason string `json:"reason,omitzero"`
	// Inputs is all that the task is told of what held it; nil for nothing.
	Inputs json.RawMessage `json:"inputs,omitzero"`
}

// Skip ends a task that will never get what it needs.
type Skip struct {
	Reason string
	// Ends are those of the needed tasks, as [By] has them.
	Ends []uint64
}

func (Unhold) isCommand() {}
func (Skip) isCommand()   {}
func (Unheld) isEvent()   {}

// holds are those of a task at its birth.
func (w *Work) holds() []string {
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

// Offers tells whether the birth is the first offer as well.
func (e *Submitted) Offers() bool { return e.Due.IsZero() && len(e.Holds) == 0 && !e.Spec.Parental() }

func unhold(t *Task, c Unhold) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, fmt.Errorf("%w: it is %s", ErrEnded, t.State)
	case !slices.Contains(t.Holds, c.Hold):
		return nil, fmt.Errorf("%w: %s", ErrNotHeld, c.Hold)
	case c.Hold == HoldLimit:
		return nil, fmt.Errorf("hold %q opens by an offer, not by a command", c.Hold)
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
	return CancelConfirmed{Reason: c.Reason, Code: reason.Skipped}, nil
}

func (t *Task) unheld(e Unheld, r Recorded) {
	i := slices.Index(t.Holds, e.Hold)
	if i < 0 || t.State != Held {
		return
	}
	t.Holds = slices.Concat(t.Holds[:i], t.Holds[i+1:]) // facts share what they hold
	t.Turn, t.Message = r.Seq, e.Reason
	if len(e.Inputs) > 0 {
		t.Inputs = e.Inputs
	}
	t.boundWhole(value.Later(r.At, t.Due))
	if bound := t.pendingTimeout(); bound > 0 && !t.waitsForOthers() {
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

// FreedOffer is the offer of a task that has got what it needs, and by which that hold opens: one write
// instead of two. The second result is false if that
// hold has to be opened on the chain, by c itself: there are other holds, the task is due later, is a
// parent, or has a chain already, so that it may have moved on.
func FreedOffer(t Task, c Unhold, now time.Time) (Queued, bool, error) {
	if c.Hold != HoldNeeds || t.State != Held || t.Head != 0 || len(t.Holds) != 1 || t.Holds[0] != HoldNeeds || !t.Due.IsZero() || t.Spec.Parental() {
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

// freed takes over from an offer what the opening of the needs has brought.
func (t *Task) freed(e *Queued) {
	t.Inputs, t.StartBy, t.EndBy = e.Inputs, e.StartBy, e.EndBy
}

// waitsForOthers tells whether something holds the task that is no business of
// its queue: the time that it may be pending has then not begun.
func (w *Work) waitsForOthers() bool {
	return slices.ContainsFunc(w.Holds, func(h string) bool { return h != HoldLimit })
}

// holdAgain holds a task that gets another life by what it needs: that may have changed; and by its
// signal if that was never given.
func (t *Task) holdAgain(unsaid bool, why string, r Recorded) {
	var holds []string
	if t.Needs != nil {
		holds = append(holds, HoldNeeds) // what it is told of them then wins over what it was told
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

// heldDuty says who opens the holds of a task.
func heldDuty(t Task, around Surroundings, s Settings) Duty {
	if !slices.Contains(t.Holds, HoldNeeds) && slices.Contains(t.Holds, HoldSignal) {
		return signalDuty(t, around, s)
	}
	if t.Throttled {
		return awaited(t, around, s, Duty{Who: "scheduler", What: fmt.Sprintf("offer it when the rate of queue %q admits it (`millrace queue limit %[1]s --rate`)", t.QueueName())})
	}
	d := Duty{Who: "scheduler", What: "offer it when what holds it has opened: " + strings.Join(t.Holds, ", ")}
	if t.Needs != nil && slices.Contains(t.Holds, HoldNeeds) {
		d.What = "offer it when it has got what it needs: " + t.Needs.String()
	}
	return awaited(t, around, s, d)
}
