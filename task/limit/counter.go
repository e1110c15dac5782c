package limit

// Counter is one limit that a task stands under. Exactly one of Max, Allows and Rate is set.
type Counter struct {
	// Name is common to all tasks that share the limit: "job:<job>", "queue:<queue>" for what
	// runs without a job, "key:<job>/<key>", "rate:<job>" or "rate:<job>/<key>". A second rate
	// with the same key has its time behind an @. A budget is "budget:<period>:<job>" or "budget:<period>:<job>/<key>",
	// see [Budget]. The rate of a queue is "rate:queue:<queue>", and in the log
	// has the sequence of the fact that set it behind a #.
	Name string
	// Max is how many tasks may hold it at once.
	Max int
	// OnLimit is what becomes of the task if it has no place.
	OnLimit string
	// Allows is how much of a budget the task may find used up.
	Allows Allowance
	// Rate is how often it admits.
	Rate Rate
}

// Named finds the counter of a name, to be changed in its place; nil if there is none.
func Named(counters []Counter, name string) *Counter {
	for i := range counters {
		if counters[i].Name == name {
			return &counters[i]
		}
	}
	return nil
}

// Crowded tells whether a node that runs these attempts under a counter has no place for one more.
func (c Counter) Crowded(epochs []uint64) bool { return len(epochs) >= c.Max }
