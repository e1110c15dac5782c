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

// act performs do on files with the user's rights instead of this program's: a path that a task
// names is opened with the task's rights. do must stay on its goroutine. For the worker's own user,
// and the nil account, act just calls do.
//
// Only the thread changes, and only its identity for files; its capabilities for files are dropped
// meanwhile.
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
		return errors.Join(err, back) // the thread stays bound to this goroutine, and ends with it
	}
	runtime.UnlockOSThread()
	return err
}

// setFileUser gives this thread another user's identity for file access.
func setFileUser(uid, gid uint32, groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	// Not syscall.Setgroups, which changes all threads.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); errno != 0 {
		return fmt.Errorf("take the groups of a user: %w", errno)
	}
	// These two return the previous id, and no error; called with an invalid id they return the
	// current one.
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
