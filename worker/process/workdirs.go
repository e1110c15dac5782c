package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// workdirs hands out empty directories. Making and removing one costs as much as
// a tenth of starting a process, and most tasks leave theirs empty, so an empty
// one is used again.
//
// All lie in one directory that bears the worker's process id. A worker that
// was killed leaves its own behind; the next one removes it.
type workdirs struct {
	mu     sync.Mutex
	parent string   // guarded by mu; "" before the first
	free   []string // guarded by mu
}

const parentPattern = "millrace-work-%d-"

func (w *workdirs) get() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); n > 0 {
		dir := w.free[n-1]
		w.free = w.free[:n-1]
		return dir, nil
	}
	if w.parent == "" {
		removeAbandoned()
		parent, err := os.MkdirTemp("", fmt.Sprintf(parentPattern, os.Getpid()))
		if err != nil {
			return "", err
		}
		w.parent = parent
	}
	return os.MkdirTemp(w.parent, "")
}

func (w *workdirs) put(dir string) {
	if !empty(dir) {
		_ = os.RemoveAll(dir) // what cannot be removed now is left for close
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, dir)
}

// empty tells whether a directory is there, private as it was made, and has nothing in it.
func empty(dir string) bool {
	f, err := os.Open(dir)
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

func (w *workdirs) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parent != "" {
		_ = os.RemoveAll(w.parent) // what is left is removed by the next worker
	}
	w.parent, w.free = "", nil
}

// removeAbandoned removes what workers have left whose process is gone.
func removeAbandoned() {
	parents, err := filepath.Glob(filepath.Join(os.TempDir(), "millrace-work-*"))
	if err != nil {
		return // the pattern is valid; there is nothing to remove
	}
	for _, parent := range parents {
		var pid int
		if n, _ := fmt.Sscanf(filepath.Base(parent), parentPattern, &pid); n != 1 || pid <= 0 {
			continue
		}
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(parent) // another user's cannot be removed, and need not be
		}
	}
}
