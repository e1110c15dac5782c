package events

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"millrace/node"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/limit"
	"millrace/task/queue"
)

// TypeHeader is the message header that repeats the type of a fact, so that a
// reader can filter without parsing.
const TypeHeader = "Mr-Type"

// Type names what a fact says.
type Type string

// The types of facts.
const (
	TaskSubmitted       Type = "task.submitted"
	TaskQueued          Type = "task.queued"
	TaskDue             Type = "task.due"
	AttemptStarted      Type = "attempt.started"
	AttemptFinished     Type = "attempt.finished"
	AttemptFailed       Type = "attempt.failed"
	AttemptReleased     Type = "attempt.released"
	AttemptLost         Type = "attempt.lost"
	AttemptExtended     Type = "attempt.extended"
	AttemptAdopted      Type = "attempt.adopted"
	AttemptLate         Type = "attempt.late"
	TaskCancelRequested Type = "task.cancel_requested"
	TaskCancelled       Type = "task.cancelled"
	TaskAbnormal        Type = "task.abnormal"
	TaskReassigned      Type = "task.reassigned"
	TaskPostponed       Type = "task.postponed"
	TaskThrottled       Type = "task.throttled"
	TaskReopened        Type = "task.reopened"
	TaskExpanded        Type = "task.expanded"
	TaskConcluded       Type = "task.concluded"
	TaskDismissed       Type = "task.dismissed"
	MessageDismissed    Type = "message.dismissed"
	BreakerOpened       Type = "breaker.opened"
	BreakerHalfOpened   Type = "breaker.half_opened"
	BreakerTried        Type = "breaker.tried"
	BreakerClosed       Type = "breaker.closed"
	TaskUnheld          Type = "task.unheld"
	LimitGranted        Type = "limit.granted"
	CopiesRestored      Type = "copies.restored"
	UniqueClaimed       Type = "unique.claimed"
	NodeRegistered      Type = "node.registered"
	NodeOnline          Type = "node.online"
	NodeReady           Type = "node.ready"
	NodeDraining        Type = "node.draining"
	NodeOffline         Type = "node.offline"
	DefinitionApplied   Type = "definition.applied"
	DefinitionRemoved   Type = "definition.removed"
	QueuePaused         Type = "queue.paused"
	QueueResumed        Type = "queue.resumed"
	QueueLimited        Type = "queue.limited"
	QueuePurged         Type = "queue.purged"
	SchedulePaused      Type = "schedule.paused"
	ScheduleResumed     Type = "schedule.resumed"
	ScheduleFired       Type = "schedule.fired"
	ScheduleAdmitted    Type = "schedule.admitted"
	ScheduleSkipped     Type = "schedule.skipped"
	ScheduleQueued      Type = "schedule.queued"
	NodeChanged         Type = "node.changed"
	NodeLabelled        Type = "node.labelled"
	NodeQuarantined     Type = "node.quarantined"
	NodeReleased        Type = "node.released"
	NodeRetired         Type = "node.retired"
)

// Parts of Millrace that are named as actors.
const (
	PartScheduler = "scheduler" // what follows from other facts, and from time
	PartServer    = "server"    // copies of definitions that were set back
	PartWorker    = "worker"    // offers that are placed once more
)

// IsPart tells whether an actor is a part of Millrace. No user who asks the service is called so.
func IsPart(actor string) bool {
	return actor == PartScheduler || actor == PartServer || actor == PartWorker
}

// Version is the version of facts that is written; a fact that names none is of version 1. Types and fields are
// added without another one: docs/forms.md says what is not.
const Version = 1

// ErrLater refuses a fact of a later version than [Version].
var ErrLater = errors.New("use a newer millrace")

// Fact is one thing that has happened to a task, a node, a queue, a definition, the ticks of a schedule, the breaker of a
// job, the limits of a scope, the copies of definitions, a unique key or a message.
type Fact struct {
	// ID is a ULID, unique to the fact: who wrote it knows it again by that.
	ID string
	// At is when it happened, by the clock of who wrote it.
	At time.Time
	// Type follows from Event. It stands alone in a fact of a type that this version does not know.
	Type Type
	// Task, Node, Def, Job, Queue, Schedule, Key, Message or Scope is what the fact is about; the others
	// are empty. All are if it is about the copies of definitions.
	Task     task.ID
	Node     node.ID
	Def      definition.Def
	Job      string // whose breaker
	Queue    string
	Schedule string // whose ticks
	// Key is a unique key.
	Key string
	// Message is the sequence of a message in the log that nobody can read.
	Message uint64
	// Scope is whose limits admit.
	Scope limit.Scope
	// Actor is who wrote it, where that is not plain from the event: a node, a user or a part of
	// Millrace ([IsPart]).
	Actor string
	// Cause is the ID of the fact that led to this one and Corr that of the
	// first cause, where they are not plain from the chain.
	Cause, Corr string
	// By is what the decision that the fact records was made by; nil if it records none, or one that
	// follows from the history alone.
	By *task.By
	// Event is a [task.Event], a [node.Event], a [definition.DefinitionEvent], a [breaker.Event], a
	// [queue.Event], a [definition.ScheduleEvent], a [task.LimitEvent], a [definition.CopyEvent], a [task.KeyEvent] or a
	// [task.MessageEvent]; nil if the type is unknown.
	Event any
	// Extra holds the fields that this version does not know, so that they are not lost.
	Extra map[string]json.RawMessage
}

