package value

import (
	"fmt"
	"time"
)

// Duration is a [time.Duration] that reads and writes as text, "1h30m".
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the form that [time.ParseDuration] reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration such as "90s" or "1h30m". It refuses a number without a unit, and
// a negative one.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: want a number with a unit, for example 90s or 1h30m", text)
	}
	if v < 0 {
		return fmt.Errorf("duration %q is below zero", text)
	}
	*d = Duration(v)
	return nil
}

// NotBelowZero refuses a negative duration of a field.
func NotBelowZero(field string, d Duration) error {
	if d < 0 {
		return fmt.Errorf("%s is %v, want 0 or more", field, d)
	}
	return nil
}
