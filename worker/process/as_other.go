//go:build unix && !linux

package process

import "errors"

// act is refused: on this system no thread can take another user's identity.
func (a *account) act(do func() error) error {
	if a == nil || a.credential == nil {
		return do()
	}
	return errors.New("this system cannot open files as another user")
}
