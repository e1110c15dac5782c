package task

import (
	"errors"

	"millrace/task/limit"
)

// A rate that operators have given to a queue holds for all its tasks, also for those that were offered
// before. So whoever is offered one puts it back ([Throttled]) unless the rate has admitted it, and the
// limiter (package quota) places the next offer. Which rate has admitted an offer is in the offer, as the sequence of the
// fact that set that rate ([Queued.Rated]): a rate that was set later has to admit it again.

// QueueRate is the rate of a queue as those know it who hand out offers. The zero value is none.
type QueueRate struct {
	Queue string
	// Since is the sequence of the fact that set it.
	Since uint64
}

// RateOf is the rate of a queue for those who hand out its offers.
func RateOf(q *Queue) QueueRate {
	if q.Rate.Limit == 0 {
		return QueueRate{}
	}
	return QueueRate{Queue: q.Name, Since: q.RateSince}
}

// Throttled says that a task which was offered waits until the rate of its queue admits it. The offer is
// stale from then on.
type Throttled struct {
	// Node is who was offered it.
	Node string `json:"node,omitzero"`
	// Limit names the rate, as in [Grant].
	Limit string `json:"limit,omitzero"`
}

func (Throttled) isEvent() {}

// Counter is the name of the rate as a counter. A rate that is set anew begins untouched, so it is another one.
func (r QueueRate) Counter() string {
	return limit.QueueRateSince(r.Queue, r.Since)
}

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

// rated takes over a rate. One that cannot be is none.
func (q *Queue) rated(r limit.Rate, seq uint64) {
	if validQueueRate(r) != nil {
		r = limit.Rate{}
	}
	if r != q.Rate {
		q.Rate, q.RateSince = r, seq
	}
}

func validQueueRate(r limit.Rate) error {
	switch {
	case r == limit.Rate{}:
		return nil
	case r.Key != "":
		return errors.New("rate.key is for jobs: the rate of a queue is one for all its tasks")
	}
	return r.Validate("rate")
}
