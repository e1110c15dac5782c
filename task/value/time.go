package value

import "time"

func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func Clock(t time.Time) string { return t.Format(time.RFC3339) }
