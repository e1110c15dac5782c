package queue

import (
	"errors"

	"millrace/task/limit"
)

// A rate that operators have given to a queue holds for all its tasks, also for those that were offered
// before. So whoever is offered one puts it back unless the rate has admitted it, and the
// limiter (package quota) places the next offer. Which rate has admitted an offer is in the offer, as the sequence of the
// fact that set that rate: a rate that was set later has to admit it again.

// Rate is the rate of a queue as those know it who hand out offers. The zero value is none.
type Rate struct {
	Queue string
	// Since is the sequence of the fact that set it.
	Since uint64
}

// RateOf is the rate of a queue for those who hand out its offers.
func RateOf(q *Queue) Rate {
	if q.Rate.Limit == 0 {
		return Rate{}
	}
	return Rate{Queue: q.Name, Since: q.RateSince}
}

// Counter is the name of the rate as a counter. A rate that is set anew begins untouched, so it is another one.
func (r Rate) Counter() string {
	return limit.QueueRateSince(r.Queue, r.Since)
}

// rated takes over a rate. One that cannot be is none.
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
