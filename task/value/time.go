package value

import "time"

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Earlier returns the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Clock returns a time as texts have it, to the second.
func Clock(t time.Time) string { return t.Format(time.RFC3339) }
