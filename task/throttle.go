package task

// Throttled says that a task which was offered waits until the rate of its queue admits it. The offer is
// stale from then on.
type Throttled struct {
	// Node is who was offered it.
	Node string `json:"node,omitzero"`
	// Limit names the rate, as in [Grant].
	Limit string `json:"limit,omitzero"`
}

func (Throttled) isEvent() {}

// RateQueue is the queue whose rate and window hold for the task; "" while it waits for a certain node, for the
// routes of nodes belong to no queue.
func (w *Work) RateQueue() string {
	if _, own := w.Route.Node(); own {
		return ""
	}
	if queue, _ := w.Asks(); queue == "" {
		return "" // nor is the route of nodes that are named of any
	}
	return w.QueueName()
}

// Throttles tells whether a claim is not to start the task, because the rate of the queue from
// which the offer came has not admitted it in this turn.
func (t *Task) Throttles(c Claim) bool {
	return c.Rate.Since > t.Rated && t.Waiting() && c.After == t.Turn && c.Rate.Queue == t.RateQueue()
}

// Limited tells whether limits look after the task: its own, or the rate of its queue, which has to admit it
// or has and waits for its start.
func (t *Task) Limited() bool {
	return t.Throttled || t.Spec.Limited() || t.Rated > 0 && t.State == Pending
}

func (t *Task) throttled(r Recorded) {
	if !t.Waiting() || t.State == Unknown {
		return
	}
	// The bounds on the wait stay.
	t.enter(Held, HoldLimit, "the rate of its queue has to admit it", r)
	t.Holds, t.Throttled = onlyLimit, true
	t.Turn, t.Offered = r.Seq, false
}

// unrate forgets what the rate of a queue has said: another turn, or another queue, asks it anew.
func (t *Task) unrate() { t.Rated, t.Throttled = 0, false }
