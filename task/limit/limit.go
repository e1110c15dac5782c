package limit

import (
	"fmt"
	"slices"
	"time"

	"millrace/task/value"
)

// Concurrency bounds how many tasks may be under way at once: tasks of one job, or tasks that share
// the value of a key.
type Concurrency struct {
	// Max is how many, 1 or more. Each task uses its own: it starts while fewer than its Max tasks
	// of the same counter are under way, whatever their Max is.
	Max int `json:"max,omitempty"`
	// Key splits the bound: each value has its own count. {params.NAME} and {labels.NAME} stand for
	// the task's values, {queue} for its queue. All jobs share a key that begins with /. Default:
	// one bound per job, or per queue for tasks without a job.
	Key string `json:"key,omitempty" redact:"template"`
	// OnLimit is what happens to a task without a place: [Wait], the default, [Skip], [CancelOld]
	// or [Fail]. A task that returns for another attempt always waits.
	OnLimit string `json:"on_limit,omitempty" redact:"word" words:"wait,skip,cancel_old,fail"`
}

// Values of [Concurrency.OnLimit]: what happens to a task without a place.
const (
	Wait      = "wait"       // it waits, by priority and then by age
	Skip      = "skip"       // it ends as cancelled/limit
	CancelOld = "cancel_old" // the oldest one is cancelled, and the new one starts when that has ended
	Fail      = "fail"       // it ends as abnormal/limit
)

// OnLimits lists the values of [Concurrency.OnLimit].
var OnLimits = value.WordsOf[Concurrency]("on_limit")

// Rate bounds how often tasks may start.
type Rate struct {
	// Limit is how many attempts may start in Per, evenly spread: 1 or more.
	Limit int `json:"limit,omitempty"`
	// Per is the period of Limit. Default 1s.
	Per value.Duration `json:"per,omitempty"`
	// Burst is how many may start at once after a quiet time. Default 1.
	Burst int `json:"burst,omitempty"`
	// Key splits the rate like that of [Concurrency].
	Key string `json:"key,omitempty" redact:"template"`
}

func (c Concurrency) key() string { return c.Key }

func (r Rate) key() string { return r.Key }

// Validate refuses an invalid bound, in a field of this name.
func (c Concurrency) Validate(field string) error {
	switch {
	case c.Max < 0:
		return fmt.Errorf("%s.max is %d, want 1 or more", field, c.Max)
	case c.Max == 0:
		return fmt.Errorf("%s.max is missing: how many may run at once", field)
	case c.OnLimit != "" && !slices.Contains(OnLimits, c.OnLimit):
		return fmt.Errorf("%s.on_limit is %q, want one of %s", field, c.OnLimit, value.List(OnLimits))
	}
	return ValidKey(field+".key", c.Key)
}

// Validate refuses an invalid rate, in a field of this name.
func (r Rate) Validate(field string) error {
	switch {
	case r.Limit < 0:
		return fmt.Errorf("%s.limit is %d, want 1 or more", field, r.Limit)
	case r.Limit == 0:
		return fmt.Errorf("%s.limit is missing: how many may start", field)
	case r.Per < 0:
		return fmt.Errorf("%s.per is %v, want more than 0", field, r.Per)
	case r.Limit > 0 && r.Every() <= 0:
		return fmt.Errorf("%s.limit is %d in %v, want at most one in a nanosecond", field, r.Limit, r.Within())
	case r.Burst < 0:
		return fmt.Errorf("%s.burst is %d, want 1 or more, or 0 for the default", field, r.Burst)
	case r.Burst > maxBurst:
		return fmt.Errorf("%s.burst is %d, want at most %d", field, r.Burst, maxBurst)
	}
	return ValidKey(field+".key", r.Key)
}

// maxBurst keeps the arithmetic of buckets in bounds.
const maxBurst = 1_000_000

// Within is the period, or its default.
func (r Rate) Within() time.Duration {
	if r.Per == 0 {
		return time.Second
	}
	return r.Per.Std()
}

// Every is the time between two starts at the full rate.
func (r Rate) Every() time.Duration {
	if r.Limit <= 0 {
		return 0
	}
	return r.Within() / time.Duration(r.Limit)
}
