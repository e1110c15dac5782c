//go:build !linux

package chaos

import "syscall"

// attributes give a process a group of its own, so that a signal for us is none for it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
