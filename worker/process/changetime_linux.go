package process

import "syscall"

// changeTime is when the state of a file last changed.
func changeTime(path string) (syscall.Timespec, error) {
	var st syscall.Stat_t
	err := syscall.Lstat(path, &st)
	return st.Ctim, err
}
