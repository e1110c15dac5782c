package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// MaxLosses is how many lost nodes a task survives. After the next loss it is given up as poison.
const MaxLosses = 5

// StopMargin is how long a node may take, beyond the task's own grace, to stop it and report that.
const StopMargin = 5 * time.Second

// Refusals of commands.
var (
	// ErrUnknown: the log has no facts of the task.
	ErrUnknown = errors.New("no such task")
	// ErrEnded: the task is in a terminal state.
	ErrEnded = errors.New("the task has ended")
	// ErrRunning: the task has not ended yet.
	ErrRunning = errors.New("the task has not ended")
	// ErrStale: the offer is not for the task's present turn, or another node holds the task. The
	// worker can drop the offer.
	ErrStale = errors.New("the offer is stale")
	// ErrFenced: the attempt no longer belongs to the task, which has moved on.
	ErrFenced = errors.New("the attempt is fenced: the task has moved on")
	// ErrNotWaiting: the task does not wait any more.
	ErrNotWaiting = errors.New("the task is not waiting")
	// ErrElsewhere: the task waits elsewhere than the command expects.
	ErrElsewhere = errors.New("the task has been moved")
	// ErrUnfit: the node does not match, or no longer matches, the task's requirements. The offer
	// goes back for another node.
	ErrUnfit = errors.New("the node does not match what the task asks for")
	// ErrShut: the task's window closed after the last check. The offer goes back and is decided
	// anew.
	ErrShut = errors.New("the window of the task has closed")
	// ErrMovedOn: the task changed after it was judged.
	ErrMovedOn = errors.New("the task has moved on since it was judged")
	// ErrShared: the task is not, or no longer, meant for certain nodes.
	ErrShared = errors.New("the task is in a shared queue already")
)

// Command asks for a change of a task and may be refused. The set is closed.
type Command interface{ isCommand() }

// Claim asks to run the task under an offer.
type Claim struct {
	Node, Session string
	// Offer is the sequence of the offer. After is the turn for which it was made.
	Offer, After uint64
	// Seen says that the task as it is known must be offered and reach to the offer, else the claim is
	// stale: the log may have lost the offer.
	Seen bool
	// Reference is the offer itself if a timer brought it; nil for any other offer.
	Reference *Due
	// Labels are the node's labels at this moment.
	Labels map[string]string
	// At is the last fact of the node, from which Labels come.
	At uint64
	// Closes is when the window of the task or of its queue closes; zero if there is none, or if it
	// does not close soon.
	Closes time.Time
	// Rate is the rate of the queue from which the offer came.
	Rate queue.Rate
	// Account is the log's evidence about the lease of the attempt that runs under this offer. It
	// is needed only if there is such an attempt, which the refusal [ErrLeased] says; nil before
	// that.
	Account *Account
}

// Finish reports success of the attempt with this epoch.
type Finish struct {
	Epoch  uint64
	Exit   *int
	Result json.RawMessage
	Usage  *Usage
	// Drawn are steps that are done and not recorded, and need no fact of their own: times and ids.
	Drawn []Step `json:",omitzero"`
}

// Fail reports failure of the attempt with this epoch.
type Fail struct {
	Epoch   uint64
	Class   string
	Exit    *int
	Message string
	Usage   *Usage
	// RetryAfter is the delay that the task asks for instead of its back-off; 0 for none. It is at
	// most retry.max_delay, and the retry counts against retry.max and retry.budget like any other.
	RetryAfter time.Duration
	// Final forbids another attempt, regardless of the retry policy.
	Final bool
	// Chance is in [0,1) and places the delay within its jitter.
	Chance float64
	// Drawn are as in [Finish].
	Drawn []Step `json:",omitzero"`
}

// Stopped reports that the attempt with this epoch ended because of a cancel request.
type Stopped struct {
	Epoch uint64
	Exit  *int
	Usage *Usage
}

// Release gives the task back before its end, for example at shutdown.
type Release struct {
	Epoch  uint64
	Reason string
	// Until is when the task is to start again, by a [Postpone] that follows; zero for at once.
	Until time.Time `json:",omitzero"`
	// Drawn are as in [Finish].
	Drawn []Step `json:",omitzero"`
}

// Extend asks to move the run timeout of the attempt with this epoch to Until or later.
type Extend struct {
	Epoch uint64
	Until time.Time
}

