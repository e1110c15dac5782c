package limit

// Counter is one limit of a task. Exactly one of Max, Allows and Rate is set.
type Counter struct {
	// Name is common to all tasks that share the limit: "job:<job>", "queue:<queue>" for tasks
	// without a job, "key:<job>/<key>", "rate:<job>" or "rate:<job>/<key>". A second rate with the
	// same key has its period after an @. A budget is "budget:<period>:<job>" or
	// "budget:<period>:<job>/<key>", see [Budget]. The rate of a queue is "rate:queue:<queue>"; in
	// the log the sequence of the fact that set it follows after a #.
	Name string `json:"name"`
	// Max is how many tasks may hold a place at once.
	Max int `json:"max,omitempty"`
	// OnLimit is what happens to the task if there is no place.
	OnLimit string `json:"on_limit,omitempty"`
	// Allows is the budget's allowance for the task.
	Allows Allowance `json:"allows,omitzero"`
	// Rate is how often it admits a task.
	Rate Rate `json:"rate,omitzero"`
}

// Named finds the counter with a name, for changes in place; nil if there is none.
func Named(counters []Counter, name string) *Counter {
	for i := range counters {
		if counters[i].Name == name {
			return &counters[i]
		}
	}
	return nil
}

// Crowded tells whether a node that runs these attempts under a counter has no place for another.
func (c Counter) Crowded(epochs []uint64) bool { return len(epochs) >= c.Max }
