package chaos

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// spoiler changes files in a cache, from start to stop.
type spoiler struct {
	dir    string
	chance *rand.Rand

	mu   sync.Mutex
	stop chan struct{} // guarded by mu
	n    int           // guarded by mu
	all  sync.WaitGroup
}

// spoilPause is the pause between two changes.
const spoilPause = 20 * time.Millisecond

func (s *spoiler) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := make(chan struct{})
	s.stop = stop
	s.all.Go(func() {
		ticker := time.NewTicker(spoilPause)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				s.once()
			}
		}
	})
}

func (s *spoiler) end() {
	s.mu.Lock()
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
	s.mu.Unlock()
	s.all.Wait()
}

func (s *spoiler) done() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// once changes one random file of the cache, as a task with root rights that uses the version
// could: files that are only being fetched are out of its reach. If something prevents it, nothing
// is lost: the cache is changing just then.
func (s *spoiler) once() {
	slots, _ := filepath.Glob(filepath.Join(s.dir, "trees", "*", "ready"))
	if len(slots) == 0 {
		return
	}
	mark := slots[s.chance.IntN(len(slots))]
	slot := filepath.Dir(mark)
	lock := flock.New(filepath.Join(s.dir, "locks", filepath.Base(slot)))
	if ok, err := lock.TryRLock(); !ok || err != nil {
		return
	}
	defer lock.Close()
	if _, err := os.Lstat(mark); err != nil {
		return
	}
	var found []string
	_ = filepath.WalkDir(filepath.Join(slot, "tree"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			found = append(found, path)
		}
		return nil
	})
	if len(found) == 0 || !s.spoil(found[s.chance.IntN(len(found))]) {
		return
	}
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
}

// spoil changes a file, and tells whether it did.
func (s *spoiler) spoil(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	dir := filepath.Dir(path)
	if at, err := os.Stat(dir); err == nil {
		_ = os.Chmod(dir, at.Mode().Perm()|0o700) // as who spoils it would
	}
	_ = os.Chmod(path, info.Mode().Perm()|0o200)
	switch s.chance.IntN(5) {
	case 0:
		err = os.Remove(path)
	case 1:
		err = os.Truncate(path, s.chance.Int64N(info.Size()+1))
	case 2:
		err = os.WriteFile(filepath.Join(dir, "stranger"), []byte("nobody has pushed this"), 0o600)
	default:
		err = scribble(path, s.chance.Int64N(info.Size()+1))
	}
	return err == nil
}

// scribble writes into the middle of a file.
func scribble(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("spoiled"), at)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
