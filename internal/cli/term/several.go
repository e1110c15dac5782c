package term

import (
	"errors"
)

// AllFaults joins several errors, with the exit code of the first.
func AllFaults(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	f := *FaultOf(errs[0])
	f.Err = errors.Join(errs...)
	return &f
}

// FirstFault returns the first error with a message.
func FirstFault(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
