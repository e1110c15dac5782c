//go:build !linux

package chaos

import "errors"

// disk can be filled on Linux only.
type disk struct{}

var errNoFill = errors.New("the fault " + string(Fill) + " needs Linux: other systems cannot fill the disk of one process alone")

func newDisk(_ string, wanted bool) (*disk, error) {
	if wanted {
		return nil, errNoFill
	}
	return &disk{}, nil
}

func (*disk) fill(int) error  { return errNoFill }
func (*disk) empty(int) error { return errNoFill }
func (*disk) played() string  { return "" }
func (*disk) failures() int   { return 0 }
func (*disk) close()          {}
