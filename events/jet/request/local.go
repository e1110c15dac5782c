package request

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"millrace/internal/files"
)

// Server is a server that runs on this machine.
type Server struct {
	// URL is its address, with the credential that it has made for itself: a secret.
	URL string `json:"url"`
	// Role is "dev" if it runs tasks, too, else "server".
	Role string `json:"role"`
	PID  int    `json:"pid"`
	// Data is its data directory, which its process has locked.
	Data    string    `json:"data"`
	Started time.Time `json:"started"`
}

// ErrNone: no server of this user runs on this machine.
var ErrNone = errors.New("no server of Millrace runs on this machine for this user")

// Folder is the folder of the records: $MILLRACE_DEV_DIR, or a folder in the user's cache.
func Folder() (string, error) {
	if dir := os.Getenv("MILLRACE_DEV_DIR"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to note a running dev: %w; set MILLRACE_DEV_DIR", err)
	}
	return filepath.Join(cache, "millrace", "dev"), nil
}

// Announce lets commands and programs of this user find a server, whose data directory this process
// has locked, until remove is called. A record that outlives its process is harmless: [Find] checks
// the lock.
func Announce(url, role, data string) (remove func(), err error) {
	data, err = filepath.Abs(data)
	if err != nil {
		return nil, fmt.Errorf("announce the server: %w", err)
	}
	folder, err := Folder()
	if err != nil {
		return nil, err
	}
	path, err := Server{URL: url, Role: role, PID: os.Getpid(), Data: data, Started: time.Now().UTC()}.Write(folder)
	if err != nil {
		return nil, fmt.Errorf("announce the server: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil // a record without a lock is ignored
}

// Write writes the record into a folder, under a fixed name for its data directory.
func (r Server) Write(folder string) (path string, err error) {
	if _, err := files.OwnDir(folder); err != nil {
		return "", err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(r.Data))
	path = filepath.Join(folder, hex.EncodeToString(sum[:8])+".json")
	return path, WriteSecret(path, body)
}

// Secret returns the secret in a file of a folder that only this user can read. It creates a
// missing one: 128 bits, in letters and digits, so that a URL can hold it.
func Secret(path string) (string, error) {
	body, err := os.ReadFile(path)
	if secret := strings.TrimSpace(string(body)); err == nil && secret != "" {
		return secret, os.Chmod(path, 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	secret := rand.Text()
	return secret, WriteSecret(path, []byte(secret))
}

// WriteSecret writes a line into a file that only its owner may read; see [files.Write].
func WriteSecret(path string, body []byte) error {
	return files.Write(path, append(slices.Clip(body), '\n'))
}

// Find returns the newest server that runs on this machine for this user, and the number of others.
// The error is [ErrNone] if there is none.
func Find() (newest Server, others int, err error) {
	folder, err := Folder()
	if err != nil {
		return Server{}, 0, ErrNone // without a folder there is no announcement
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return Server{}, 0, fmt.Errorf("look for a running server: %w", err)
	}
	var alive []Server
	for _, path := range paths {
		if r, ok := read(path); ok && r.alive() {
			alive = append(alive, r)
		}
	}
	if len(alive) == 0 {
		return Server{}, 0, ErrNone
	}
	newest = slices.MaxFunc(alive, func(a, b Server) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Data, b.Data)) })
	return newest, len(alive) - 1, nil
}

// read reads a record; false if it is not one, or if another user has written it, who could thereby
// redirect what is meant for this user's server.
func read(path string) (r Server, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return r, false
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return r, false
	}
	if s, known := info.Sys().(*syscall.Stat_t); known && int(s.Uid) != os.Geteuid() {
		return r, false
	}
	return r, json.NewDecoder(f).Decode(&r) == nil
}

// alive tells whether the record's process still holds the lock of its data.
func (r Server) alive() bool {
	// Check the process first: trying the lock of a dead one would briefly keep a new process from
	// getting it.
	if p, err := os.FindProcess(r.PID); err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return false
	}
	path := filepath.Join(r.Data, "lock")
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	got, err := lock.TryRLock()
	if got {
		_ = lock.Unlock()
	}
	return err == nil && !got
}
