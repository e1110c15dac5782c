package task

import (
	"encoding/json"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// Task is the sum of the facts about a task, as [Evolve] makes it. Its JSON form
// is what the command line and the API show; fields may be added to it.
type Task struct {
	ID    ID    `json:"id"`
	State State `json:"state"`
	// Reason is the code beside the state: why it failed, why it ended.
	Reason string `json:"reason,omitzero"`
	// Message is the reason in words.
	Message string `json:"message,omitzero"`
	Work

	// RetryOf is the task of which this one is a copy.
	RetryOf ID `json:"retry_of,omitzero"`
	// Batch is the bulk command that touched it last.
	Batch string `json:"batch,omitzero"`

	// Attempt is the number of the current or latest attempt; 0 before the first.
	Attempt int `json:"attempt,omitzero"`
	// Epoch is the sequence at which that attempt started. It only grows, so it
	// fences: what an older epoch says no longer counts.
	Epoch uint64 `json:"epoch,omitzero"`
	// Offer is the sequence of the offer under which that attempt holds its lease.
	Offer uint64 `json:"offer,omitzero"`
	// Node and Session name who runs or last ran it.
	Node    string `json:"node,omitzero"`
	Session string `json:"session,omitzero"`

	// Head is the sequence of the last message on the task's chain, 0 for none:
	// what the next write to the chain must expect.
	Head uint64 `json:"head,omitzero"`
	// Turn is the sequence of the fact since which the task waits for its next
	// attempt, 0 since its birth. An offer is good for one turn.
	Turn uint64 `json:"turn,omitzero"`
	// Offered is whether an offer for this turn has been seen.
	Offered bool `json:"offered,omitzero"`
	// Throttled is whether the task waits for the rate of its queue, which somebody was not to start it without.
	Throttled bool `json:"throttled,omitzero"`
	// Rated says which rate of its queue has admitted it in this turn: the sequence of the fact that
	// set that rate, 0 for none.
	Rated uint64 `json:"rated,omitzero"`
	// Seq is the sequence of the last message applied.
	Seq uint64 `json:"seq"`

	// Failures and Losses count attempts that failed and that lost their node,
	// since the birth or the last reopening.
	Failures int `json:"failures,omitzero"`
	Losses   int `json:"losses,omitzero"`
	// FailedOn is the node of the last failure since then, and Begun when the first attempt
	// since then started, which is only kept if the task has a retry budget.
	FailedOn string `json:"failed_on,omitzero"`
	// Avoids are the nodes on which attempts have failed since then, the latest last, if the task's
	// policy is to avoid those. At most [where.MaxValues].
	Avoids []string  `json:"avoids,omitempty"`
	Begun  time.Time `json:"begun,omitzero"`
	// Handed says that it was left to nodes that it prefers, since its turn began; nil if it was not.
	Handed *Handed `json:"handed,omitzero"`
	// Late counts results that came from fenced attempts.
	Late int `json:"late,omitzero"`
	// Dismissed says who took the task off the list of dead letters; nil if nobody has.
	Dismissed *Dismissal `json:"dismissed,omitzero"`

	SubmittedAt time.Time `json:"submitted_at,omitzero"`
	// Due is when the next attempt may start; zero for at once.
	Due time.Time `json:"due,omitzero"`
	// Since is when the present state began.
	Since time.Time `json:"since,omitzero"`
	// StartedAt is of the current or latest attempt.
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Ran is how long the latest attempt of this life ran, of a parent how long its children took. 0 while it
	// runs, and if there was none since the task was reopened: such a task may end without an attempt.
	Ran value.Duration `json:"ran,omitzero"`
	// Extended is when the run timeout passes, if the program has asked for more time.
	Extended time.Time `json:"extended,omitzero"`
	// CancelBy is when a cancelling task must be gone.
	CancelBy time.Time `json:"cancel_by,omitzero"`

	// Rivals are other births under the task's id, until the first fact on its chain says which counts.
	Rivals []Rival `json:"rivals,omitzero"`

	// Children are those of a parent; nil before it was expanded, and of any other task.
	Children *Children `json:"children,omitzero"`

	Exit   *int            `json:"exit,omitzero"`
	Result json.RawMessage `json:"result,omitzero" form:"null"`
	Usage  *Usage          `json:"usage,omitzero"`
}

// Waiting tells whether the task may still be started by an offer.
func (t *Task) Waiting() bool {
	switch t.State {
	case Unknown, Scheduled, Held, Pending, Retrying:
		return true
	}
	return false
}

// Live tells whether an attempt runs, as far as the log knows.
func (t *Task) Live() bool { return t.State == Running || t.State == Cancelling }

// Kept is what the task's spec says of it.
func (t *Task) Kept() job.Keep {
	if t.Spec == nil {
		return job.Keep{}
	}
	return t.Spec.Keep
}