// About tells what the fact is about: the task's or the node's id, the definition, the name of the job, queue or schedule,
// the key, the sequence of a message, the scope of limits, or "copies".
func (f *Fact) About() string {
	s, _ := f.subject()
	switch s {
	case aboutTask:
		return string(f.Task)
	case aboutNode:
		return string(f.Node)
	case aboutDef:
		return string(f.Def)
	case aboutJob:
		return f.Job
	case aboutQueue:
		return f.Queue
	case aboutSchedule:
		return f.Schedule
	case aboutKey:
		return f.Key
	case aboutScope:
		return string(f.Scope)
	case aboutMessage:
		return strconv.FormatUint(f.Message, 10)
	}
	return "copies"
}

// subject is what the fact is about, and of how many things it says so.
func (f *Fact) subject() (s subject, several int) {
	for i, is := range [subjects]bool{
		aboutTask: f.Task != "", aboutNode: f.Node != "", aboutDef: f.Def != "", aboutJob: f.Job != "", aboutQueue: f.Queue != "",
		aboutSchedule: f.Schedule != "", aboutKey: f.Key != "", aboutMessage: f.Message != 0, aboutScope: f.Scope != "",
	} {
		if is {
			if several++; several == 1 {
				s = subject(i)
			}
		}
	}
	return s, several
}

// Kind says in which part of the log a record lies.
type Kind uint8

// The kinds of records.
const (
	// KindOther is a message in the log that is none of the following.
	KindOther Kind = iota
	// KindOffer makes a task runnable; the first one may be its birth.
	KindOffer
	// KindHold is the birth of a task that cannot run yet.
	KindHold
	// KindChain is a transition of a task.
	KindChain
	// KindNode is a transition of a node.
	KindNode
	// KindDefinition is a change of a definition.
	KindDefinition
	// KindQueue is what an operator has said about a queue.
	KindQueue
	// KindDead is what has become of a message that nobody can read.
	KindDead
	// KindBreaker is a transition of a job's breaker.
	KindBreaker
	// KindFire is a timer of a schedule that has fired.
	KindFire
	// KindTick is a decision on a tick of a schedule.
	KindTick
	// KindLimit is an admission by the limits.
	KindLimit
	// KindCopies tells of copies of definitions that were set back.
	KindCopies
	// KindKey is a claim of a unique key.
	KindKey
	// KindProbe is no fact: a node puts it on its own route, to see that what lies there reaches
	// it, and a process writes it to see that the log takes messages. Servers remove all but a
	// few. Only Place and Raw are set.
	KindProbe
)

// Record is a fact at its place in the log.
type Record struct {
	// Seq is its sequence, from 1, without order gaps that matter.
	Seq uint64
	// Stored is when the log took it.
	Stored time.Time
	Kind   Kind
	Fact   Fact
	// Place is where the log keeps it, in the log's own words (a subject).
	Place string
	// Raw is the message as it was stored.
	Raw []byte
	// Err is why the message could not be understood; Fact then holds at most what it is about.
	Err error
}

// IsFact tells whether the record is in a place of facts, readable or not.
func (r *Record) IsFact() bool { return r.Kind != KindOther && r.Kind != KindProbe }

// Unreadable says why nobody can read the message; "" if somebody can, or need not.
func (r *Record) Unreadable() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Kind == KindChain && r.Fact.Task == "":
		return "it lies on the chain of a task and is not about a task"
	}
	return ""
}

// Task returns the record as package task takes it.
func (r *Record) Task() task.Recorded {
	e, _ := r.Fact.Event.(task.Event)
	at := r.Fact.At
	if _, due := e.(task.Due); due {
		at = r.Stored // the fact was written when the timer was set
	}
	return task.Recorded{Seq: r.Seq, Chain: r.Kind == KindChain, At: at, Actor: r.Fact.Actor, Corr: r.Fact.Corr, Event: e}
}

// Node returns the record as package node takes it.
func (r *Record) Node() node.Recorded {
	e, _ := r.Fact.Event.(node.Event)
	return node.Recorded{Seq: r.Seq, At: r.Fact.At, Actor: r.Fact.Actor, Event: e}
}

// FoldTask adds up the records of one task, in the order of the log.
func FoldTask(id task.ID, records []Record) task.Task {
	t := task.Task{ID: id}
	for i := range records {
		t.Apply(records[i].Task())
	}
	return t
}

// FoldQueue adds up the records of one queue, in the order of the log.
func FoldQueue(name string, records []Record) queue.Queue {
	q := queue.Queue{Name: name}
	for i := range records {
		r := &records[i]
		e, _ := r.Fact.Event.(queue.Event)
		q = queue.Evolve(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
	}
	return q
}

// FoldNode adds up the records of one node, in the order of the log.
func FoldNode(id node.ID, records []Record) node.Node {
	n := node.Node{ID: id}
	for i := range records {
		n = node.Evolve(n, records[i].Node())
	}
	return n
}
