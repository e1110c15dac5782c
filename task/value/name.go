package value

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// ValidName refuses a name (of a queue, a job or a node; what says which) that
// cannot be one token of a subject: 1 to 64 letters, digits, _ or -, not
// beginning with -.
func ValidName(what, s string) error {
	if !isName(s) {
		return fmt.Errorf("%s name %q: want 1 to 64 letters, digits, '_' or '-', not beginning with '-'", what, s)
	}
	return nil
}

// isName is by hand because each offer that is read or written asks.
func isName(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// Mark is what stands for a unique key where only plain characters may: 32 of them.
func Mark(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// A spec may name a window: the calendar in whose hours its tasks start. That is a condition, and no order among tasks: each waits
// until its window opens as one with a due time does, by a timer, so nobody has to be up but the NATS server.
// Package schedule has the calendars, and what they say to a task.

// ValidWindow refuses the name of a calendar that can be none.
func ValidWindow(field, name string) error {
	return Under(field+": ", ValidName("calendar", name))
}
