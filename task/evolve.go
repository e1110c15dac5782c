package task

import (
	"cmp"
	"slices"
	"time"

	"millrace/task/value"
)

// Evolve adds one recorded event to a task. It is total: any event in any state gives a task. An
// impossible event (a result of another epoch, a start after the end) changes only Head and Seq. An
// event at or below t.Seq has been applied already and changes nothing, so events must come in the
// order of the log.
func Evolve(t Task, r Recorded) Task {
	t.Apply(r)
	return t
}

// Apply is [Evolve] in place. It avoids copying the task, which is large and mostly unchanged.
func (t *Task) Apply(r Recorded) {
	if r.Seq <= t.Seq {
		return
	}
	was := t.Seq
	t.Seq = r.Seq
	if e, ok := r.Event.(Carried); ok && !r.Chain {
		t.Carry = &Carriage{Seq: r.Seq, After: was, Carried: e}
		return
	}
	if !r.Chain {
		t.offered(r)
		return
	}
	if e, ok := r.Event.(Kept); ok {
		t.kept(e, r.Seq)
		return
	}
	first := t.Head == 0
	t.Carry = nil
	if t.Head = r.Seq; first {
		t.bind(r)
	}
	if r.Corr != "" {
		switch r.Event.(type) {
		case CancelRequested, CancelConfirmed, Reopened, Unheld, Dismissed:
			t.Batch = r.Corr
		}
	}
	switch e := r.Event.(type) {
	case AttemptStarted:
		t.started(e, r)
	case AttemptFinished:
		if t.owns(e.Epoch) {
			t.Exit, t.Result, t.Usage = e.Exit, e.Result, e.Usage
			t.remembers(e.Drawn)
			t.end(Finished, "", "", r)
		}
	case AttemptFailed:
		t.failed(e, r)
	case AttemptReleased:
		if t.owns(e.Epoch) {
			t.remembers(e.Drawn)
			t.again(e.Reason, r)
		}
	case AttemptExtended:
		if t.owns(e.Epoch) {
			t.Extended = e.Until
		}
	case AttemptStepped:
		if t.owns(e.Epoch) {
			t.stepped(e.Steps)
		}
	case AttemptParked:
		if t.owns(e.Epoch) {
			t.parked(&e, r)
		}
	case AttemptAdopted:
		if t.owns(e.Epoch) {
			t.Session = e.Session
		}
	case AttemptLost:
		if t.owns(e.Epoch) {
			t.Losses++
			t.wait(Pending, e.Reason, time.Time{}, r)
		}
	case AttemptLate:
		t.Late++
	case CancelRequested:
		if t.State == Running {
			t.enter(Cancelling, value.User, e.Reason, r)
			t.CancelAsked = &CancelAsked{By: r.Actor, Reason: e.Reason}
			if t.CancelBy = e.Deadline; t.CancelBy.IsZero() { // every cancel gets a deadline, even a foreign one
				t.CancelBy = r.At.Add(t.Grace() + StopMargin)
			}
		}
	case CancelConfirmed:
		if !t.State.Terminal() && (t.Waiting() || t.Epoch == e.Epoch) {
			t.Exit = e.Exit
			if e.Usage != nil {
				t.Usage = e.Usage
			}
			if e.Epoch == 0 && e.Code == "" { // it did not run, so nothing had asked for it before
				t.CancelAsked = &CancelAsked{By: r.Actor, Reason: e.Reason}
			}
			t.end(Cancelled, cmp.Or(e.Code, value.User), e.Reason, r)
		}
	case GivenUp:
		if !t.State.Terminal() {
			t.end(Abnormal, e.Reason, e.Detail, r)
		}
	case Dismissed:
		switch {
		case e.Undo:
			t.Dismissed = nil
		case t.Dead():
			t.Dismissed = &Dismissal{At: r.At, By: r.Actor, Reason: e.Reason}
		}
	case Reassigned:
		if t.Waiting() && t.State != Unknown {
			// The bounds on the wait stay: a move is no reason to wait longer.
			was := t.RateQueue()
			t.moved(e)
			if is := t.RateQueue(); is != was && is != "" {
				t.Rated = 0
			}
			t.Turn, t.Offered = r.Seq, false
			if t.State == Pending {
				t.Since, t.Message = r.At, e.Reason
			}
		}
	case Postponed:
		t.postponed(&e, r)
	case Collapsed:
		t.collapsed(&e, r)
	case Throttled:
		t.throttled(r)
	case Unheld:
		t.unheld(e, r)
	case Reopened:
		if t.State.Terminal() {
			asked := slices.Contains(t.Holds, HoldSignal) && t.Waits() == nil // not by its function, which asks again
			t.unparked(false, r, nil, "")
			t.retried()
			t.Failures, t.Losses, t.Ran = 0, 0, 0
			t.FailedOn, t.Avoids, t.Begun = "", nil, time.Time{}
			t.Exit, t.Result, t.Usage, t.Dismissed, t.CancelAsked = nil, nil, nil, nil, nil
			t.Life, t.EndSeq, t.Again = r.Seq, 0, e.Again
			t.again(e.Reason, r)
			t.holdAgain(asked, e.Reason, r) // a signal once given is not asked for again
			t.EndBy = time.Time{}
			t.BoundWhole(r.At)
			if t.Spec.Parental() {
				if _, why := t.Childless(); why != "" { // its nodes, or the values of its list, are found anew
					t.Children = nil
				}
				if t.State == Pending {
					t.bear(r)
				}
			}
		}
	case Expanded:
		t.expanded(e)
	case Concluded:
		if t.Live() && t.Epoch == 0 && e.State.Terminal() {
			t.Result = e.Result
			t.end(e.State, e.Reason, e.Message, r)
		}
	}
}

