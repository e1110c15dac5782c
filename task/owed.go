package task

// Owed is what has to be durable for a task as it is, beside its own facts. It follows from the state alone, so
// whoever recorded a fact sees to the difference, and the sweep to what is missing.
type Owed struct {
	// Offer is whether the offer of its next turn is missing.
	Offer bool
	// Timer is whether a timer is to bring that.
	Timer bool
}

// Owed returns what is owed for the task. What is held is not offered: that follows when its holds open.
func (t *Task) Owed() Owed {
	offer := len(t.Holds) == 0 && (t.State == Scheduled || t.State == Retrying || t.State == Pending && !t.Offered)
	return Owed{Offer: offer, Timer: offer && !t.Due.IsZero()}
}

// Disarms tells whether a timer is to be removed once a task that owed was owes is. It spares the server a
// message: what a timer brings that is owed no more dies at its claim.
func Disarms(was, is Owed) bool { return was.Timer && !is.Timer }

// Hints tells whether the node that runs the task is to hear of an event at once. It looks by itself now and then.
func (t *Task) Hints(e Event) bool {
	_, stops := e.(CancelRequested)
	return stops && t.Epoch > 0 && t.Node != ""
}
