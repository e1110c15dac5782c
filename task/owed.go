package task

import (
	"time"

	"millrace/task/value"
)

// Owed is what must be durable for a task in its present state, beside its own facts. It follows
// from the state alone, so the recorder of a fact can add what is newly owed, and the sweep can add
// what is missing.
type Owed struct {
	// Offer says that the offer of the next turn is missing.
	Offer bool
	// Timer says that a timer is to bring that offer.
	Timer bool
}

// Owed returns what is owed for the task. A held task is not offered: that follows when its holds
// open.
func (t *Task) Owed() Owed {
	offer := len(t.Holds) == 0 && (t.State == Scheduled || t.State == Retrying || t.State == Pending && !t.Offered)
	return Owed{Offer: offer, Timer: offer && !t.Due.IsZero()}
}

// NextOffer returns the offer that must be durable before the task's turn can continue: at Due if
// that is set, else at once. The second result is false if no offer is missing ([Task.Owed]).
// Placing an offer twice is harmless: the claim accepts only one.
func NextOffer(t *Task) (Queued, bool) {
	if !t.Owed().Offer {
		return Queued{}, false
	}
	return Queued{Work: t.Work, Attempt: t.Attempt + 1, After: t.Turn, Reason: t.QueuedFor(), Due: t.Due, Rated: t.Rated}, true
}

// mostPatience is the longest pause between two offers of one turn.
const mostPatience = time.Hour

// OfferAgainAfter is how long a sweep leaves a task alone whose offers have come to nothing, counted
// from the last of n offers of its turn: patience, and twice as long after each further one, up to
// an hour. So no fault at the server makes the log grow without end.
func OfferAgainAfter(n int, patience time.Duration) time.Duration {
	for ; n > 1 && patience < mostPatience; n-- {
		patience = min(2*patience, mostPatience)
	}
	return patience
}

// QueuedFor is why the task is offered, as a code.
func (t *Task) QueuedFor() string {
	if t.State == Pending && t.Attempt == 0 && t.Reason == "" && t.Message == "" {
		return value.Born
	}
	return t.Reason
}

// Renewed returns an offer to replace one that was handed out and is given back. It is for the same
// turn, and the claim accepts only one of the two. The second result is false if the event is not
// an offer.
func Renewed(offer Event) (Event, bool) {
	switch e := offer.(type) {
	case Submitted:
		return Queued{Work: e.Work, Attempt: 1}, true
	case Queued, Due:
		return e, true
	}
	return nil, false
}

// Disarms tells whether to remove a timer when what a task owes changes from was to is. It only
// spares the server a message: a timer that is no longer owed fails at its claim.
func Disarms(was, is Owed) bool { return was.Timer && !is.Timer }

// Hints tells whether to notify the node that runs the task of an event at once. The node also
// polls from time to time.
func (t *Task) Hints(e Event) bool {
	_, stops := e.(CancelRequested)
	return stops && t.Epoch > 0 && t.Node != ""
}
