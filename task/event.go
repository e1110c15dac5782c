package task

import (
	"encoding/json"
	"time"

	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
	"millrace/task/where"
)

// Event is a fact about a task: it has happened. The set is closed; package
// events gives each its form on the wire.
type Event interface{ isEvent() }

// Work is what an offer carries, so that whoever pulls it can start without
// reading anything else.
type Work struct {
	// Job and Revision name the definition; both are zero for an ad-hoc command.
	Job      string `json:"job,omitzero"`
	Revision uint64 `json:"revision,omitzero"`
	// Spec is never nil in a valid fact, and never modified.
	Spec *job.Spec `json:"spec,omitzero"`
	// Params is a JSON object, or nil.
	Params json.RawMessage `json:"params,omitzero"`
	// Secrets are the names of those parameters whose value is a [job.Secret].
	Secrets []string          `json:"secrets,omitzero"`
	Labels  map[string]string `json:"labels,omitzero"`
	Route   where.Route       `json:"route,omitzero"`
	// StartBy is when the task expires if it was not started; zero for no such bound.
	StartBy time.Time `json:"start_by,omitzero"`
	// EndBy is when it has taken as long as it may altogether; zero for no such bound.
	EndBy  time.Time `json:"end_by,omitzero"`
	Group  string    `json:"group,omitzero"`
	Parent ID        `json:"parent,omitzero"`
	// Step is the child's name below the outermost parent, as a path: "transform", or "sum/0" for the
	// first value of the list of step sum. A child on a node bears the node's name. "" for a task that
	// no parent was expanded into.
	Step string `json:"step,omitzero"`
	// Holds are what has to open before the task is offered. Empty in an offer.
	Holds []string `json:"holds,omitzero"`
	// FairKey shares the queue out: tasks of different keys are taken in turn. "" for none.
	FairKey string `json:"fair_key,omitzero"`
	// Needs are the tasks that have to end before it may run; nil for none.
	Needs *Needs `json:"needs,omitzero"`
	// Inputs is what it is told of those, as [Needs.Inputs] makes it; nil before they have ended.
	Inputs json.RawMessage `json:"inputs,omitzero"`
	// Asked is what its route asks of nodes; nil if that follows from the spec.
	Asked *where.Asked `json:"asked,omitzero"`
	// Trace is the trace context that it was submitted with, as W3C's traceparent; "" for none. Its children have it, too.
	Trace string `json:"trace,omitzero"`
	// Origin is zero for a task that no schedule made.
	Origin
}

// Submitted is the birth of a task. If it is neither due later nor held, nor
// a parent's, the message that holds it is the first offer.
type Submitted struct {
	Work
	// Due is when the task may run; zero for at once.
	Due time.Time `json:"due,omitzero"`
	// RetryOf is the task of which this one is a copy, "" if it is none.
	RetryOf ID `json:"retry_of,omitzero"`
	// Window says that Due is when the task's window opens; nil if it is not.
	Window *Shut `json:"window,omitzero"`
}

// Queued is a later offer of a task: there is another attempt, or its due time had come when it was written.
// While that is to come a timer stands for it, and what follows from that is [Due].
type Queued struct {
	Work
	// Attempt is the number that the attempt will have.
	Attempt int `json:"attempt,omitzero"`
	// After is the task's Turn for which this offer is good; for any other the offer is stale.
	After  uint64    `json:"after"`
	Reason string    `json:"reason,omitzero"`
	Due    time.Time `json:"due,omitzero"`
	// Rated says which rate of the task's queue has admitted it: the sequence of the fact that set
	// that rate. Who knows of no later one starts the task. 0 for none.
	Rated uint64 `json:"rated,omitzero"`
}

// AttemptStarted is the claim: its sequence is the attempt's epoch.
type AttemptStarted struct {
	Attempt int    `json:"attempt,omitzero"`
	Node    string `json:"node,omitzero"`
	Session string `json:"session,omitzero"`
	// Offer is the sequence of the offer under which the attempt holds its lease.
	Offer uint64 `json:"offer,omitzero"`
	// TookOver is set if the offer's lease had ended under another attempt.
	TookOver *TookOver `json:"took_over,omitzero"`
}

