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
	"syscall"
	"testing"
	"time"

	"millrace/internal/files"
	"millrace/internal/testkit"
	"millrace/worker/filecache"
)

func TestMain(m *testing.M) { os.Exit(testkit.Thrifty(m).Run()) }

// world is a store, and a cache on it.
type world struct {
	t     *testing.T
	store *files.Memory
	dir   string
	cache *filecache.Cache
}

func newWorld(t *testing.T, limit int64) *world {
	t.Helper()
	w := &world{t: t, store: files.NewMemory(), dir: filepath.Join(t.TempDir(), "cache")}
	w.cache = w.another(limit)
	t.Cleanup(func() { // else the sealed files could not be removed
		_ = filepath.WalkDir(w.dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(p, 0o755)
			}
			return err
		})
	})
	return w
}

// another opens the same cache as another process would.
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
	scanned, err := files.Scan(w.t.Context(), root, files.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := files.Push(w.t.Context(), w.store, root, scanned, "", time.Now(), nil); err != nil {
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
	if errA != nil || errB != nil || os.SameFile(a, b) {
		t.Error("who spoils a file of one version spoils that of another", errA, errB)
	}
	if got := w.store.Gets() - before; got != 2 { // the end of big, and the list
		t.Errorf("%d chunks were fetched, want 2", got)
	}
	if got := w.read(two.Dir + "/big"); got != big+"2" {
		t.Errorf("big ends with %q", got[len(got)-3:])
	}
}

// TestSpoiledFilesAreMended writes to the cache as a task of the worker's user can.
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
	spoil(func(dir string) error { return overwrite(dir+"/a", "Z") })
	spoil(func(dir string) error { return errors.Join(overwrite(dir+"/a", "Z"), os.Chmod(dir, 0o555)) })
	h.Release()
	// Another process does not know what this one has read, so it reads the directory itself.
	if err := overwrite(h.Dir+"/a", "Z"); err != nil {
		t.Fatal(err)
	}
	w.cache = w.another(0)
	h = w.checkout(filecache.Use{Version: v})
	defer h.Release()
	if a := w.read(h.Dir + "/a"); a != "A" {
		t.Errorf("another process finds %q", a)
	}
}

// overwrite writes to a file and leaves size, mode and time as they were.
func overwrite(name, text string) error {
	was, err := os.Stat(name)
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(name, 0o644), os.WriteFile(name, []byte(text), 0o644), os.Chmod(name, was.Mode()), os.Chtimes(name, was.ModTime(), was.ModTime()))
}

