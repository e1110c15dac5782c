package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// devRecord is how a running `millrace dev` tells other commands where it is.
type devRecord struct {
	URL     string    `json:"url"`
	PID     int       `json:"pid"`
	Data    string    `json:"data"`
	Started time.Time `json:"started"`
}

var errNoDev = errors.New("no `millrace dev` runs on this machine")

// devFolder is where the records lie: $MILLRACE_DEV_DIR, or a folder in the user's cache.
func devFolder() (string, error) {
	if dir := os.Getenv("MILLRACE_DEV_DIR"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to note a running dev: %w; set MILLRACE_DEV_DIR", err)
	}
	return filepath.Join(cache, "millrace", "dev"), nil
}

// announceDev lets the commands of this user find the server at url, whose data
// directory this process has locked, until remove is called. A record that
// outlives its process does no harm: findDev looks at the lock.
func announceDev(url, data string) (remove func(), err error) {
	data, err = filepath.Abs(data)
	if err != nil {
		return nil, fmt.Errorf("announce dev: %w", err)
	}
	folder, err := devFolder()
	if err != nil {
		return nil, err
	}
	path, err := devRecord{URL: url, PID: os.Getpid(), Data: data, Started: time.Now().UTC()}.write(folder)
	if err != nil {
		return nil, fmt.Errorf("announce dev: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil // a record without a lock is ignored
}

// write puts the record into a folder under a name that its data directory has for ever.
func (r devRecord) write(folder string) (path string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(r.Data))
	path = filepath.Join(folder, hex.EncodeToString(sum[:8])+".json")
	return path, replaceFile(path, body)
}

// replaceFile writes a file that nobody ever sees half written.
func replaceFile(path string, body []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(body, '\n'))
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// findDev returns the newest `millrace dev` that runs on this machine and how
// many others do. The error is errNoDev if none does.
func findDev() (newest devRecord, others int, err error) {
	folder, err := devFolder()
	if err != nil {
		return devRecord{}, 0, errNoDev // without a folder nobody can have announced one
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return devRecord{}, 0, fmt.Errorf("look for a running dev: %w", err)
	}
	var alive []devRecord
	for _, path := range paths {
		var r devRecord
		body, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(body, &r) == nil && r.alive() {
			alive = append(alive, r)
		}
	}
	if len(alive) == 0 {
		return devRecord{}, 0, errNoDev
	}
	newest = slices.MaxFunc(alive, func(a, b devRecord) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Data, b.Data)) })
	return newest, len(alive) - 1, nil
}

// alive tells whether the record's process still holds the lock of its data.
func (r devRecord) alive() bool {
	// Ask for the process first: to try the lock of a dead one would, for a
	// moment, keep a new one from getting it.
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