// TookOver names the attempt whose lease had ended, and what that was found by.
type TookOver struct {
	Epoch uint64 `json:"epoch"`
	// Reason says it in words.
	Reason string `json:"reason"`
	// Ground is the kind of evidence, [GroundClaim] for one. Facts of before the account of leases
	// have none, and nothing of what follows.
	Ground string `json:"ground,omitempty"`
	// Heard is when the log last heard of the attempt on that ground, by the server's time. What it was
	// found from, and when, the fact names ([By.Lease]).
	Heard time.Time `json:"heard,omitzero"`
}

// AttemptFinished is the accepted result of a task.
type AttemptFinished struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	// Exit is the process's code; nil for handlers.
	Exit *int `json:"exit,omitzero"`
	// Result is a small JSON value, or nil.
	Result json.RawMessage `json:"result,omitzero" form:"null"`
	Usage  *Usage          `json:"usage,omitzero"`
}

// Usage is what an attempt consumed.
type Usage struct {
	UserTime   value.Duration `json:"user,omitempty"`
	SystemTime value.Duration `json:"system,omitempty"`
	// MaxMemory is the largest resident set of the process, in bytes.
	MaxMemory int64 `json:"max_memory,omitempty"`
	// Read and Written are what went between memory and disks, in bytes.
	Read    int64 `json:"read,omitempty"`
	Written int64 `json:"written,omitempty"`
	// Signal is the name of the signal that ended the process.
	Signal string `json:"signal,omitempty"`
	// Setup, Run and Stop are how long the attempt's phases took: until the program
	// began its work, until it ended or was asked to, and from then until nothing was
	// left of it. They are there only if one besides Run took a millisecond or more.
	Setup value.Duration `json:"setup,omitempty"`
	Run   value.Duration `json:"run,omitempty"`
	Stop  value.Duration `json:"stop,omitempty"`
	// Limits says in words which bounds were in force, and how.
	Limits string `json:"limits,omitempty"`
	// Refused is how many messages of the program were refused: for what they carried was too
	// long, or could not be done. The log of the attempt says why.
	Refused int `json:"refused,omitempty"`
}

// AttemptExtended says that the attempt may take longer.
type AttemptExtended struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	// Until is when its run timeout passes now.
	Until time.Time `json:"until,omitzero"`
}

// AttemptFailed says that the task itself failed, and what follows.
type AttemptFailed struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	// Class is one of [job.Classes].
	Class   string `json:"class,omitzero"`
	Exit    *int   `json:"exit,omitzero"`
	Message string `json:"message,omitzero"`
	// Retry is the next attempt, or nil if this failure is the task's end.
	Retry *RetryPlan `json:"retry"`
	// Reason says in words why there is no other attempt, or why not when the back-off has it.
	Reason string `json:"reason,omitzero"`
	// RetryAfter is the pause that the task asked for; 0 if it did not. It holds for all that
	// stand under the same rate.
	RetryAfter value.Duration `json:"retry_after,omitzero"`
	Usage      *Usage         `json:"usage,omitzero"`
}

// RetryPlan is the next attempt's number and time.
type RetryPlan struct {
	Attempt int       `json:"attempt"`
	Due     time.Time `json:"due"`
}

// AttemptReleased says that a node gave a task back before its end.
type AttemptReleased struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	Reason  string `json:"reason,omitzero"`
}

// AttemptLost says that an attempt's node vanished, before anybody took over.
type AttemptLost struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	Reason  string `json:"reason,omitzero"`
}

// AttemptLate keeps what a worker wanted to say after its attempt was no longer
// the task's own. It is evidence and never changes the state.
type AttemptLate struct {
	Epoch uint64 `json:"epoch,omitzero"`
	// Node is who said it.
	Node string `json:"node,omitzero"`
	// Said is the fact that was refused, in its wire form.
	Said json.RawMessage `json:"said,omitzero" form:"null"`
}

// CancelRequested asks the node that runs the task to stop it.
type CancelRequested struct {
	Reason string `json:"reason,omitzero"`
	// Deadline is when the process must be gone.
	Deadline time.Time `json:"deadline,omitzero"`
}

