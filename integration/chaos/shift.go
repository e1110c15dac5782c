package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Shift is by how much a process believes its machine's clock to be ahead; below zero, behind.
type Shift time.Duration

func (s Shift) String() string { return time.Duration(s).String() }

// MarshalText writes the form that [time.ParseDuration] reads.
func (s Shift) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a duration that may be negative, such as "-5m".
func (s *Shift) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: want a number with a unit, for example 3m or -90s", text)
	}
	*s = Shift(d)
	return nil
}

// clockFile is the file in which a process finds its [Shift]: [request.Shifted] reads it.
func (c *crew) clockFile(t Target) string { return filepath.Join(c.dir, string(t)+".clock") }

// shift sets how a process perceives its machine's clock.
func (c *crew) shift(t Target, s Shift) error {
	next := c.clockFile(t) + ".next"
	if err := os.WriteFile(next, []byte(s.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.clockFile(t)) // it may be read at any time
}
