package filecache

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cloneFile lets a file share the blocks of another one, where the file system can.
func cloneFile(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }

// freeBytes returns how much this user may still write to the disk of a directory.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Blocks == 0 {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // 32 bits on some processors
}

// stateOf returns a file's identity, and when its state last changed.
func stateOf(info fs.FileInfo) (inode uint64, changed time.Time, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, time.Time{}, false
	}
	return s.Ino, time.Unix(s.Ctim.Unix()), true
}

// syncDisk waits until all that was written to a file system is on its disk.
func syncDisk(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
