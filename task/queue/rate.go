package queue

import (
	"errors"

	"millrace/task/limit"
)

// The rate of a queue applies to all its tasks, including those offered before it was set. The
// worker that gets an offer therefore puts it back unless the rate has admitted it, and the limiter
// (package quota) places the next offer. An offer names the rate that admitted it by the sequence
// of the fact that set the rate. A rate that was set later must admit the task again.

// Rate is the rate of a queue as fetchers of offers know it. The zero value is no rate.
type Rate struct {
	Queue string
	// Since is the sequence of the fact that set it.
	Since uint64
}

// RateOf returns the rate of a queue for fetchers of its offers.
func RateOf(q *Queue) Rate {
	if q.Rate.Limit == 0 {
		return Rate{}
	}
	return Rate{Queue: q.Name, Since: q.RateSince}
}

// Counter is the name of the rate as a counter. A rate that is set anew starts with a full bucket,
// so it has a new name.
func (r Rate) Counter() string {
	return limit.QueueRateSince(r.Queue, r.Since)
}

// rated takes over a rate. An invalid one counts as none.
func (q *Queue) rated(r limit.Rate, seq uint64) {
	if validRate(r) != nil {
		r = limit.Rate{}
	}
	if r != q.Rate {
		q.Rate, q.RateSince = r, seq
	}
}

func validRate(r limit.Rate) error {
	switch {
	case r == limit.Rate{}:
		return nil
	case r.Key != "":
		return errors.New("rate.key is for jobs: the rate of a queue is one for all its tasks")
	}
	return r.Validate("rate")
}
