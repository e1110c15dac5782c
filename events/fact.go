package events

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
)

// TypeHeader is the message header that repeats the type of a fact, so that a
// reader can filter without parsing.
const TypeHeader = "Mr-Type"

// Type is the type of a fact.
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
	AttemptStepped      Type = "attempt.stepped"
	AttemptParked       Type = "attempt.parked"
	TaskCancelRequested Type = "task.cancel_requested"
	TaskCancelled       Type = "task.cancelled"
	TaskAbnormal        Type = "task.abnormal"
	TaskReassigned      Type = "task.reassigned"
	TaskPostponed       Type = "task.postponed"
	TaskCollapsed       Type = "task.collapsed"
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
	TaskCarried         Type = "task.carried"
	TaskKept            Type = "task.kept"
	NodeCarried         Type = "node.carried"
	QueueCarried        Type = "queue.carried"
	DefinitionCarried   Type = "definition.carried"
	HorizonChosen       Type = "horizon.chosen"
	HorizonSealed       Type = "horizon.sealed"
	HorizonCarried      Type = "horizon.carried"
	HorizonPurged       Type = "horizon.purged"
	ArchiveRemoved      Type = "archive.removed"
	JobTallied          Type = "job.tallied"
)

// Parts of Millrace that are actors.
const (
	PartScheduler = "scheduler" // facts that follow from other facts, and from time
	PartServer    = "server"    // restored copies of definitions
	PartWorker    = "worker"    // offers placed again
)

// IsPart tells whether an actor is a part of Millrace. No user of the service may have such a name.
func IsPart(actor string) bool {
	return actor == PartScheduler || actor == PartServer || actor == PartWorker
}

// Version is the version in which facts are written. A fact without a version has version 1. New
// types and fields do not need a new version; docs/forms.md says which changes do.
const Version = 1

// ErrLater refuses a fact of a later version than [Version].
var ErrLater = errors.New("use a newer millrace")

// Fact is one event in the life of a task, a node, a queue, a definition, the ticks of a schedule,
// the breaker of a job, its forgotten tasks, the limits of a scope, the copies of definitions, a
// unique key, a message or the horizon of the log.
type Fact struct {
	// ID is a ULID, unique to the fact. The writer recognizes its fact by it.
	ID string `redact:"keep"`
	// At is when the event happened, by the writer's clock.
	At time.Time
	// Type follows from Event. In a fact of an unknown type, only Type is set.
	Type Type `redact:"keep"`
	// Task, Node, Def, Job, Queue, Schedule, Key, Message or Scope is the subject of the fact; the
	// others are empty. All are empty if the subject is the copies of definitions.
	Task     task.ID  `redact:"keep"`
	Node     node.ID  `redact:"keep"`
	Def      task.Def `redact:"keep"`
	Job      string   `redact:"keep"` // the breaker's job
	Queue    string   `redact:"keep"`
	Schedule string   `redact:"keep"` // the ticks' schedule
	// Key is a unique key.
	Key string `redact:"hashedKey"`
	// Message is the sequence of an unreadable message in the log.
	Message uint64
	// Scope is the scope whose limits admit.
	Scope limit.Scope `redact:"keep"`
	// Actor is the writer, where that is not plain from the event: a node, a user or a part of
	// Millrace ([IsPart]).
	Actor string `redact:"actor"`
	// Cause is the ID of the fact that led to this one and Corr that of the
	// first cause, where they are not plain from the chain.
	Cause string `redact:"keep"`
	Corr  string `redact:"keep"`
	// Repeats is the sequence of the fact that this one repeats, because the log is about to forget
	// that one; 0 for none. Id, time and actor are those of the original. It is the same fact: only the
	// end of its chain has moved. Of an admission by limits it is the last one that this one sums up.
	Repeats uint64
	// By holds the inputs of the recorded decision; nil if the fact records none, or one that
	// follows from the history alone.
	By *task.By
	// Event is a [task.Event], a [node.Event], a [task.DefinitionEvent], a [limit.CircuitEvent], a
	// [queue.Event], a [task.ScheduleEvent], a [task.LimitEvent], a [task.CopyEvent], a [birth.KeyEvent], a
	// [task.MessageEvent], a [task.HorizonEvent], a [task.TallyEvent] or a [task.CarriedEvent]; nil if the
	// type is unknown.
	Event any
	// Extra holds the fields that this version does not know, so that they are not lost.
	Extra map[string]json.RawMessage `redact:"drop"`
}

