//go:build unix && !linux

package process

import "errors"

// act does something with files as the user would. Here no thread can be another user's, so it is refused.
func (a *account) act(do func() error) error {
	if a == nil || a.credential == nil {
		return do()
	}
	return errors.New("this system cannot open files as another user")
}
