package value

import (
	"fmt"
	"strings"
)

// Faults are several errors of one definition. Each begins with its field.
type Faults []error

// Error implements error: all errors in one line.
func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns all the errors.
func (f Faults) Unwrap() []error { return f }

// JoinFaults returns nil for no error, the error itself for one, and [Faults] for several. It
// flattens Faults among its arguments.
func JoinFaults(errs ...error) error {
	var all Faults
	for _, err := range errs {
		if err != nil {
			all = append(all, FaultsOf(err)...)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// FaultsOf returns the errors in err; err alone if it is not a [Faults].
func FaultsOf(err error) []error {
	if all, ok := err.(Faults); ok { //nolint:errorlint // what wraps several is one that says more
		return all
	}
	return []error{err}
}

// Under puts a prefix before each error of err; nil stays nil.
func Under(prefix string, err error) error {
	if err == nil {
		return nil
	}
	all := FaultsOf(err)
	below := make([]error, len(all))
	for i, one := range all {
		below[i] = fmt.Errorf("%s%w", prefix, one)
	}
	return JoinFaults(below...)
}
