package filecache_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/files"
	"millrace/files/tree"
	"millrace/worker/filecache"
)

// world is a store, and a cache on it.
type world struct {
	t     *testing.T
	store *tree.Memory
	dir   string
	cache *filecache.Cache
}

func newWorld(t *testing.T, limit int64) *world {
	t.Helper()
	w := &world{t: t, store: tree.NewMemory(), dir: filepath.Join(t.TempDir(), "cache")}
	w.cache = w.another(limit)
	t.Cleanup(func() { // else what is sealed could not be removed
		_ = filepath.WalkDir(w.dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(p, 0o755)
			}
			return err
		})
	})
	return w
}

// another is the cache as another process has it.
func (w *world) another(limit int64) *filecache.Cache {
	w.t.Helper()
	c, err := filecache.New(w.store, filecache.Config{Dir: w.dir, Limit: limit})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// push makes a version of some files.
func (w *world) push(contents map[string]string) files.Digest {
	w.t.Helper()
	dir := w.t.TempDir()
	for name, c := range contents {
		write(w.t, filepath.Join(dir, name), c)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	defer root.Close()
	scanned, err := tree.Scan(w.t.Context(), root, tree.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := tree.Push(w.t.Context(), w.store, root, scanned, "", time.Now(), nil); err != nil {
		w.t.Fatal(err)
	}
	return scanned.Digest
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *world) checkout(u filecache.Use) *filecache.Held {
	w.t.Helper()
	h, err := w.cache.Checkout(w.t.Context(), u)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) read(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		w.t.Error(err)
	}
	return string(b)
}

func TestOneDirectoryForAll(t *testing.T) {
	w := newWorld(t, 0)
	v := w.push(map[string]string{"a": "A", "b/c": "C"})
	var wait sync.WaitGroup
	dirs := make([]string, 8)
	for i := range dirs {
		wait.Go(func() {
			h, err := w.another(0).Checkout(t.Context(), filecache.Use{Version: v})
			if err != nil {
				t.Error(err)
				return
			}
			defer h.Release()
			dirs[i] = h.Dir
			if got := w.read(h.Dir + "/b/c"); got != "C" {
				t.Errorf("b/c is %q", got)
			}
		})
	}
	wait.Wait()
	for _, d := range dirs {
		if d != dirs[0] {
			t.Errorf("%s and %s", d, dirs[0])
		}
	}
	if got := w.store.Gets(); got != 3 { // two files and their list
		t.Errorf("%d chunks were fetched for 8 attempts, want 3", got)
	}
}

func TestVersionsShareFiles(t *testing.T) {
	w := newWorld(t, 0)
	big := strings.Repeat("x", 3*files.ChunkSize)
	one := w.checkout(filecache.Use{Version: w.push(map[string]string{"same": "S", "big": big + "1"})})
	defer one.Release()
	before := w.store.Gets()
	two := w.checkout(filecache.Use{Version: w.push(map[string]string{"renamed": "S", "big": big + "2"})})
	defer two.Release()
	a, errA := os.Stat(one.Dir + "/same")
	b, errB := os.Stat(two.Dir + "/renamed")
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		t.Error("a file that two versions have in common is there twice", errA, errB)
	}
	if got := w.store.Gets() - before; got != 2 { // the end of big, and the list
		t.Errorf("%d chunks were fetched, want 2", got)
	}
	if got := w.read(two.Dir + "/big"); got != big+"2" {
		t.Errorf("big ends with %q", got[len(got)-3:])
	}
}

// TestSpoiledFilesAreMended writes to the cache as a task of the superuser could.
func TestSpoiledFilesAreMended(t *testing.T) {
	w := newWorld(t, 0)
	v := w.push(map[string]string{"a": "A", "b": "B"})
	h := w.checkout(filecache.Use{Version: v})
	spoil := func(do func(dir string) error) {
		t.Helper()
		for _, err := range []error{os.Chmod(h.Dir, 0o755), do(h.Dir)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		h.Release()
		h = w.checkout(filecache.Use{Version: v})
		if a, b := w.read(h.Dir+"/a"), w.read(h.Dir+"/b"); a != "A" || b != "B" {
			t.Errorf("the files are %q and %q", a, b)
		}
	}
	spoil(func(dir string) error {
		return errors.Join(os.Chmod(dir+"/a", 0o644), os.WriteFile(dir+"/a", []byte("Z"), 0o644), os.Chmod(dir+"/a", 0o444))
	})
	spoil(func(dir string) error { return os.Remove(dir + "/b") })
	spoil(func(dir string) error {
		return errors.Join(os.Remove(dir+"/b"), os.Symlink("/etc/passwd", dir+"/b"))
	})
	spoil(func(dir string) error { return os.Chmod(dir+"/b", 0o600) })
	h.Release()
}

func TestCopiesAreTheAttemptsOwn(t *testing.T) {
	w := newWorld(t, 0)
	v := w.push(map[string]string{"a": "A", "d/e": "E"})
	h := w.checkout(filecache.Use{Version: v})
	defer h.Release()
	mine, yours := t.TempDir(), t.TempDir()
	if err := h.Populate(t.Context(), mine, filecache.Copy); err != nil {
		t.Fatal(err)
	}
	write(t, mine+"/a", "changed")
	write(t, mine+"/d/new", "new")
	if err := h.Populate(t.Context(), yours, filecache.Link); err != nil {
		t.Fatal(err)
	}
	if got := w.read(yours + "/a"); got != "A" {
		t.Errorf("another attempt finds %q", got)
	}
	a, _ := os.Stat(h.Dir + "/d/e")
	b, err := os.Stat(yours + "/d/e")
	if err != nil || !os.SameFile(a, b) || b.Mode() != 0o444 {
		t.Errorf("it is no link for reading: %v, %v", b, err)
	}
}

func TestRoomIsMade(t *testing.T) {
	w := newWorld(t, 3*files.ChunkSize)
	some := func(i int) map[string]string {
		return map[string]string{"x": strings.Repeat(fmt.Sprint(i), files.ChunkSize)}
	}
	held := w.checkout(filecache.Use{Version: w.push(some(0))})
	var dirs []string
	for i := 1; i < 6; i++ {
		h := w.checkout(filecache.Use{Version: w.push(some(i))})
		dirs = append(dirs, h.Dir)
		h.Release()
	}
	if got := w.read(held.Dir + "/x"); got != some(0)["x"] {
		t.Error("what is in use was removed")
	}
	held.Release()
	left := 0
	for _, d := range dirs {
		if _, err := os.Stat(d); err == nil {
			left++
		}
	}
	if left == 0 || left > 2 {
		t.Errorf("%d of 5 directories are left where there is room for 3 together", left)
	}
	if _, err := os.Stat(dirs[4]); err != nil {
		t.Error("the one that was used last was removed", err)
	}
}

func TestSetupRunsOnce(t *testing.T) {
	w := newWorld(t, 0)
	v := w.push(map[string]string{"a": "A"})
	var runs atomic.Int32
	first := make(chan struct{})
	use := filecache.Use{Version: v, Setup: &filecache.Setup{Lines: []string{"make"}, Run: func(_ context.Context, dir string) error {
		runs.Add(1)
		<-first
		return os.WriteFile(dir+"/made", []byte("of "+w.read(dir+"/a")), 0o600)
	}}}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			h, err := w.another(0).Checkout(t.Context(), use)
			if err != nil {
				t.Error(err)
				return
			}
			defer h.Release()
			if got := w.read(h.Dir + "/made"); got != "of A" {
				t.Errorf("made is %q", got)
			}
		})
	}
	close(first)
	wait.Wait()
	if runs.Load() != 1 {
		t.Errorf("it ran %d times for 4 attempts", runs.Load())
	}
	use.Setup = &filecache.Setup{Lines: []string{"make", "more"}, Run: use.Setup.Run}
	w.checkout(use).Release()
	if runs.Load() != 2 {
		t.Error("another setup did not run")
	}
	if plain := w.checkout(filecache.Use{Version: v}); true {
		if _, err := os.Stat(plain.Dir + "/made"); err == nil {
			t.Error("setup has changed the version itself")
		}
		plain.Release()
	}
}

