package request

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

// lockData locks a data directory like a server.
func lockData(t *testing.T, dir string) *flock.Flock {
	t.Helper()
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		t.Fatalf("lock %s: %v, %v", dir, ok, err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	return lock
}

func TestFind(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dev")
	t.Setenv("MILLRACE_DEV_DIR", folder)
	expect := func(when, url string, others int) {
		t.Helper()
		got, n, err := Find()
		if url == "" {
			if !errors.Is(err, ErrNone) {
				t.Errorf("%s: found %+v, %v, want none", when, got, err)
			}
			return
		}
		if err != nil || got.URL != url || n != others {
			t.Errorf("%s: found %q and %d others, %v, want %q and %d", when, got.URL, n, err, url, others)
		}
	}
	expect("no folder", "", 0)

	first, second := t.TempDir(), t.TempDir()
	lockFirst, lockSecond := lockData(t, first), lockData(t, second)
	removeFirst, err := Announce("nats://first", "dev", first)
	if err != nil {
		t.Fatal(err)
	}
	expect("one", "nats://first", 0)
	for _, record := range must(filepath.Glob(filepath.Join(folder, "*")))(t) {
		if info := must(os.Stat(record))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("others may read %s, which holds a password: %v", record, info.Mode())
		}
	}
	removeSecond, err := Announce("nats://second", "server", second)
	if err != nil {
		t.Fatal(err)
	}
	expect("two", "nats://second", 1)

	if err := lockSecond.Unlock(); err != nil {
		t.Fatal(err)
	}
	expect("the newest has died", "nats://first", 0)
	if _, err := Announce("nats://first again", "dev", first); err != nil {
		t.Fatal(err)
	}
	expect("announced again", "nats://first again", 0)
	removeFirst()
	removeSecond()
	expect("gone", "", 0)
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the folder still holds %v, %v", left, err)
	}

	// Looking for a server must not keep one from taking the lock.
	if err := lockFirst.Unlock(); err != nil {
		t.Fatal(err)
	}
	lockData(t, first)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
