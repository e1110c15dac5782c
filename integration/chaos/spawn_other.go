//go:build !linux

package chaos

import "syscall"

// attributes give a process a group of its own, so that it does not get our signals.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