// Lose reports that the node of the attempt with this epoch has vanished.
type Lose struct {
	Epoch  uint64
	Reason string
	// Account, if it is set, must say that the lease of the attempt has ended; else the command is
	// refused with [ErrLeased].
	Account *Account
}

// ReportLate stores a report of a fenced attempt.
type ReportLate struct {
	Epoch uint64
	Node  string
	Said  json.RawMessage
}

// Cancel asks for the task's end.
type Cancel struct{ Reason string }

// Expire ends a task that was not started in time.
type Expire struct {
	Detail string
	// Reason is a code. Default [value.Expired].
	Reason string
}

// GiveUp ends a task that cannot run; Reason is a code, Detail words.
type GiveUp struct{ Reason, Detail string }

// Reassign moves a waiting task to another route.
type Reassign struct {
	// From is the route where the caller expects the task to wait. If the task waits elsewhere, it
	// stays there.
	From, To placement.Route
	Reason   string
}

// Unbind moves a task that waits for a certain node to its shared queue.
type Unbind struct{ Reason string }

// Reopen gives a terminal task another life, and with a parent those of its children that Again
// says, as in [Reopened].
type Reopen struct {
	Reason, Again string
	// EndSeq, unless 0, is the end of the life before: the command is refused with [ErrMovedOn] if
	// the task, which has a parent, has ended otherwise.
	EndSeq uint64
}

func (Claim) isCommand()      {}
func (Finish) isCommand()     {}
func (Fail) isCommand()       {}
func (Stopped) isCommand()    {}
func (Release) isCommand()    {}
func (Extend) isCommand()     {}
func (Lose) isCommand()       {}
func (ReportLate) isCommand() {}
func (Cancel) isCommand()     {}
func (Expire) isCommand()     {}
func (GiveUp) isCommand()     {}
func (Reassign) isCommand()   {}
func (Unbind) isCommand()     {}
func (Reopen) isCommand()     {}

// Decide returns the event that follows from a command, to be recorded at t.Head. No event and no
// error means that the requested state holds already. An error is a refusal and wraps one of the
// errors of this package.
func Decide(t Task, c Command, now time.Time) (Event, error) { return t.Decide(c, now) }

// Decide is the function [Decide] without a copy of the task. It does not change t.
func (t *Task) Decide(c Command, now time.Time) (Event, error) {
	switch c := c.(type) {
	case Claim:
		return claim(t, c, now)
	case Judged:
		return t.Decide(c.Command, now)
	case Unmoved:
		if c.Head != t.Head {
			return nil, ErrMovedOn
		}
		return t.Decide(c.Command, now)
	case ReportLate:
		return AttemptLate(c), nil
	}
	if t.State == Unknown {
		return nil, ErrUnknown
	}
	switch c := c.(type) {
	case Reopen:
		if !t.State.Terminal() {
			return nil, fmt.Errorf("%w (it is %s): cancel it first", ErrRunning, t.State)
		}
		if c.EndSeq != 0 && c.EndSeq != t.EndSeq {
			return nil, ErrMovedOn
		}
		return Reopened{Reason: c.Reason, Again: c.Again}, nil
	case Dismiss:
		return dismiss(t, c)
	case Cancel:
		return cancel(t, c, now)
	case Expire:
		if !t.Waiting() {
			return nil, ErrNotWaiting
		}
		return GivenUp{Reason: cmp.Or(c.Reason, value.Expired), Detail: c.Detail}, nil
	case GiveUp:
		if t.State.Terminal() {
			return nil, ErrEnded
		}
		return GivenUp(c), nil
	case Reassign:
		return reassign(t, c)
	case Expand:
		return expand(t, c)
	case Conclude:
		if t.State.Terminal() {
			return nil, ErrEnded
		}
		if !t.Live() || t.Epoch != 0 {
			return nil, ErrNoParent
		}
		return Concluded(c), nil
	case PassOn:
		return passOn(t, c)
	case HandOver:
		return handOver(t, c, now)
	case Postpone:
		return postpone(t, c)
	case Collapse:
		return collapse(t, c, now)
	case Unhold:
		return unhold(t, c)
	case CancelWaiting:
		switch {
		case t.State.Terminal():
			return nil, ErrEnded
		case !t.Waiting():
			return nil, ErrNotWaiting
		}
		return CancelConfirmed{Reason: c.Reason}, nil
	case Prioritize:
		return prioritize(t, c)
	case Refuse:
		return refuse(t, c)
	case Skip:
		return skip(t, c)
	case Reject:
		return reject(t, c)
	case Unbind:
		if _, own := t.Route.Node(); !own && t.Waiting() && (!t.Route.Selected() || t.FellBack()) {
			return nil, ErrShared
		}
		return reassign(t, Reassign{From: t.Route, To: t.Fallback(), Reason: c.Reason})
	}
	return report(t, c, now)
}

