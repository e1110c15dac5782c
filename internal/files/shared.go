package files

import (
	"os"
	"sync"
	"sync/atomic"
)

// shared is a file that is closed when its last user leaves.
type shared struct {
	*os.File
	users atomic.Int32
	// last, if not nil, runs before the file is closed.
	last func(*os.File) error
	err  error // of last; read it after all users have left
}

func (f *shared) leave() error {
	if f.users.Add(-1) > 0 {
		return nil
	}
	if f.last != nil {
		f.err = f.last(f.File)
	}
	if err := f.Close(); f.err == nil {
		f.err = err
	}
	return f.err
}

// tally counts the bytes sent or written.
type tally struct {
	mu   sync.Mutex
	done int64 // guarded by mu
	of   int64
	each func(done, of int64)
}

func newTally(of int64, each func(done, of int64)) *tally { return &tally{of: of, each: each} }

func (t *tally) add(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += n
	if t.each != nil {
		t.each(t.done, t.of)
	}
}
