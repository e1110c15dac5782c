package task

import (
	"encoding/json"
	"time"

	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

// Event is a fact about a task: it has happened. The set is closed; package
// events gives each its form on the wire.
type Event interface{ isEvent() }

// Work is the content of an offer. It is complete, so a worker that pulls it can start without
// reading anything else.
type Work struct {
	// Job and Revision name the definition; both are zero for an ad-hoc command.
	Job      string `json:"job,omitzero" redact:"keep"`
	Revision uint64 `json:"revision,omitzero"`
	// Title says in a line what this task is for, to people; "" if the submitter gave none.
	Title string `json:"title,omitzero" redact:"hide"`
	// Spec is never nil in a valid fact, and never modified.
	Spec *job.Spec `json:"spec,omitzero"`
	// Params is a JSON object, or nil.
	Params json.RawMessage `json:"params,omitzero" redact:"data"`
	// Secrets are the names of the parameters whose value is a [job.Secret].
	Secrets []string `json:"secrets,omitzero" redact:"keep"`
	// Spelled tells that equal values make equal keys ({params.NAME}): 1.0 is 1. Births of early
	// versions lack it, and keep the keys that they had: the values as they were written.
	Spelled bool `json:"spelled,omitzero"`
	// Labels are what the submitter, the job or the schedule has attached to it.
	Labels map[string]string `json:"labels,omitzero" redact:"hide"`
	// Route is where it is offered: its queue, its priority, and what it requires of nodes.
	Route placement.Route `json:"route,omitzero" redact:"keep"`
	// StartBy is when the task expires if it was not started; zero for no such bound.
	StartBy time.Time `json:"start_by,omitzero"`
	// EndBy is the deadline of the task as a whole (timeout.total); zero for no such bound.
	EndBy time.Time `json:"end_by,omitzero"`
	// Group is that of its job. Parent is the task that was expanded into it; "" for none.
	Group  string `json:"group,omitzero" redact:"hide"`
	Parent ID     `json:"parent,omitzero" redact:"keep"`
	// Step is the child's name below the outermost parent, as a path: "transform", or "sum/0" for the
	// first value of the list of step sum. A child on a node bears the node's name. "" for a task that
	// no parent was expanded into.
	Step string `json:"step,omitzero" redact:"keep"`
	// Holds are the conditions that must open before the task is offered. Empty in an offer.
	Holds []string `json:"holds,omitzero" redact:"word"`
	// FairKey shares the queue fairly: workers take tasks of different keys in turn. "" for none.
	FairKey string `json:"fair_key,omitzero" redact:"hide"`
	// Needs are the tasks that must end before it may run; nil for none.
	Needs *Needs `json:"needs,omitzero"`
	// Inputs are the results of the tasks in Needs, as [Needs.Inputs] makes them; nil before they
	// have ended.
	Inputs json.RawMessage `json:"inputs,omitzero" redact:"drop"`
	// Asked is what the route requires of nodes; nil if that follows from the spec.
	Asked *placement.Asked `json:"asked,omitzero"`
	// Trace is the trace context of the submission, as a W3C traceparent; "" for none. Children
	// inherit it.
	Trace string `json:"trace,omitzero" redact:"keep"`
	// Origin is zero for a task that was made neither by a schedule nor by the end of another.
	Origin
}

// Submitted is the birth of a task. The message is also the first offer, unless the task is due
// later, held, or a parent.
type Submitted struct {
	Work
	// Due is when the task may run; zero for at once.
	Due time.Time `json:"due,omitzero"`
	// RetryOf is the task of which this one is a copy; "" for none.
	RetryOf ID `json:"retry_of,omitzero" redact:"keep"`
	// Window says that Due is when the task's window opens; nil if Due has another origin.
	Window *Shut `json:"window,omitzero"`
}

// Queued is a later offer of a task: for another attempt, or because the due time had come when it
// was written. Until the due time a timer stands in for it; when the timer fires, the event is
// [Due].
type Queued struct {
	Work
	// Attempt is the number of the attempt that the offer leads to.
	Attempt int `json:"attempt,omitzero"`
	// After is the task's Turn for which this offer is valid; for any other turn the offer is
	// stale.
	After  uint64    `json:"after"`
	Reason string    `json:"reason,omitzero" redact:"word"`
	Due    time.Time `json:"due,omitzero"`
	// Rated is the sequence of the fact that set the queue's rate under which the task was
	// admitted. A worker that knows of no later rate starts the task. 0 for none.
	Rated uint64 `json:"rated,omitzero"`
}

// AttemptStarted is the claim: its sequence is the attempt's epoch.
type AttemptStarted struct {
	Attempt int    `json:"attempt,omitzero"`
	Node    string `json:"node,omitzero" redact:"keep"`
	Session string `json:"session,omitzero" redact:"keep"`
	// Offer is the sequence of the offer under which the attempt holds its lease.
	Offer uint64 `json:"offer,omitzero"`
	// TookOver is set if the offer's lease had ended under another attempt.
	TookOver *TookOver `json:"took_over,omitzero"`
}

// TookOver names the attempt whose lease had ended, and the evidence for that.
type TookOver struct {
	Epoch uint64 `json:"epoch"`
	// Reason describes the evidence in words.
	Reason string `json:"reason" redact:"hide"`
	// Ground is the kind of evidence, for example [GroundClaim]. Facts written before accounts of
	// leases existed have none, and no Heard.
	Ground string `json:"ground,omitempty" redact:"word"`
	// Heard is when the log last heard of the attempt on that ground, by the server's time.
	// [By.Lease] of the fact holds the evidence and its time.
	Heard time.Time `json:"heard,omitzero"`
}

// AttemptFinished is the accepted result of a task.
type AttemptFinished struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	// Exit is the process's code; nil for handlers.
	Exit *int `json:"exit,omitzero"`
	// Result is a small JSON value, or nil.
	Result json.RawMessage `json:"result,omitzero" form:"null" redact:"drop"`
	Usage  *Usage          `json:"usage,omitzero"`
	// Drawn are steps that its function has done behind the last one of which the log was told.
	Drawn []Step `json:"drawn,omitzero"`
}