func reassign(t *Task, c Reassign) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case !t.Waiting():
		return nil, fmt.Errorf("%w: it is %s on node %s", ErrNotWaiting, t.State, t.Node)
	case t.Route == c.To:
		return nil, nil
	case t.Route != c.From:
		return nil, fmt.Errorf("%w: it waits on %s", ErrElsewhere, t.Route)
	}
	if err := c.To.Validate(); err != nil {
		return nil, err
	}
	return Reassigned{From: c.From, To: c.To, Reason: c.Reason}, nil
}

func claim(t *Task, c Claim, now time.Time) (Event, error) {
	start := AttemptStarted{Attempt: t.Attempt + 1, Node: c.Node, Session: c.Session, Offer: c.Offer}
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case t.Waiting():
		if c.After != t.Turn || c.Seen && (!t.Offered || c.Offer > t.Seq) || len(t.Holds) > 0 || c.Reference != nil && !t.Awaits(*c.Reference) {
			return nil, ErrStale
		}
		if !t.StartBy.IsZero() && now.After(t.StartBy) {
			return GivenUp{Reason: value.Expired, Detail: "pending timeout: not started by " + t.StartBy.Format(time.RFC3339)}, nil
		}
		if t.TooLong(now) {
			return GivenUp{Reason: value.Timeout, Detail: t.TotalWords()}, nil
		}
		if !c.Closes.IsZero() && !now.Before(c.Closes) {
			return nil, ErrShut
		}
		if t.Throttles(c) {
			return Throttled{Node: c.Node, Limit: c.Rate.Counter()}, nil
		}
		if len(t.Spec.Room()) > 0 || t.Route.Selected() {
			return fits(t, c, start)
		}
		return start, nil
	case c.Offer != t.Offer:
		return nil, ErrStale
	}
	// The server has handed the attempt's offer to another worker. Delivery alone proves nothing:
	// see [ErrLeased].
	over, err := c.Account.ended(t)
	if err != nil {
		return nil, err
	}
	if t.Route.Selected() {
		if _, err := fits(t, c, start); err != nil {
			return nil, err // a node that takes the task over must match, too
		}
	}
	if t.State == Cancelling {
		return lostWhileCancelling(t), nil
	}
	if t.Losses >= MaxLosses {
		return poison(t), nil
	}
	start.TookOver = over
	return start, nil
}

// Throttles tells whether a claim must not start the task, because the rate of the offer's queue
// has not admitted the task in this turn.
func (t *Task) Throttles(c Claim) bool {
	return c.Rate.Since > t.Rated && t.Waiting() && c.After == t.Turn && c.Rate.Queue == t.RateQueue()
}

// fits starts the attempt if the node matches the task's requirements. No other node can take an
// offer on a node's own route, so a task that can never fit there ends.
func fits(t *Task, c Claim, start AttemptStarted) (Event, error) {
	if _, needs := t.Asks(); len(needs) > 0 {
		if ok, why := needs.Match(c.Labels); !ok {
			return nil, fmt.Errorf("%w: %s", ErrUnfit, why)
		}
		return start, nil
	}
	if ok, why := t.Spec.Room().Match(c.Labels); !ok {
		return GivenUp{Reason: value.Unplaced, Detail: "node " + c.Node + " cannot run it: " + why}, nil
	}
	return start, nil
}

func cancel(t *Task, c Cancel, now time.Time) (Event, error) {
	switch {
	case t.State == Cancelled || t.State == Cancelling:
		return nil, nil
	case t.State.Terminal():
		return nil, fmt.Errorf("%w: it is %s", ErrEnded, t.State)
	case t.State == Running && t.Epoch == 0:
		return CancelRequested{Reason: c.Reason, Deadline: now.Add(t.Grace() + 2*StopMargin)}, nil // its children have theirs
	case t.State == Running:
		return CancelRequested{Reason: c.Reason, Deadline: now.Add(t.Grace() + StopMargin)}, nil
	}
	return CancelConfirmed{Reason: c.Reason}, nil
}