// offered applies a fact that lies in a queue.
func (t *Task) offered(r Recorded) {
	switch e := r.Event.(type) {
	case Submitted:
		t.submitted(&e, r)
	case Queued:
		t.queued(&e, r)
	case Due:
		t.due(&e, r)
	}
}

func (t *Task) submitted(e *Submitted, r Recorded) {
	if t.State != Unknown {
		t.rival(e, r)
		return
	}
	t.Work, t.Due, t.RetryOf, t.SubmittedAt = e.Work, e.Due, e.RetryOf, r.At
	if r.Chain {
		t.Turn = r.Seq // an offer follows, and refers to it
	}
	switch {
	case t.Spec.Parental() && len(e.Holds) == 0:
		t.bear(r)
	case e.Offers():
		t.enter(Pending, "", "", r)
		t.Offered = !r.Chain
	case len(e.Holds) > 0:
		t.enter(Held, e.Holds[0], "", r)
	case e.Window != nil:
		t.enter(Scheduled, value.Window, e.Window.Detail, r)
	default:
		t.enter(Scheduled, "", "", r)
	}
}

func (t *Task) queued(e *Queued, r Recorded) {
	if e.After >= r.Seq {
		return // no honest offer names a turn that has not begun
	}
	if slices.Contains(t.Holds, HoldSignal) || t.Head > 0 && slices.Contains(t.Holds, HoldNeeds) {
		return // only a fact on the chain opens that
	}
	if !r.Stored.IsZero() && r.Stored.Add(OfferError).Before(t.Due) {
		return // whatever it says of itself, the log stored it before the task was due
	}
	if t.State == Unknown {
		// The birth has not been seen: an offer is enough to run.
		t.Work, t.Turn, t.Attempt = e.Work, e.After, e.Attempt-1
		t.Head = max(t.Head, e.After)
	}
	if !t.Waiting() || e.After != t.Turn || t.Offered {
		return // a stale offer, or a repeated one of the same turn
	}
	t.Rated, t.Throttled = e.Rated, false
	reason, message := t.waited()
	if len(t.Holds) > 0 {
		if slices.Contains(t.Holds, HoldNeeds) {
			t.freed(e)
		}
		t.Holds = nil
		if t.State == Held {
			reason, message = "", e.Reason
		}
	}
	t.enter(Pending, reason, message, r)
	t.Due, t.Offered = e.Due, true
	if e.Due.After(t.Since) {
		t.Since = e.Due
	}
}

