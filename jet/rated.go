package jet

import (
	"context"

	"millrace/task/queue"
)

// hear reads the operators' settings of the worker's queues. Their rates and windows hold for
// everything that their lanes deliver from now on: they are read before the first offer is asked
// for, again soon after a change, and at the latest after [lanesEvery].
func (o *offers) hear(ctx context.Context) (map[string]queue.Queue, error) {
	said := make(map[string]queue.Queue, len(o.queues))
	for _, name := range o.queues {
		q, err := o.store.queue(ctx, name)
		if err != nil {
			return nil, err
		}
		v, err := o.flowOf(ctx, &q)
		if err != nil {
			return nil, err
		}
		said[name] = q
		o.rate(name, queue.RateOf(&q))
		o.turned(name, v)
	}
	return said, nil
}

// rate records the rate of a queue; the zero value means none.
func (o *offers) rate(name string, r queue.Rate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rates == nil {
		o.rates = map[string]queue.Rate{}
	}
	o.rates[name] = r
	for _, s := range o.sources {
		if s.home == name {
			s.rate = r
		}
	}
}
