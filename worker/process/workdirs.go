package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"millrace/internal/files"
)

// workdirs hands out empty directories. Making and removing one costs up to a tenth of starting a
// process, and most tasks leave theirs empty, so an empty one is used again.
//
// All lie in one directory that bears the worker's process id. A killed worker leaves its own
// behind; the next one removes it.
type workdirs struct {
	mu     sync.Mutex
	parent string    // guarded by mu; "" before the first
	free   []workdir // guarded by mu
}

// workdir is a directory and the time when its state last changed. Whenever an entry is made or
// removed, or the mode changes, the kernel moves that time, and no program can move it back. So one
// look tells whether the directory is as it was, unless the last change is too recent for the
// kernel's clock to tell it from the next one.
type workdir struct {
	path    string
	whole   string // what to remove with it; "" for the path
	changed syscall.Timespec
	young   bool // when it was handed out
}

// tick is longer than one step of the kernel's clock for files.
const tick = 20 * time.Millisecond

// handedOut records whether d is young as it goes to an attempt.
func (d workdir) handedOut() workdir {
	d.young = time.Since(time.Unix(d.changed.Unix())) < tick
	return d
}

// untouched tells whether the attempt has left the directory as it got it.
func (d workdir) untouched() bool {
	changed, err := changeTime(d.path)
	return err == nil && changed == d.changed && (!d.young || empty(d.path))
}

// empty tells whether a directory is private, as it was made, and empty.
func empty(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o700 {
		return false
	}
	_, err = f.Readdirnames(1)
	return err == io.EOF
}

const parentPattern = "millrace-work-%d-"

// get returns an empty directory below where.
func (w *workdirs) get(where string) (workdir, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); n > 0 {
		dir := w.free[n-1]
		w.free = w.free[:n-1]
		return dir.handedOut(), nil
	}
	if w.parent == "" {
		removeAbandoned(where)
		parent, err := os.MkdirTemp(where, fmt.Sprintf(parentPattern, os.Getpid()))
		if err != nil {
			return workdir{}, err
		}
		w.parent = parent
	}
	path, err := os.MkdirTemp(w.parent, "")
	if err != nil {
		return workdir{}, err
	}
	changed, _ := changeTime(path) // if it is unknown, put finds out and does not use it again
	return workdir{path: path, changed: changed}.handedOut(), nil
}

// give makes another user the owner of a directory. It is not used again.
func (w *workdirs) give(dir workdir, uid, gid int) error {
	w.mu.Lock()
	parent := w.parent
	w.mu.Unlock()
	// Others may pass through the parent, but not list it.
	return errors.Join(os.Chmod(parent, 0o711), os.Chown(dir.path, uid, gid))
}

func (w *workdirs) put(dir workdir) {
	if !dir.untouched() {
		_ = os.RemoveAll(dir.path) // what cannot be removed now is left for close
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, dir)
}

func (w *workdirs) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parent != "" {
		_ = os.RemoveAll(w.parent) // what is left is removed by the next worker
	}
	w.parent, w.free = "", nil
}

const keptPattern = "millrace-kept-"

// keptDir makes the directory of an attempt that outlives its worker. Its parent stays the worker's
// own, whichever user gets the directory: that identifies it when it must be removed.
func keptDir(where string) (workdir, error) {
	whole, err := os.MkdirTemp(where, keptPattern)
	if err != nil {
		return workdir{}, err
	}
	dir := workdir{path: filepath.Join(whole, "work"), whole: whole}
	if err := os.Mkdir(dir.path, 0o700); err != nil {
		removeDir(dir)
		return workdir{}, err
	}
	return dir, nil
}

func removeDir(dir workdir) { _ = os.RemoveAll(dir.whole) }

func giveDir(dir workdir, uid, gid int) error {
	return errors.Join(os.Chmod(dir.whole, 0o711), os.Chown(dir.path, uid, gid))
}

// isKeptDir tells whether keptDir has made the directory at that path, and not another program that
// wrote the path down or put something in its place.
func isKeptDir(path, where string) bool {
	name, ours := strings.CutPrefix(filepath.Clean(path), filepath.Join(where, keptPattern))
	return ours && name != "" && !strings.ContainsRune(name, filepath.Separator) && files.Owned(path)
}

// removeAbandoned removes the directories of this user's workers whose process is gone.
func removeAbandoned(where string) {
	parents, err := filepath.Glob(filepath.Join(where, "millrace-work-*"))
	if err != nil {
		return // the pattern is valid; there is nothing to remove
	}
	for _, parent := range parents {
		var pid int
		if n, _ := fmt.Sscanf(filepath.Base(parent), parentPattern, &pid); n != 1 || pid <= 0 {
			continue
		}
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && files.Owned(parent) {
			_ = os.RemoveAll(parent) // what is left is removed another time
		}
	}
}