// CancelConfirmed ends a task as cancelled: it never started, or its end was seen.
type CancelConfirmed struct {
	Reason string `json:"reason,omitzero"`
	// Code is the reason's code; "" for [reason.User].
	Code string `json:"code,omitzero"`
	// Epoch is the attempt that was stopped; zero if none ran.
	Epoch uint64 `json:"epoch,omitzero"`
	Exit  *int   `json:"exit,omitzero"`
	Usage *Usage `json:"usage,omitzero"`
}

// GivenUp ends a task as abnormal.
type GivenUp struct {
	// Reason is expired, lost, poison, unplaceable or breaker.
	Reason string `json:"reason,omitzero"`
	Detail string `json:"detail,omitzero"`
}

// Reassigned moves a task that waits to another route. The offer on the old one
// is stale from then on, and another must be placed.
type Reassigned struct {
	From where.Route `json:"from,omitzero"`
	To   where.Route `json:"to,omitzero"`
	// Asked is what To asks of nodes; nil if that follows from the task's spec, or if it goes back.
	Asked  *where.Asked `json:"asked,omitzero"`
	Reason string       `json:"reason,omitzero"`
	// Until is when it goes back to where it was, if it was left to nodes that it prefers; zero else.
	Until time.Time `json:"until,omitzero"`
}

// Postponed says that a task which waits is to wait until a time. Its offer is stale
// from then on, and another is placed at that time.
type Postponed struct {
	// Reason is the rule that says so ([job.Rule.Name]); Detail says it in words.
	Reason string    `json:"reason,omitzero"`
	Detail string    `json:"detail,omitzero"`
	Due    time.Time `json:"due,omitzero"`
}

// Reopened gives a terminal task another life.
type Reopened struct {
	Reason string `json:"reason,omitzero"`
}

func (Submitted) isEvent()       {}
func (Queued) isEvent()          {}
func (AttemptStarted) isEvent()  {}
func (AttemptFinished) isEvent() {}
func (AttemptFailed) isEvent()   {}
func (AttemptReleased) isEvent() {}
func (AttemptExtended) isEvent() {}
func (AttemptLost) isEvent()     {}
func (AttemptLate) isEvent()     {}
func (CancelRequested) isEvent() {}
func (CancelConfirmed) isEvent() {}
func (GivenUp) isEvent()         {}
func (Reassigned) isEvent()      {}
func (Postponed) isEvent()       {}
func (Reopened) isEvent()        {}

// Recorded is an event with its place in the log.
type Recorded struct {
	// Seq is the sequence of the message that holds the event, from 1.
	Seq uint64
	// Chain is whether that message lies on the task's chain; births and later
	// offers do not.
	Chain bool
	// At is when the event happened, by the clock of who recorded it; of a [Due], which the server writes, when the
	// log stored it.
	At time.Time
	// Actor is who recorded it; "" if that is plain from the event.
	Actor string
	// Corr is the first cause: of what a bulk command did, that command.
	Corr string
	// Event is nil for a message on the task's chain that could not be understood.
	Event Event
}

// What made a task of a schedule.
const (
	TriggerSchedule = "schedule" // its tick came
	TriggerCatchUp  = "catchup"  // its tick had passed while nothing could fire
	TriggerBackfill = "backfill" // somebody asked for the ticks of some time
	TriggerManual   = "manual"   // somebody asked for it now
)

// Triggers lists what makes tasks of schedules.
var Triggers = []string{TriggerSchedule, TriggerCatchUp, TriggerBackfill, TriggerManual}

// Origin names the schedule that made a task; it is zero for any other task.
type Origin struct {
	Schedule string `json:"schedule,omitzero"`
	// Tick is the logical time: when the task was meant to be made.
	Tick time.Time `json:"tick,omitzero"`
	// Trigger is one of [Triggers].
	Trigger string `json:"trigger,omitzero"`
}

// SecretParams are the files that the secret parameters of a task name, by the names of the parameters.
func (w *Work) SecretParams() map[string]string {
	var params map[string]json.RawMessage
	if len(w.Secrets) == 0 || json.Unmarshal(w.Params, &params) != nil {
		return nil
	}
	files := map[string]string{}
	for _, name := range w.Secrets {
		if file, ok := param.FileOf(params[name]); ok {
			files[name] = file
		}
	}
	return files
}
