package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// act does something with files as the user would, and not as this program may: what a task names is opened
// with the task's rights. Do must not leave its goroutine to others. For the worker's own user, and the nil account, it just does it.
//
// Only the thread changes, and only what the kernel asks of it for files. Its capabilities for files are gone meanwhile.
func (a *account) act(do func() error) error {
	if a == nil || a.credential == nil {
		return do()
	}
	own, err := os.Getgroups()
	if err != nil {
		return err
	}
	groups := make([]uint32, len(own))
	for i, g := range own {
		groups[i] = uint32(g)
	}
	runtime.LockOSThread()
	err = setFileUser(a.credential.Uid, a.credential.Gid, a.credential.Groups)
	if err == nil {
		err = do()
	}
	if back := setFileUser(uint32(os.Geteuid()), uint32(os.Getegid()), groups); back != nil {
		return errors.Join(err, back) // the thread stays this goroutine's, and ends with it
	}
	runtime.UnlockOSThread()
	return err
}

// setFileUser has the kernel take this thread for another user's when it asks for files.
func setFileUser(uid, gid uint32, groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	// Not syscall.Setgroups, which is for all threads.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); errno != 0 {
		return fmt.Errorf("take the groups of a user: %w", errno)
	}
	// These two return what was before, and no error; asked with a number that is none, what is.
	const none = -1
	_, _ = unix.SetfsgidRetGid(int(gid))
	_, _ = unix.SetfsuidRetUid(int(uid))
	if now, _ := unix.SetfsgidRetGid(none); now != int(gid) {
		return fmt.Errorf("become group %d for files: it is still %d", gid, now)
	}
	if now, _ := unix.SetfsuidRetUid(none); now != int(uid) {
		return fmt.Errorf("become user %d for files: it is still %d", uid, now)
	}
	return nil
}
