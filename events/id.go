package events

import (
	"time"

	"github.com/oklog/ulid/v2"
)

// NewID returns a ULID of the given time. IDs made by one process grow, also
// within a millisecond. It is the one place where facts and tasks get their
// randomness; the core takes IDs as arguments.
func NewID(at time.Time) string {
	return ulid.MustNewDefault(at).String()
}