// TestSetupThatFailsLeavesNothing fails once with half of its work done.
func TestSetupThatFailsLeavesNothing(t *testing.T) {
	w := newWorld(t, 0)
	failure := errors.New("no network")
	use := filecache.Use{Setup: &filecache.Setup{Lines: []string{"x"}, Run: func(_ context.Context, dir string) error {
		return errors.Join(os.WriteFile(dir+"/half", nil, 0o600), failure)
	}}}
	if _, err := w.cache.Checkout(t.Context(), use); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	use.Setup.Run = func(_ context.Context, dir string) error { return os.WriteFile(dir+"/whole", nil, 0o600) }
	h := w.checkout(use)
	defer h.Release()
	entries, err := os.ReadDir(h.Dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "whole" {
		t.Errorf("%v: %v", entries, err)
	}
}

// TestCancelledWaiterLeaves waits for a directory that somebody else makes.
func TestCancelledWaiterLeaves(t *testing.T) {
	w := newWorld(t, 0)
	begun, end := make(chan struct{}), make(chan struct{})
	use := filecache.Use{Setup: &filecache.Setup{Lines: []string{"x"}, Run: func(context.Context, string) error {
		close(begun)
		<-end
		return nil
	}}}
	done := make(chan error)
	go func() {
		h, err := w.cache.Checkout(t.Context(), use)
		if err == nil {
			h.Release()
		}
		done <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.another(0).Checkout(ctx, use); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeHadIsNamed(t *testing.T) {
	w := newWorld(t, 0)
	if _, err := w.cache.Checkout(t.Context(), filecache.Use{Version: files.DigestOf(nil)}); !errors.Is(err, tree.ErrNoVersion) {
		t.Error(err)
	}
	v := w.push(map[string]string{"a": "A"})
	w.store.Replace(files.DigestOf([]byte("A")), nil)
	_, err := w.cache.Checkout(t.Context(), filecache.Use{Version: v})
	if !errors.Is(err, tree.ErrNoChunk) || !strings.Contains(err.Error(), "a: ") {
		t.Error(err)
	}
	w.store.Replace(files.DigestOf([]byte("A")), []byte("A"))
	w.checkout(filecache.Use{Version: v}).Release()
}

// TestSpoiledWhileCopied: what is put around an attempt is what its version holds, whatever somebody does to the
// cache meanwhile; and what somebody has added to it is not of it.
func TestSpoiledWhileCopied(t *testing.T) {
	w := newWorld(t, 0)
	contents := map[string]string{}
	for i := range 40 {
		contents[fmt.Sprintf("d%d/f%d", i%4, i)] = strings.Repeat("x", 50_000)
	}
	v := w.push(contents)
	h := w.checkout(filecache.Use{Version: v})
	dir := h.Dir
	h.Release()
	stop, spoiling := make(chan struct{}), sync.WaitGroup{}
	spoiling.Go(func() {
		tick := time.NewTicker(4 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			name := fmt.Sprintf("%s/d%d/f%d", dir, i%4, i%40)
			_, _ = os.Chmod(name, 0o644), os.WriteFile(name, []byte("spoiled"), 0o644)
			_, _ = os.Chmod(filepath.Dir(name), 0o755), os.WriteFile(name+".stranger", nil, 0o644)
		}
	})
	had := 0
	for range 30 {
		into := t.TempDir()
		h, err := w.cache.Put(t.Context(), filecache.Use{Version: v}, into, filecache.Copy)
		if err != nil {
			continue // it does not stay as it was for long enough, and the attempt is told so
		}
		h.Release()
		had++
		if all, err := filepath.Glob(into + "/d*/*"); err != nil || len(all) != len(contents) {
			t.Errorf("%d files, %v, want %d", len(all), err, len(contents))
		}
		for name, want := range contents {
			if w.read(into+"/"+name) != want {
				t.Fatalf("%s is spoiled", name)
			}
		}
	}
	close(stop)
	spoiling.Wait()
	into := t.TempDir()
	h, err := w.cache.Put(t.Context(), filecache.Use{Version: v}, into, filecache.Copy)
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	t.Logf("%d of 30 had their files meanwhile", had)
}