// Usage is what an attempt used.
type Usage struct {
	// UserTime and SystemTime are the processor time that it took, in its own code and in the kernel.
	UserTime   value.Duration `json:"user,omitempty"`
	SystemTime value.Duration `json:"system,omitempty"`
	// MaxMemory is the largest resident set of the process, in bytes.
	MaxMemory int64 `json:"max_memory,omitempty"`
	// Read and Written are the bytes transferred from and to disks.
	Read    int64 `json:"read,omitempty"`
	Written int64 `json:"written,omitempty"`
	// Signal is the name of the signal that ended the process.
	Signal string `json:"signal,omitempty" redact:"keep"`
	// Setup, Run and Stop are the durations of the attempt's phases: until the program began its
	// work, until it ended or was asked to end, and from then until no process was left. They are
	// set only if Setup or Stop took a millisecond or more.
	Setup value.Duration `json:"setup,omitempty"`
	Run   value.Duration `json:"run,omitempty"`
	Stop  value.Duration `json:"stop,omitempty"`
	// Limits says in words which bounds were in force, and by which means.
	Limits string `json:"limits,omitempty" redact:"hide"`
	// Refused is how many messages of the program the worker refused, because they were too long or
	// could not be carried out. The log of the attempt says why.
	Refused int `json:"refused,omitempty"`
}

// AttemptExtended records that the attempt may take longer.
type AttemptExtended struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	// Until is the new time of its run timeout.
	Until time.Time `json:"until,omitzero"`
}

// AttemptFailed records that the task itself failed, and what follows.
type AttemptFailed struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	// Class is one of [job.Classes].
	Class   string `json:"class,omitzero" redact:"word"`
	Exit    *int   `json:"exit,omitzero"`
	Message string `json:"message,omitzero" redact:"hide"`
	// Retry is the next attempt; nil if this failure ends the task.
	Retry *RetryPlan `json:"retry"`
	// Reason says in words why there is no other attempt, or why its time differs from the
	// back-off.
	Reason string `json:"reason,omitzero" redact:"hide"`
	// RetryAfter is the delay that the task asked for; 0 for none. It applies to all tasks under
	// the same rate.
	RetryAfter value.Duration `json:"retry_after,omitzero"`
	Usage      *Usage         `json:"usage,omitzero"`
	// Drawn are as in [AttemptFinished].
	Drawn []Step `json:"drawn,omitzero"`
}

// RetryPlan is the next attempt's number and time.
type RetryPlan struct {
	Attempt int       `json:"attempt"`
	Due     time.Time `json:"due"`
}

// AttemptReleased records that a node gave a task back before its end.
type AttemptReleased struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	Reason  string `json:"reason,omitzero" redact:"hide"`
	// Drawn are as in [AttemptFinished].
	Drawn []Step `json:"drawn,omitzero"`
}

// AttemptLost records that an attempt's node vanished before another node took over.
type AttemptLost struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	Reason  string `json:"reason,omitzero" redact:"hide"`
}

