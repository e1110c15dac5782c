package task

// Throttled records that an offered task waits until the rate of its queue admits it. The offer
// becomes stale.
type Throttled struct {
	// Node is the node that got the offer.
	Node string `json:"node,omitzero" redact:"keep"`
	// Limit names the rate, as in [Grant].
	Limit string `json:"limit,omitzero" redact:"counter"`
}

func (Throttled) isEvent() {}

// RateQueue is the queue whose rate and window apply to the task; "" while it waits for a certain
// node, because nodes' own routes belong to no queue.
func (w *Work) RateQueue() string {
	if _, own := w.Route.Node(); own {
		return ""
	}
	if queue, _ := w.Asks(); queue == "" {
		return "" // the route of named nodes belongs to no queue either
	}
	return w.QueueName()
}

// Limited tells whether limits manage the task: its own limits, or the rate of its queue, which
// must admit it or has admitted it and waits for its start.
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

// unrate clears the admission by a queue's rate: another turn or another queue needs a new one.
func (t *Task) unrate() { t.Rated, t.Throttled = 0, false }
