package filecache

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/singleflight"

	"millrace/internal/files"
)

// Config says where a cache lies and how much it may hold.
type Config struct {
	// Dir is the cache's directory. New makes it. Several workers may share one.
	Dir string
	// Limit is how many bytes on disk the cache may take, beside what is in use. Default 10 GiB.
	Limit int64
	// Log receives messages for the operator. Default: none.
	Log *slog.Logger
}

// DefaultLimit is the default of Config.Limit, in bytes.
const DefaultLimit = 10 << 30

// Cache keeps versions on disk. It is safe for concurrent use, also by several processes.
type Cache struct {
	cfg     Config
	store   files.Store
	studies singleflight.Group
	free    func(dir string) (int64, bool) // how much may still be written there

	mu    sync.Mutex
	knows map[string]known // guarded by mu; by key
}

// New returns the cache in a directory. An error says why the directory cannot be used.
func New(store files.Store, cfg Config) (*Cache, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Limit == 0 {
		cfg.Limit = DefaultLimit
	}
	above, name := filepath.Split(filepath.Clean(cfg.Dir))
	dir, err := files.PassageDir(above, name) // another user's setup must get there
	for _, sub := range []string{"trees", "locks"} {
		if err == nil {
			_, err = files.PassageDir(above, name, sub)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cache of files: %w; choose another directory with --files-cache", err)
	}
	cfg.Dir = dir
	return &Cache{cfg: cfg, store: store, free: freeBytes, knows: map[string]known{}}, nil
}

// Setup describes what is made of a version.
type Setup struct {
	// Lines identify the setup: equal lines, equal result.
	Lines []string
	// User is the user that runs it, "" for this program's own. No other user gets the result.
	User string
	// Run makes it in a directory that holds the version.
	Run func(ctx context.Context, dir string) error
}

// Use says which version is wanted, and how.
type Use struct {
	// Version is "" for no files at all; a setup may add some.
	Version files.Digest
	Setup   *Setup
	// Shared says that the directory is used in place, so it must hold nothing beside the version.
	// An attempt with a copy or links gets nothing else anyway.
	Shared bool
	// Fetched is called with what was done to get the version, if it was not there; Progress is
	// called now and then while it is fetched. Both may be nil.
	Fetched  func(files.Fetched, time.Duration)
	Progress func(done, of int64)
}

// Held is a directory that stays as it is until it is released.
type Held struct {
	// Dir holds the files.
	Dir  string
	slot slot
	lock *flock.Flock
}

// Release lets the cache remove the directory when it needs room.
func (h *Held) Release() { _ = h.lock.Close() } // the process's end would do it too

// slot is the place of one directory in the cache.
type slot struct {
	key string
	dir string // holds tree, manifest and mark
}

func (c *Cache) slot(key string) slot { return slot{key, filepath.Join(c.cfg.Dir, "trees", key)} }

func (s slot) tree() string     { return filepath.Join(s.dir, "tree") }
func (s slot) manifest() string { return filepath.Join(s.dir, "manifest") }
func (s slot) markFile() string { return filepath.Join(s.dir, "ready") }

// mark says that a directory is complete. The file's time is when the directory was last used.
type mark struct {
	Version files.Digest `json:"version,omitempty"`
	Setup   []string     `json:"setup,omitempty"`
	// Contents are the digest of what setup commands have made. Files of a version have the
	// version's digest.
	Contents files.Digest `json:"contents,omitempty"`
	Made     time.Time    `json:"made"`
}

// Checkout returns a directory with a version. The first caller that wants it makes it, others
// wait. The error wraps [files.ErrNoVersion], [files.ErrNoChunk], [ErrTooLarge] or what Setup.Run
// returned.
func (c *Cache) Checkout(ctx context.Context, u Use) (*Held, error) {
	key, how := string(u.Version), c.fetch
	switch {
	case u.Setup != nil:
		text, err := json.Marshal(u.Setup.Lines)
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(nil, "setup\n%s\n%s", u.Version, text)
		if u.Setup.User != "" {
			text = fmt.Appendf(text, "\nuser\n%q", u.Setup.User)
		}
		key = string(files.DigestOf(text)) + "-setup"
		how = c.prepare
	case u.Version == "":
		return nil, errors.New("nothing is asked of the cache")
	}
	s := c.slot(key)
	for range maxMakes {
		held, err := c.hold(ctx, s, u)
		if held != nil || err != nil {
			return held, err
		}
		if err := c.make(ctx, s, u, how); err != nil {
			return nil, err
		}
		if held, err := c.hold(ctx, s, u); held != nil || err != nil {
			c.trim(c.cfg.Limit)
			return held, err
		}
	}
	return nil, c.unsteady()
}

func (c *Cache) unsteady() error {
	return fmt.Errorf("the cache %s does not stay as it was written: something else writes there, or its file system keeps no modes or times; choose another directory with --files-cache", c.cfg.Dir)
}

// maxMakes is how often a directory is made again that does not stay as it was made.
const maxMakes = 3

// lockPoll is how often a held lock is tried.
const lockPoll = 20 * time.Millisecond

func (c *Cache) lock(key string) *flock.Flock {
	return flock.New(filepath.Join(c.cfg.Dir, "locks", key))
}

// hold returns the directory if it is complete and unchanged, else nil.
func (c *Cache) hold(ctx context.Context, s slot, u Use) (*Held, error) {
	l := c.lock(s.key)
	if _, err := l.TryRLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("wait for files: %w", err)
	}
	if !c.sound(s, u) {
		_ = l.Close()
		return nil, nil
	}
	now := time.Now()
	_ = os.Chtimes(s.markFile(), now, now) // else it is removed a little too early
	return &Held{Dir: s.tree(), slot: s, lock: l}, nil
}

// make makes the directory, unless another caller was faster.
func (c *Cache) make(ctx context.Context, s slot, u Use, how func(context.Context, slot, Use) error) error {
	l := c.lock(s.key)
	if _, err := l.TryLockContext(ctx, lockPoll); err != nil {
		return fmt.Errorf("wait for files: %w", err)
	}
	defer l.Close()
	if c.sound(s, u) {
		return nil
	}
	c.forget(s)
	// From here on the directory does not count until it has a mark again.
	if err := os.Remove(s.markFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(s.tree(), 0o700); err != nil {
		return err
	}
	err := how(ctx, s, u)
	if errors.Is(err, errNoSpace) {
		c.trim(0)
		err = how(ctx, s, u)
	}
	if err != nil {
		return err
	}
	made, err := c.study(s)
	if err != nil {
		return fmt.Errorf("%w: %w", c.unsteady(), err)
	}
	c.learn(s, made)
	m := mark{Version: u.Version, Contents: made.contents, Made: time.Now().UTC()}
	if u.Setup != nil {
		m.Setup = u.Setup.Lines
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return files.Write(s.markFile(), text)
}

// openPlain opens a regular file, and refuses a symbolic link.
func openPlain(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// setUp tells whether setup commands have run in the directory.
func (s slot) setUp() bool { return strings.HasSuffix(s.key, "-setup") }

func (s slot) readManifest() (*files.Manifest, error) {
	text, err := os.ReadFile(s.manifest())
	if err != nil {
		return nil, err
	}
	if err := files.Digest(s.key).Check(text); err != nil {
		return nil, err
	}
	return files.Parse(text)
}
