package chaos

import "syscall"

// attributes give a process a group of its own, so that it does not get our signals, and a signal
// when we are gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
