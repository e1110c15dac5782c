package value

import "fmt"

// Must returns v, and ends the program if there is an error. It is for what can only fail by a mistake in
// this program, which the first test of the place then shows.
func Must[T any](v T, err error) T {
	Assert(err == nil, "%v", err)
	return v
}

// Assert is [Must] for a condition.
func Assert(holds bool, format string, args ...any) {
	if !holds {
		panic(fmt.Sprintf(format, args...))
	}
}
