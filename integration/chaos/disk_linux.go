package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// diskSize is the size of the server's disk, if it has one of its own.
const diskSize = 128 << 20

// disk is where the server keeps its data, and can be filled. If this process may mount, it is a
// small file system in memory, which a file of ballast fills; else the kernel stops the files of
// the server from growing, and the server's writes fail as on a full disk.
type disk struct {
	dir     string
	mounted bool

	mu     sync.Mutex
	filled int // guarded by mu
	failed int // guarded by mu; how often filling failed
}

// newDisk makes the disk, if it is to be filled at all.
func newDisk(dir string, wanted bool) (*disk, error) {
	d := &disk{dir: dir}
	if !wanted {
		return d, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	err := syscall.Mount("chaos", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("size=%d,mode=0700", diskSize))
	d.mounted = err == nil
	return d, nil
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill leaves no room to the process with that id.
func (d *disk) fill(pid int) error {
	err := d.fillNow(pid)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.filled++; err != nil {
		d.failed++
	}
	return err
}

func (d *disk) fillNow(pid int) error {
	if !d.mounted {
		return limitFiles(pid, 0)
	}
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for block := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(block)
	}
	if closed := f.Close(); !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(err, closed)
	}
	return nil
}

// empty makes room again.
func (d *disk) empty(pid int) error {
	if !d.mounted {
		return limitFiles(pid, unix.RLIM_INFINITY)
	}
	return os.Remove(d.ballast())
}

// limitFiles bounds the size of files that a process writes. It moves only the soft limit, which
// can be moved back.
func limitFiles(pid int, bytes uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: min(bytes, now.Max), Max: now.Max}, nil)
}

// played describes which disk was filled, and how often.
func (d *disk) played() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	how := "no file of the server could grow, for this user may not mount a small disk"
	if d.mounted {
		how = fmt.Sprintf("a file system of %d MiB in memory, filled to the last byte", diskSize>>20)
	}
	return fmt.Sprintf("full %d times: %s", d.filled-d.failed, how)
}

func (d *disk) failures() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// close unmounts the disk, when nothing uses it any more.
func (d *disk) close() {
	if d.mounted {
		_ = syscall.Unmount(d.dir, syscall.MNT_DETACH)
		d.mounted = false
	}
}
