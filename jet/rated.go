package jet

import "millrace/task"

// rate notes the rate of a queue, for the offers that its lanes bring from now on; the zero value is none.
// It is known before the first is asked for, then soon after somebody says so, and at the latest after
// [lanesEvery].
func (o *offers) rate(queue string, r task.QueueRate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rates == nil {
		o.rates = map[string]task.QueueRate{}
	}
	o.rates[queue] = r
	for _, s := range o.sources {
		if s.home == queue {
			s.rate = r
		}
	}
}
