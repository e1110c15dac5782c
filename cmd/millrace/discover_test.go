package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

// lockData locks a data directory as a server does.
func lockData(t *testing.T, dir string) *flock.Flock {
	t.Helper()
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		t.Fatalf("lock %s: %v, %v", dir, ok, err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	return lock
}

func TestFindDev(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dev")
	t.Setenv("MILLRACE_DEV_DIR", folder)
	expect := func(when, url string, others int) {
		t.Helper()
		got, n, err := findDev()
		if url == "" {
			if !errors.Is(err, errNoDev) {
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
	removeFirst, err := announceDev("nats://first", first)
	if err != nil {
		t.Fatal(err)
	}
	expect("one", "nats://first", 0)
	removeSecond, err := announceDev("nats://second", second)
	if err != nil {
		t.Fatal(err)
	}
	expect("two", "nats://second", 1)

	if err := lockSecond.Unlock(); err != nil {
		t.Fatal(err)
	}
	expect("the newest has died", "nats://first", 0)
	if _, err := announceDev("nats://first again", first); err != nil {
		t.Fatal(err)
	}
	expect("announced again", "nats://first again", 0)
	removeFirst()
	removeSecond()
	expect("gone", "", 0)
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the folder still holds %v, %v", left, err)
	}

	// To look must not keep a server from taking the lock.
	if err := lockFirst.Unlock(); err != nil {
		t.Fatal(err)
	}
	lockData(t, first)
}
