package task

import (
	"encoding/json"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// Task is the sum of the facts about a task, as [Evolve] makes it. The command line and the API
// show its JSON form; fields may be added to it.
type Task struct {
	// ID names the task, and State is where it is on its way.
	ID    ID    `json:"id" redact:"keep"`
	State State `json:"state"`
	// Reason is the code beside the state: why it failed, why it ended.
	Reason string `json:"reason,omitzero" redact:"word"`
	// Message is the reason in words.
	Message string `json:"message,omitzero" redact:"hide"`
	Work

	// RetryOf is the task of which this one is a copy.
	RetryOf ID `json:"retry_of,omitzero" redact:"keep"`
	// Batch is the last bulk command that changed it.
	Batch string `json:"batch,omitzero" redact:"keep"`

	// Collapsed is how many further submissions it stands for, Collected how many bytes their parameters have, and
	// CollapsedOf are the ids that they gave their tasks.
	Collapsed   int  `json:"collapsed,omitzero"`
	Collected   int  `json:"collected,omitzero"`
	CollapsedOf []ID `json:"collapsed_of,omitempty" redact:"keep"`

	// Attempt is the number of the current or latest attempt; 0 before the first.
	Attempt int `json:"attempt,omitzero"`
	// Epoch is the sequence at which that attempt started. It only grows and so fences older
	// attempts: reports of an older epoch do not count.
	Epoch uint64 `json:"epoch,omitzero"`
	// Offer is the sequence of the offer under which that attempt holds its lease.
	Offer uint64 `json:"offer,omitzero"`
	// Node and Session name the worker that runs it or ran it last.
	Node    string `json:"node,omitzero" redact:"keep"`
	Session string `json:"session,omitzero" redact:"keep"`

	// Head is the sequence of the last message on the task's chain, 0 for none. The next write to
	// the chain must expect it.
	Head uint64 `json:"head,omitzero"`
	// Turn is the sequence of the fact since which the task waits for its next attempt, 0 since its
	// birth. An offer is valid for one turn.
	Turn uint64 `json:"turn,omitzero"`
	// Offered says that the log has an offer for this turn.
	Offered bool `json:"offered,omitzero"`
	// Throttled says that the task waits for the rate of its queue, which refused its start.
	Throttled bool `json:"throttled,omitzero"`
	// Rated is the sequence of the fact that set the queue's rate under which the task was admitted
	// in this turn; 0 for none.
	Rated uint64 `json:"rated,omitzero"`
	// Seq is the sequence of the last message applied.
	Seq uint64 `json:"seq"`

	// Failures and Losses count attempts that failed and that lost their node,
	// since the birth or the last reopening.
	Failures int `json:"failures,omitzero"`
	Losses   int `json:"losses,omitzero"`
	// FailedOn is the node of the last failure since then.
	FailedOn string `json:"failed_on,omitzero" redact:"keep"`
	// Avoids are the nodes on which attempts have failed since then, the latest last, if the task's
	// policy is to avoid those. At most [placement.MaxValues].
	Avoids []string `json:"avoids,omitempty" redact:"keep"`
	// Begun is when the first attempt since then started, kept only if the task has a retry budget.
	Begun time.Time `json:"begun,omitzero"`
	// Handed says that the task was left to preferred nodes in this turn; nil if it was not.
	Handed *Handed `json:"handed,omitzero"`
	// Late counts reports of fenced attempts.
	Late int `json:"late,omitzero"`
	// Dismissed records who took the task off the list of dead letters; nil if it was not
	// dismissed.
	Dismissed *Dismissal `json:"dismissed,omitzero"`

	// CancelAsked records who asked for its end in this life; nil if nobody did.
	CancelAsked *CancelAsked `json:"cancel_asked,omitzero"`

	// SubmittedAt is when the log took its birth.
	SubmittedAt time.Time `json:"submitted_at,omitzero"`
	// Due is when the next attempt may start; zero for at once.
	Due time.Time `json:"due,omitzero"`
	// Since is when the present state began.
	Since time.Time `json:"since,omitzero"`
	// StartedAt is of the current or latest attempt.
	StartedAt time.Time `json:"started_at,omitzero"`
	// EndedAt is when it ended; zero while it is open.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Ran is how long the latest attempt of this life ran; for a parent, how long its children
	// took. 0 while it runs, and if there was no attempt since the task was reopened, which may end
	// without one.
	Ran value.Duration `json:"ran,omitzero"`
	// Extended is the run timeout's time, if the program has asked for more time.
	Extended time.Time `json:"extended,omitzero"`
	// CancelBy is when a cancelling task must have ended.
	CancelBy time.Time `json:"cancel_by,omitzero"`

	// Rivals are other births under the task's id, until the first fact on its chain decides which
	// counts.
	Rivals []Rival `json:"rivals,omitzero"`

	// Life is the sequence of the fact by which the task was last reopened; 0 in its first life.
	Life uint64 `json:"life,omitzero"`
	// EndSeq is the sequence of the fact by which it ended, kept only for tasks with a parent; 0
	// while it is open.
	EndSeq uint64 `json:"end_seq,omitzero"`
	// Again says which of its children a reopened parent reopens, as [Reopened.Again] has it.
	Again string `json:"again,omitzero" redact:"keep"`

	// Durable is what its function has done for good; nil for a function without such steps.
	Durable *Durable `json:"durable,omitzero"`

	// Children are the children of a parent; nil before it was expanded, and for any other task.
	Children *Children `json:"children,omitzero"`

	// Exit is the exit code of its program, Result what the program returned, and Usage what its last
	// attempt used.
	Exit   *int            `json:"exit,omitzero"`
	Result json.RawMessage `json:"result,omitzero" form:"null" redact:"drop"`
	Usage  *Usage          `json:"usage,omitzero"`

	// Carry is a fact that the next one on the chain may make the task ([Kept]); nil for none. The two
	// lie directly behind each other, so no stored state of a task needs it.
	Carry *Carriage `json:"-"`
}

// Waiting tells whether the task may still be started by an offer.
func (t *Task) Waiting() bool {
	switch t.State {
	case Unknown, Scheduled, Held, Pending, Retrying:
		return true
	}
	return false
}

// CancelAsked records that somebody asked for the end of a task.
type CancelAsked struct {
	// By is who did: a person, a program, or a scheduler, of a child whose parent was to end. Reason is
	// what it said.
	By     string `json:"by,omitzero" redact:"actor"`
	Reason string `json:"reason,omitzero" redact:"hide"`
}

// Live tells whether by the log an attempt runs.
func (t *Task) Live() bool { return t.State == Running || t.State == Cancelling }

// Kept returns the keep section of the task's spec.
func (t *Task) Kept() job.Keep {
	if t.Spec == nil {
		return job.Keep{}
	}
	return t.Spec.Keep
}
