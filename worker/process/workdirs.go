package process

import (
	"io"
	"os"
	"sync"
)

// workdirs hands out empty directories. Making and removing one costs as much as
// a tenth of starting a process, and most tasks leave theirs empty, so an empty
// one is used again.
type workdirs struct {
	mu   sync.Mutex
	free []string // guarded by mu
}

func (w *workdirs) get() (string, error) {
	w.mu.Lock()
	if n := len(w.free); n > 0 {
		dir := w.free[n-1]
		w.free = w.free[:n-1]
		w.mu.Unlock()
		return dir, nil
	}
	w.mu.Unlock()
	return os.MkdirTemp("", "millrace-")
}

func (w *workdirs) put(dir string) {
	if !empty(dir) {
		_ = os.RemoveAll(dir) // what cannot be removed is left to the system's own cleaning
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
	for _, dir := range w.free {
		_ = os.Remove(dir) // it is empty
	}
	w.free = nil
}
