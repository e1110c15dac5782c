package events

import (
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/task"
)

// NewID returns a ULID of the given time. The IDs of one process grow, even within a millisecond.
// Facts and tasks get their randomness only here; the core takes IDs as arguments. No ID looks like
// a derived one ([task.ID.Derived]).
func NewID(at time.Time) string {
	for {
		if id := ulid.MustNewDefault(at).String(); !task.ID(id).Derived() {
			return id
		}
	}
}
