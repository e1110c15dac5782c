package limit

import (
	"time"

	"millrace/task/value"
)

// Bucket is the used part of a rate: the time at which it will be unused again (the theoretical
// arrival time of the generic cell rate algorithm). The zero value is unused.
type Bucket time.Time

// Opens is when the bucket admits the next one.
func (b Bucket) Opens(r Rate) time.Time {
	if time.Time(b).IsZero() {
		return time.Time{}
	}
	spare := time.Duration(max(r.Burst, 1)-1) * r.Every()
	return time.Time(b).Add(-spare)
}

// Left is how many tasks the bucket would admit now.
func (b Bucket) Left(r Rate, now time.Time) int {
	if r.Every() <= 0 {
		return 0
	}
	full := max(r.Burst, 1)
	opens := b.Opens(r)
	if opens.After(now) {
		return 0
	}
	if time.Time(b).IsZero() {
		return full
	}
	return min(full, 1+int(now.Sub(opens)/r.Every()))
}

// Take returns the bucket after one admission.
func (b Bucket) Take(r Rate, now time.Time) Bucket {
	return Bucket(value.Later(now, time.Time(b)).Add(r.Every()))
}

// Pause returns the bucket so that it admits nothing before a time.
func (b Bucket) Pause(r Rate, until time.Time) Bucket {
	spare := time.Duration(max(r.Burst, 1)-1) * r.Every()
	return Bucket(value.Later(until.Add(spare), time.Time(b)))
}
