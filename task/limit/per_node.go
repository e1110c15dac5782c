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

// PerNodes are the per-node bounds of a task: it starts where all of them have a place. In JSON a
// single one may stand without the list.
type PerNodes []PerNode

// MarshalJSON writes a single one without the list.
func (p PerNodes) MarshalJSON() ([]byte, error) { return marshalFew(p) }

// UnmarshalJSON reads a list, or a single one without it; {} is an empty list.
func (p *PerNodes) UnmarshalJSON(data []byte) (err error) {
	*p, err = unmarshalFew[PerNode](data)
	return err
}

// perNodeField is the field of a job.
const perNodeField = "per_node"

// Validate refuses invalid bounds, and names the field of each.
func (p PerNodes) Validate() error {
	if len(p) > MaxEntries {
		return fmt.Errorf("%s has %d entries, want at most %d", perNodeField, len(p), MaxEntries)
	}
	var all error
	for i, one := range p {
		field := EntryName(perNodeField, i, len(p))
		switch {
		case one.Max < 0:
			all = value.JoinFaults(all, fmt.Errorf("%s.max is %d, want 1 or more", field, one.Max))
		case one.Max == 0:
			all = value.JoinFaults(all, fmt.Errorf("%s.max is missing: how many may run on one node", field))
		}
		all = value.JoinFaults(all, ValidKey(field+".key", one.Key))
	}
	return all
}