// TestSpoiledSetupIsMadeAgain: the result of setup commands is checked for changes, too.
func TestSpoiledSetupIsMadeAgain(t *testing.T) {
	w := newWorld(t, 0)
	runs := 0
	use := filecache.Use{Setup: &filecache.Setup{Lines: []string{"make"}, Run: func(_ context.Context, dir string) error {
		runs++
		return errors.Join(os.Mkdir(dir+"/bin", 0o755), os.WriteFile(dir+"/bin/tool", []byte("good"), 0o755), os.Symlink("/usr/bin", dir+"/link"))
	}}}
	for i, spoil := range []func(dir string) error{
		func(dir string) error { return overwrite(dir+"/bin/tool", "EVIL") },
		func(dir string) error {
			return errors.Join(os.Chmod(dir+"/bin", 0o755), os.WriteFile(dir+"/bin/more", nil, 0o755), os.Chmod(dir+"/bin", 0o555))
		},
		func(dir string) error { return os.Chmod(dir+"/bin/tool", 0o444) },
		func(dir string) error {
			return errors.Join(os.Chmod(dir, 0o755), os.Remove(dir+"/link"), os.Symlink("/tmp", dir+"/link"), os.Chmod(dir, 0o555))
		},
		// A process that did not make it accepts it as it is.
		func(string) error { w.cache = w.another(0); runs--; return nil },
		func(dir string) error { w.cache = w.another(0); return overwrite(dir+"/bin/tool", "EVIL") },
		nil,
	} {
		h := w.checkout(use)
		if got, link := w.read(h.Dir+"/bin/tool"), ""; got != "good" {
			t.Errorf("step %d: the tool is %q", i, got)
		} else if link, _ = os.Readlink(h.Dir + "/link"); link != "/usr/bin" {
			t.Errorf("step %d: the link leads to %q", i, link)
		}
		h.Release()
		if again := w.checkout(use); again.Dir != h.Dir || runs != i+1 && i < 4 {
			t.Errorf("step %d: setup ran %d times", i, runs)
		} else {
			again.Release()
		}
		if spoil != nil {
			if err := spoil(h.Dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if runs != 5 {
		t.Errorf("setup ran %d times, want 5: at first, and for each time that it was spoiled but those that nobody saw", runs)
	}
}

// TestStrangersInSharedFiles: an attempt that uses the directory in place finds no added files.
func TestStrangersInSharedFiles(t *testing.T) {
	w := newWorld(t, 0)
	v := w.push(map[string]string{"a": "A", "d/b": "B"})
	use := filecache.Use{Version: v, Shared: true}
	h := w.checkout(use)
	for _, at := range []string{"/sitecustomize.py", "/d/sitecustomize.py"} {
		dir := filepath.Dir(h.Dir + at)
		if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(h.Dir+at, nil, 0o644), os.Chmod(dir, 0o555)); err != nil {
			t.Fatal(err)
		}
		h.Release()
		h = w.checkout(use)
		if _, err := os.Stat(h.Dir + at); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", at, err)
		}
	}
	h.Release()
}

// TestYoungFilesAreReadAgain: of two changes at nearly the same time the kernel may note one. A
// file that is spoiled right after it was made, or read, is found all the same.
func TestYoungFilesAreReadAgain(t *testing.T) {
	w := newWorld(t, 0)
	for i := range 10 {
		v := w.push(map[string]string{"a": fmt.Sprintf("%03d", i)})
		h := w.checkout(filecache.Use{Version: v})
		if err := overwrite(h.Dir+"/a", "bad"); err != nil {
			t.Fatal(err)
		}
		h.Release()
		h = w.checkout(filecache.Use{Version: v})
		if got := w.read(h.Dir + "/a"); got == "bad" {
			t.Fatalf("file %d is spoiled", i)
		}
		h.Release()
	}
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

// TestChunkBomb: a short list may name one chunk a thousand times. It is refused before a byte is
// written.
func TestChunkBomb(t *testing.T) {
	w := newWorld(t, 50<<20)
	chunk := []byte(strings.Repeat("x", files.ChunkSize))
	e := files.Entry{Size: 1000 * files.ChunkSize, Chunks: make([]files.Digest, 1000)}
	for i := range e.Chunks {
		e.Chunks[i] = files.DigestOf(chunk)
	}
	commit := func(entries ...files.Entry) files.Digest {
		text, digest, err := files.Encode(&files.Manifest{Entries: entries})
		if err != nil {
			t.Fatal(err)
		}
		v := files.Version{Digest: digest, Size: int64(len(text)), Bytes: 10}
		for i := 0; i < len(text); i += files.ChunkSize {
			part := text[i:min(i+files.ChunkSize, len(text))]
			v.Chunks = append(v.Chunks, files.DigestOf(part))
			if err := w.store.Put(t.Context(), files.DigestOf(part), part); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.store.Put(t.Context(), e.Chunks[0], chunk), w.store.Commit(t.Context(), v)); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	var many []files.Entry // only names
	for i := range 20_000 {
		many = append(many, files.Entry{Path: fmt.Sprintf("f%05d", i)})
	}
	one := e
	one.Path = "bomb"
	for what, v := range map[string]files.Digest{"a file": commit(one), "empty files": commit(many...)} {
		if h, err := w.cache.Checkout(t.Context(), filecache.Use{Version: v}); !errors.Is(err, filecache.ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", what, err)
			h.Release()
		}
		if left, _ := filepath.Glob(w.dir + "/trees/" + string(v) + "/tree/*"); len(left) > 0 {
			t.Errorf("%s: it has written %d entries", what, len(left))
		}
	}
	// A cache that may hold it looks at the disk.
	w.cache = w.another(1 << 40)
	w.cache.SetFree(one.Size)
	if h, err := w.cache.Checkout(t.Context(), filecache.Use{Version: commit(one)}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, want ENOSPC", err)
		h.Release()
	}
	w.cache.SetFree(one.Size + 1<<20)
	w.checkout(filecache.Use{Version: commit(one)}).Release()
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

// TestCancelledWaiterLeaves waits for a directory that another checkout makes.
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
	if _, err := w.cache.Checkout(t.Context(), filecache.Use{Version: files.DigestOf(nil)}); !errors.Is(err, files.ErrNoVersion) {
		t.Error(err)
	}
	v := w.push(map[string]string{"a": "A"})
	w.store.Replace(files.DigestOf([]byte("A")), nil)
	_, err := w.cache.Checkout(t.Context(), filecache.Use{Version: v})
	if !errors.Is(err, files.ErrNoChunk) || !strings.Contains(err.Error(), "a: ") {
		t.Error(err)
	}
	w.store.Replace(files.DigestOf([]byte("A")), []byte("A"))
	w.checkout(filecache.Use{Version: v}).Release()
}

// TestSpoiledWhileCopied: an attempt gets the contents of its version, whatever a task does to the
// cache meanwhile, and no files that were added.
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
			continue // it changes all the time, and the attempt is told so
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
