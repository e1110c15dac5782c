package limit

import (
	"fmt"

	"millrace/task/value"
)

// A spec may bound how many of its tasks run on one node at a time. The node that gets the offer
// decides: only it knows what it runs at that moment, and no scheduler needs to be alive. Without a
// place it returns the offer for another node at once, a few times. If no node takes it, the last
// one postpones the task, so that it holds up nothing behind it.

// PerNode bounds how many tasks may run on one node at a time: tasks of one job, or tasks that
// share the value of a key.
type PerNode struct {
	// Max is how many, 1 or more. Each task uses its own: it starts on a node that runs fewer than
	// its Max tasks of the same counter.
	Max int `json:"max,omitempty"`
	// Key splits the bound like that of [Concurrency].
	Key string `json:"key,omitempty" redact:"template"`
}

// Validate refuses an invalid bound, in a field of this name.
func (p PerNode) Validate(field string) error {
	var all error
	switch {
	case p.Max < 0:
		all = fmt.Errorf("%s.max is %d, want 1 or more", field, p.Max)
	case p.Max == 0:
		all = fmt.Errorf("%s.max is missing: how many may run on one node", field)
	}
	return value.JoinFaults(all, ValidKey(field+".key", p.Key))
}

func (p PerNode) key() string { return p.Key }
