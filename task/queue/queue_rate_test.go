package queue

import (
	"testing"

	"millrace/task/limit"
)

// The rate of a queue dates from the fact that changed it. An invalid one counts as none.
func TestQueueRateSince(t *testing.T) {
	t.Parallel()
	slow, wrong := limit.Rate{Limit: 1}, limit.Rate{Limit: 1, Burst: -1}
	q := Queue{Name: "q"}
	for i, c := range []struct {
		e     Limited
		rate  limit.Rate
		since uint64
	}{
		{Limited{Running: 3}, limit.Rate{}, 0},
		{Limited{Rate: slow}, slow, 2},
		{Limited{Rate: slow, Waiting: 7}, slow, 2},
		{Limited{Rate: wrong}, limit.Rate{}, 4},
		{Limited{Rate: limit.Rate{Limit: 1, Key: "a"}}, limit.Rate{}, 4},
		{Limited{Rate: slow}, slow, 6},
		{Limited{}, limit.Rate{}, 7},
	} {
		q = Evolve(q, uint64(i+1), noon, "ann", c.e)
		if q.Rate != c.rate || q.RateSince != c.since {
			t.Errorf("after %+v the rate is %+v since %d, want %+v since %d", c.e, q.Rate, q.RateSince, c.rate, c.since)
		}
	}
}
