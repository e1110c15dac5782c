package limit

import (
	"fmt"

	"millrace/task/value"
)

// A spec may bound how many of its tasks run on one node at a time: a choice, made by the node that is offered the task. It
// alone knows what it runs, at that moment and with no scheduler alive. What has no place there goes back for another node at once, a few
// times. If nobody takes it, the node that had it last postpones it, so that it holds up nothing that waits behind it.

// PerNode bounds how many tasks may run on one node at a time: of one job, or with a key of all that have the key's
// value in common.
type PerNode struct {
	// Max is how many, 1 or more. It is the task's own: a task starts where fewer than its Max of the same counter run.
	Max int `json:"max,omitempty"`
	// Key is as that of [Concurrency].
	Key string `json:"key,omitempty"`
}

// PerNodes are the bounds per node that a task stands under: it starts where all of them have a place for it. In JSON
// one of them may stand without the list.
type PerNodes []PerNode

// MarshalJSON writes a single one without the list.
func (p PerNodes) MarshalJSON() ([]byte, error) { return marshalFew(p) }

// UnmarshalJSON reads a list, or one without it; {} is an empty list.
func (p *PerNodes) UnmarshalJSON(data []byte) (err error) {
	*p, err = unmarshalFew[PerNode](data)
	return err
}

// perNodeField is the field of a job.
const perNodeField = "per_node"

// Validate refuses bounds that cannot be, and names the field of each.
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
