package value

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Duration is a [time.Duration] that reads and writes as text, "1h30m".
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration in hours, minutes and seconds.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration as [ParseDuration] does.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// ParseDuration reads a duration as people type it, everywhere: numbers with the units ns, us, ms, s,
// m, h, d (24 hours) and w (7 days), such as 90s, 1h30m, 1d12h or 1w. It refuses a number without a
// unit, and a negative one.
func ParseDuration(text string) (time.Duration, error) {
	if below, minus := strings.CutPrefix(text, "-"); minus {
		if _, err := ParseDuration(below); err == nil && !strings.HasPrefix(below, "+") {
			return 0, fmt.Errorf("%q is negative: want 0 or more, such as %s", text, below)
		}
	}
	wrong := fmt.Errorf("%q is no duration: want a number with a unit, such as 90s, 2h30m or 7d", text)
	rest := strings.TrimPrefix(text, "+")
	if rest == "0" {
		return 0, nil
	}
	var sum time.Duration
	for more := true; more; more = rest != "" {
		unit := strings.TrimLeft(rest, "0123456789.")
		number := rest[:len(rest)-len(unit)]
		if next := strings.IndexAny(unit, "0123456789."); next >= 0 {
			rest, unit = unit[next:], unit[:next]
		} else {
			rest = ""
		}
		times := time.Duration(1)
		switch unit {
		case "d":
			times, unit = 24, "h"
		case "w":
			times, unit = 7*24, "h"
		}
		part, err := time.ParseDuration(number + unit)
		if err != nil || unit == "" || part > (math.MaxInt64-sum)/times {
			return 0, wrong
		}
		sum += part * times
	}
	return sum, nil
}

// NotBelowZero refuses a negative duration of a field.
func NotBelowZero(field string, d Duration) error {
	if d < 0 {
		return fmt.Errorf("%s is %v, want 0 or more", field, d)
	}
	return nil
}
