package exit

import (
	"errors"
)

// All joins several errors, with the exit code of the first.
func All(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	f := *Of(errs[0])
	f.Err = errors.Join(errs...)
	return &f
}

// First returns the first error with a message.
func First(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
