package jet

import "fmt"

// Absent is the error of a name that nothing has. It wraps its kind: [ErrNoJob], [ErrNoSchedule],
// [ErrNoCalendar] or [ErrNoBundle].
type Absent struct {
	Kind error
	Name string
}

// Error implements error.
func (e *Absent) Error() string { return fmt.Sprintf("%v: %q", e.Kind, e.Name) }

// Unwrap returns the kind.
func (e *Absent) Unwrap() error { return e.Kind }
