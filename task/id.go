package task

import (
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"
)

// ID names a task: a ULID in its text form of 26 characters, upper case.
type ID string

// ParseID accepts a ULID in either case. An ID is one token of a subject, so
// nothing else may pass.
func ParseID(s string) (ID, error) {
	u := strings.ToUpper(s)
	if _, err := ulid.ParseStrict(u); err != nil {
		return "", fmt.Errorf("%q is no task id: want a ULID of 26 characters, for example 01JD6Z8V3M0QK4T7W2X9Y5ABCD", s)
	}
	return ID(u), nil
}
