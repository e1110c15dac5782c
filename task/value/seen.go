package value

import (
	"errors"
	"fmt"
	"time"
)

// ErrOvertaken refuses a change whose author saw another revision than the present one.
var ErrOvertaken = errors.New("it has changed since it was looked at")

// Overtaken is an [ErrOvertaken] with the revisions, 0 for none: Seen is the one that the author
// saw, Is the present one, which By has made.
type Overtaken struct {
	Seen, Is uint64
	By       string
	At       time.Time
}

// Unseen refuses a change at a revision, unless the author has seen that revision or does not say
// which. Seen has one element or none.
func Unseen(seen []uint64, is Overtaken) error {
	if len(seen) == 0 || seen[0] == is.Is {
		return nil
	}
	is.Seen = seen[0]
	return &is
}

// Error implements error.
func (o *Overtaken) Error() string {
	is, was := "there is none now", "you have seen none"
	if o.Is > 0 {
		is = fmt.Sprintf("it is at revision %d", o.Is)
	}
	if o.By != "" {
		is += " by " + o.By
	}
	if !o.At.IsZero() {
		is += " since " + o.At.UTC().Format(time.RFC3339)
	}
	if o.Seen > 0 {
		was = fmt.Sprintf("you have seen revision %d", o.Seen)
	}
	return fmt.Sprintf("%v: %s, and %s", ErrOvertaken, was, is)
}

// Unwrap returns [ErrOvertaken].
func (o *Overtaken) Unwrap() error { return ErrOvertaken }
