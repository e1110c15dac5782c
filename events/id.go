package events

import (
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/task"
)

// NewID returns a ULID of the given time. IDs made by one process grow, also
// within a millisecond. It is the one place where facts and tasks get their
// randomness; the core takes IDs as arguments. None looks like one that follows from something
// else ([task.ID.Derived]).
func NewID(at time.Time) string {
	for {
		if id := ulid.MustNewDefault(at).String(); !task.ID(id).Derived() {
			return id
		}
	}
}