func (t *Task) started(e AttemptStarted, r Recorded) {
	if t.State.Terminal() || (t.Live() && (e.TookOver == nil || e.TookOver.Epoch != t.Epoch)) {
		return
	}
	if e.TookOver != nil {
		t.Losses++
	}
	t.unparked(true, r, nil, "")
	t.enter(Running, "", "", r)
	t.Attempt, t.Epoch, t.Offer = e.Attempt, r.Seq, e.Offer
	t.Node, t.Session, t.StartedAt = e.Node, e.Session, r.At
	t.Exit, t.Usage, t.Extended = nil, nil, time.Time{}
	if t.Begun.IsZero() && t.Spec != nil && t.Spec.Retry.Budget > 0 {
		t.Begun = r.At
	}
}

func (t *Task) failed(e AttemptFailed, r Recorded) {
	if !t.owns(e.Epoch) {
		return
	}
	t.Failures++
	if !t.retried() { // what it drew behind that step, it draws again
		t.remembers(e.Drawn)
	}
	t.FailedOn = t.Node
	t.avoid(t.Node)
	t.Exit, t.Usage = e.Exit, e.Usage
	if e.Retry == nil {
		t.end(Error, e.Class, e.Message, r)
		return
	}
	t.wait(Retrying, e.Class, e.Retry.Due, r)
	t.heldByLimit()
	t.Message = e.Message
}

func (t *Task) owns(epoch uint64) bool { return t.Live() && t.Epoch == epoch }

// wait opens a new turn. A bound on the wait begins anew with it: the last turn's bound was met, or
// ended the task, which then had to be reopened.
func (t *Task) wait(s State, reason string, due time.Time, r Recorded) {
	t.enter(s, reason, "", r)
	t.turnHome()
	t.unrate()
	t.Turn, t.Offered = r.Seq, false
	t.Due, t.EndedAt, t.CancelBy = due, time.Time{}, time.Time{}
	if t.StartBy.IsZero() {
		return
	}
	t.StartBy = time.Time{}
	if bound := t.pendingTimeout(); bound > 0 {
		from := r.At
		if due.After(from) {
			from = due
		}
		t.StartBy = from.Add(bound)
	}
}

// AssignBy is when the task ends if all nodes that serve it have been busy since it was offered; zero for
// no such bound. See [job.Timeout.Assign].
func (t *Task) AssignBy() time.Time {
	if t.State != Pending || !t.Offered || t.Spec == nil || t.Spec.Timeout.Assign <= 0 || !t.PreferredUntil().IsZero() {
		return time.Time{}
	}
	return t.Since.Add(t.Spec.Timeout.Assign.Std())
}

// again opens a turn for an attempt that may start at once, or as soon as the task's limits admit
// it: it holds no place in them.
func (t *Task) again(reason string, r Recorded) {
	t.wait(Pending, reason, time.Time{}, r)
	if t.heldByLimit(); len(t.Holds) > 0 {
		t.enter(Held, HoldLimit, reason, r)
	}
}

// heldByLimit makes the task's limits, if there are any, decide about it again.
func (t *Task) heldByLimit() {
	if t.Holds = nil; t.Spec.Limited() {
		t.Holds = onlyLimit
	}
}

// onlyLimit is shared and never modified.
var onlyLimit = []string{HoldLimit}

func (t *Task) end(s State, reason, message string, r Recorded) {
	t.enter(s, reason, message, r)
	if t.EndedAt = r.At; t.Parent != "" {
		t.EndSeq = r.Seq
	}
}

func (t *Task) enter(s State, reason, message string, r Recorded) {
	switch live := s == Running || s == Cancelling; {
	case live:
		t.Ran = 0
	case t.Live() && !t.StartedAt.IsZero():
		t.Ran = value.Duration(max(r.At.Truncate(time.Microsecond).Sub(t.StartedAt.Truncate(time.Microsecond)), 0))
	}
	t.State, t.Reason, t.Message, t.Since = s, reason, message, r.At
}

func (t *Task) pendingTimeout() time.Duration {
	if t.Spec == nil {
		return 0
	}
	return t.Spec.Timeout.Pending.Std()
}
