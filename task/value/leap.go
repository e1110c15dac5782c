package value

import "time"

// Leap is a leap ahead of the clock by which the log stores its messages. The zero value is none.
//
// Between a message from before a leap and the present less time has passed than the stamps say. By
// the stamps alone, everything that must be renewed would be outdated at the leap: all nodes would be
// dead, and all leases over.
type Leap struct {
	// Until is when the leap was seen, as the clock had gone until then: what was stored at that time
	// or before has its stamp from before the leap.
	Until time.Time
	// By is how far ahead the clock leapt.
	By time.Duration
}

// Since returns the time now by the clock that stamped a message: without the leap if it was stored
// before that.
func (l Leap) Since(stored, now time.Time) time.Time {
	if l.By <= 0 || stored.After(l.Until) {
		return now
	}
	return Later(now.Add(-l.By), stored)
}