// report decides on a report about an attempt, from its node or on behalf of it.
func report(t *Task, c Command, now time.Time) (Event, error) {
	if epoch := epochOf(c); !t.owns(epoch) {
		return nil, fmt.Errorf("%w: epoch %d reports, the task is %s under epoch %d", ErrFenced, epoch, t.State, t.Epoch)
	}
	switch c := c.(type) {
	case Finish:
		return AttemptFinished{Attempt: t.Attempt, Epoch: c.Epoch, Exit: c.Exit, Result: c.Result, Usage: c.Usage, Drawn: t.room(c.Drawn)}, nil
	case Fail:
		if t.State == Cancelling {
			return CancelConfirmed{Reason: t.Message, Epoch: c.Epoch, Exit: c.Exit, Usage: c.Usage}, nil
		}
		return fail(t, c, now), nil
	case Stopped:
		return CancelConfirmed{Reason: t.Message, Epoch: c.Epoch, Exit: c.Exit, Usage: c.Usage}, nil
	case Release:
		if t.State == Cancelling {
			return CancelConfirmed{Reason: t.Message, Epoch: c.Epoch}, nil
		}
		return AttemptReleased{Attempt: t.Attempt, Epoch: c.Epoch, Reason: c.Reason, Drawn: t.room(c.Drawn)}, nil
	case Extend:
		return extend(t, c), nil
	case Remember:
		return remember(t, c)
	case Suspend:
		return suspend(t, c)
	case Adopt:
		return adopt(t, c)
	case Lose:
		if c.Account != nil {
			if _, err := c.Account.ended(t); err != nil {
				return nil, err
			}
		}
		switch {
		case t.State == Cancelling:
			return lostWhileCancelling(t), nil
		case t.Losses >= MaxLosses:
			return poison(t), nil
		}
		return AttemptLost{Attempt: t.Attempt, Epoch: c.Epoch, Reason: c.Reason}, nil
	}
	return nil, fmt.Errorf("no rule for the command %T", c)
}

func epochOf(c Command) uint64 {
	switch c := c.(type) {
	case Finish:
		return c.Epoch
	case Fail:
		return c.Epoch
	case Stopped:
		return c.Epoch
	case Release:
		return c.Epoch
	case Lose:
		return c.Epoch
	case Adopt:
		return c.Epoch
	case Extend:
		return c.Epoch
	case Remember:
		return c.Epoch
	case Suspend:
		return c.Epoch
	}
	return 0
}

func fail(t *Task, c Fail, now time.Time) Event {
	e := AttemptFailed{
		Attempt:    t.Attempt,
		Epoch:      c.Epoch,
		Class:      c.Class,
		Exit:       c.Exit,
		Message:    c.Message,
		RetryAfter: value.Duration(max(c.RetryAfter, 0)),
		Usage:      c.Usage,
		Drawn:      t.room(c.Drawn),
	}
	if t.Spec == nil {
		return e
	}
	due, words, again := t.Spec.Retry.Plan(job.Failure{
		Class: c.Class, Exit: c.Exit, Final: c.Final, After: c.RetryAfter, Chance: c.Chance,
		Failures: t.Failures + 1, Begun: t.Begun, At: now,
	})
	if again && t.TooLong(due) {
		words, again = "the next attempt would be due after timeout.total", false
	}
	if e.Reason = words; again {
		e.Retry = &RetryPlan{Attempt: t.Attempt + 1, Due: due}
	}
	return e
}

func lostWhileCancelling(t *Task) Event {
	return GivenUp{Reason: value.Lost, Detail: "cancel was requested, and " + t.Node + " did not confirm the end of the process"}
}

func poison(t *Task) Event {
	return GivenUp{Reason: value.Poison, Detail: fmt.Sprintf("%d nodes were lost while running it, the last one %s", t.Losses+1, t.Node)}
}

// Grace is how long an attempt of the task may take to stop before it is killed.
func (t *Task) Grace() time.Duration {
	if t.Spec == nil {
		return job.DefaultStop
	}
	return t.Spec.Timeout.Grace()
}