// About returns the subject of the fact: the id of a task or node, a definition, the name of a job,
// queue or schedule, a key, the sequence of a message, a scope of limits, "horizon" or "copies".
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
	if _, ok := f.Event.(task.HorizonEvent); ok {
		return "horizon"
	}
	return "copies"
}

// subject returns the kind of the fact's subject, and how many subjects are set.
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

// Kind is the part of the log in which a record lies.
type Kind uint8

// The kinds of records.
const (
	// KindOther is any other message in the log.
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
	// KindQueue is a setting of a queue by an operator.
	KindQueue
	// KindDead is a fact about an unreadable message.
	KindDead
	// KindBreaker is a transition of a job's breaker.
	KindBreaker
	// KindFire is a timer of a schedule that has fired.
	KindFire
	// KindTick is a decision on a tick of a schedule.
	KindTick
	// KindLimit is an admission by the limits.
	KindLimit
	// KindCopies is a fact about restored copies of definitions.
	KindCopies
	// KindKey is a claim of a unique key.
	KindKey
	// KindHorizon is a step of the log's horizon.
	KindHorizon
	// KindCarried keeps what the log forgets, beside a chain: of a task, with a [task.Kept] on its
	// chain directly behind it, or an earlier change of a definition.
	KindCarried
	// KindTally sums up the forgotten tasks of a job.
	KindTally
	// KindProbe is not a fact. A node sends it to its own route to check that messages there reach
	// it, and a process writes it to check that the log accepts messages. Servers remove all but a
	// few. Only Place and Raw are set.
	KindProbe
)

// Record is a fact at its place in the log.
type Record struct {
	// Seq is its sequence, from 1, without order gaps that matter.
	Seq uint64
	// Stored is when the log stored it.
	Stored time.Time
	Kind   Kind
	Fact   Fact
	// Place is where the log keeps it, in the log's own words (a subject).
	Place string
	// Raw is the message as it was stored.
	Raw []byte
	// Err is why the message is unreadable. Fact then holds at most its subject.
	Err error
}

// IsFact tells whether the record lies where facts do, readable or not.
func (r *Record) IsFact() bool { return r.Kind != KindOther && r.Kind != KindProbe }

// Readable tells whether this version can read the record as a fact.
func (r *Record) Readable() bool { return r.Err == nil && r.Fact.Event != nil }

// Original is the sequence of the fact that the record repeats, else its own.
func (r *Record) Original() uint64 { return cmp.Or(r.Fact.Repeats, r.Seq) }

// LastReadable returns the last of the records that is readable; the zero record if none is.
func LastReadable(records []Record) Record {
	for _, r := range slices.Backward(records) {
		if r.Readable() {
			return r
		}
	}
	return Record{}
}

// Unreadable says why the message cannot be read; "" if it can, or need not be.
func (r *Record) Unreadable() string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Kind == KindChain && r.Fact.Task == "":
		return "it lies on the chain of a task and is not about a task"
	}
	return ""
}

// Route is the route of an offer; "" if the record is none, or is unreadable.
func (r *Record) Route() placement.Route {
	switch e := r.Fact.Event.(type) {
	case task.Submitted:
		return e.Route
	case task.Queued:
		return e.Route
	case task.Due:
		return e.Route
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
	return task.Recorded{Seq: r.Seq, Chain: r.Kind == KindChain, At: at, Stored: r.Stored, Actor: r.Fact.Actor, Corr: r.Fact.Corr, Event: e}
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

// Offered counts the offers among a task's records for one of its turns, and returns when the last one
// was stored.
func Offered(records []Record, turn uint64) (n int, last time.Time) {
	for i := range records {
		r := &records[i]
		var after uint64
		switch e := r.Fact.Event.(type) {
		case task.Kept: // offers before it count there, too
			if c, ok := keptAt(records, i); ok {
				n, last = 0, time.Time{}
				if c.Fold.Turn == turn {
					n, last = c.Offers, c.OfferedAt
				}
			}
			continue
		case task.Submitted: // the first turn
		case task.Queued:
			after = e.After
		case task.Due:
			after = e.After
		default:
			continue
		}
		if r.Kind == KindOffer && after == turn {
			n, last = n+1, r.Stored
		}
	}
	return n, last
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

// NewID returns a ULID of the given time. The IDs of one process grow, even within a millisecond.
// Facts and tasks get their randomness only here; the core takes IDs as arguments. No ID looks like
// a derived one ([task.ID.Derived]).
func NewID(at time.Time) string {
	for {
		if id := ulid.MustNewDefault(at).String(); !task.ID(id).Derived() {
			return id
		}
	}
}