// AttemptLate stores a report that came after the attempt was fenced. It is evidence and never
// changes the state.
type AttemptLate struct {
	Epoch uint64 `json:"epoch,omitzero"`
	// Node is the node that sent the report.
	Node string `json:"node,omitzero" redact:"keep"`
	// Said is the refused fact, in its wire form.
	Said json.RawMessage `json:"said,omitzero" form:"null" redact:"drop"`
}

// CancelRequested asks the node that runs the task to stop it.
type CancelRequested struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
	// Deadline is when the process must have ended.
	Deadline time.Time `json:"deadline,omitzero"`
}

// CancelConfirmed ends a task as cancelled: it never started, or its end was seen.
type CancelConfirmed struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
	// Code is the reason's code; "" for [value.User].
	Code string `json:"code,omitzero" redact:"word"`
	// Epoch is the attempt that was stopped; zero if none ran.
	Epoch uint64 `json:"epoch,omitzero"`
	Exit  *int   `json:"exit,omitzero"`
	Usage *Usage `json:"usage,omitzero"`
}

// GivenUp ends a task as abnormal.
type GivenUp struct {
	// Reason is expired, lost, poison, unplaceable or breaker.
	Reason string `json:"reason,omitzero" redact:"word"`
	Detail string `json:"detail,omitzero" redact:"hide"`
}

// Reassigned moves a waiting task to another route. The offer on the old route becomes stale, and
// another must be placed.
type Reassigned struct {
	From placement.Route `json:"from,omitzero" redact:"keep"`
	To   placement.Route `json:"to,omitzero" redact:"keep"`
	// Asked is what To requires of nodes; nil if that follows from the task's spec, or if the task
	// returns.
	Asked  *placement.Asked `json:"asked,omitzero"`
	Reason string           `json:"reason,omitzero" redact:"hide"`
	// Until is when the task returns to its former route, if it was left to nodes that it prefers;
	// else zero.
	Until time.Time `json:"until,omitzero"`
}

// Reopened gives a terminal task another life.
type Reopened struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
	// Again says which children of a parent get another life with it: [AllAgain], or the path of one
	// task below it, as "transform" or "sum/0"; "" for none.
	Again string `json:"again,omitzero" redact:"keep"`
}

// AllAgain is a [Reopened.Again]: all children that did not finish.
const AllAgain = "*"

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
func (Reopened) isEvent()        {}

// Recorded is an event with its place in the log.
type Recorded struct {
	// Seq is the sequence of the message that holds the event, from 1.
	Seq uint64
	// Chain is whether that message lies on the task's chain; births and later
	// offers do not.
	Chain bool
	// At is when the event happened, by the recorder's clock. For a [Due], which the server writes,
	// it is when the log stored it.
	At time.Time
	// Stored is when the log stored it; zero if that is not known.
	Stored time.Time
	// Actor is the recorder; "" if that is plain from the event.
	Actor string
	// Corr is the first cause: for an effect of a bulk command, that command.
	Corr string
	// Event is nil for an unreadable message on the task's chain.
	Event Event
}

// Triggers: why a schedule made a task.
const (
	TriggerSchedule = "schedule" // its tick came
	TriggerCatchUp  = "catchup"  // its tick had passed while the server was away
	TriggerBackfill = "backfill" // an operator asked for the ticks of a period
	TriggerManual   = "manual"   // an operator asked for it now
	TriggerEnd      = "end"      // no schedule did: a task of another job has ended
	TriggerMessage  = "message"  // a message came from NATS
)

// Origin names the schedule, or the event outside, that made a task; it is zero for any other task.
type Origin struct {
	// Schedule is its name.
	Schedule string `json:"schedule,omitzero" redact:"keep"`
	// Tick is the logical time: when the task was meant to be made.
	Tick time.Time `json:"tick,omitzero"`
	// Trigger says why it was made: schedule, catchup, backfill, manual, end or message.
	Trigger string `json:"trigger,omitzero" redact:"word"`
	// After is the task whose end made it, without a schedule. Tick is the time of that end.
	After ID `json:"ended_task,omitzero" redact:"keep"`
	// Ended is the sequence of that end.
	Ended uint64 `json:"ended,omitzero"`
	// MadeBy is in words what else made it, different for each message. Tick is the time of that.
	MadeBy string `json:"made_by,omitzero" redact:"keep"`
}

// SecretParams returns the files of the task's secret parameters, by parameter name.
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

// Shut explains the due time of a birth: its window was closed.
type Shut struct {
	// Calendar is the revision of the calendar that is closed. From is the time from which the
	// opening was computed.
	Calendar uint64    `json:"calendar"`
	From     time.Time `json:"from"`
	// Detail describes it in words.
	Detail string `json:"detail,omitempty" redact:"hide"`
}
