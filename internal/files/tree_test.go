package files_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/internal/files"
)

func rootAt(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func write(t *testing.T, name string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, mode); err != nil {
		t.Fatal(err)
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// sample is a folder with one of everything.
func sample(t *testing.T) string {
	dir := t.TempDir()
	write(t, dir+"/bin/run", []byte("#!/bin/sh\n"), 0o755)
	write(t, dir+"/big", noise(3*files.ChunkSize+17), 0o600)
	write(t, dir+"/sub/empty", nil, 0o644)
	for _, err := range []error{os.Mkdir(dir+"/void", 0o755), os.Symlink("../big", dir+"/sub/link"), syscall.Mkfifo(dir+"/pipe", 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func push(t *testing.T, s files.Store, dir string) (*files.Tree, files.Pushed) {
	t.Helper()
	root := rootAt(t, dir)
	scanned, err := files.Scan(t.Context(), root, files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := files.Push(t.Context(), s, root, scanned, "test", time.Unix(0, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	return scanned, p
}

func TestThereAndBack(t *testing.T) {
	store := files.NewMemory()
	dir := sample(t)
	scanned, p := push(t, store, dir)
	if len(scanned.Notes) != 1 || !strings.Contains(scanned.Notes[0], "a pipe") {
		t.Errorf("notes: %q", scanned.Notes)
	}
	if want := int64(3*files.ChunkSize + 17 + 10); p.Bytes != want {
		t.Errorf("%d bytes travelled, want %d", p.Bytes, want)
	}
	m, err := files.Held(t.Context(), store, scanned.Digest)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if _, err := files.Fetch(t.Context(), rootAt(t, out), m, files.Writing{Source: store}); err != nil {
		t.Fatal(err)
	}
	back, err := files.Scan(t.Context(), rootAt(t, out), files.Options{})
	if err != nil || back.Digest != scanned.Digest {
		t.Errorf("back is %v: %v", back, err)
	}
	if info, err := os.Stat(out + "/bin/run"); err != nil || info.Mode() != 0o755 || !info.ModTime().Equal(files.Stamp) {
		t.Errorf("%v: %v", info, err)
	}
}

func TestOnlyWhatIsMissingTravels(t *testing.T) {
	store := files.NewMemory()
	dir := sample(t)
	first, _ := push(t, store, dir)
	if again, p := push(t, store, dir); p.Bytes != 0 || again.Digest != first.Digest {
		t.Errorf("the same again: %d bytes", p.Bytes)
	}
	f, err := os.OpenFile(dir+"/big", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("changed"), files.ChunkSize+5); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	second, p := push(t, store, dir)
	if p.Bytes != files.ChunkSize {
		t.Errorf("a changed byte: %d bytes travelled", p.Bytes)
	}
	// The other way round, too: existing chunks are kept.
	out := rootAt(t, t.TempDir())
	for _, want := range []struct {
		m      *files.Manifest
		chunks int64
	}{{first.Manifest, 5}, {second.Manifest, 1}, {second.Manifest, 0}} {
		got, err := files.Fetch(t.Context(), out, want.m, files.Writing{Source: store})
		if err != nil || got.Chunks != want.chunks {
			t.Errorf("fetched %+v, want %d chunks: %v", got, want.chunks, err)
		}
	}
}

// cut is a source that fails after some chunks.
type cut struct {
	files.Source
	left int
}

func (c *cut) Get(ctx context.Context, d files.Digest) ([]byte, error) {
	if c.left--; c.left < 0 {
		return nil, errors.New("the cable was cut")
	}
	return c.Source.Get(ctx, d)
}

func TestInterruptedFetchGoesOn(t *testing.T) {
	store := files.NewMemory()
	dir := t.TempDir()
	write(t, dir+"/big", noise(20*files.ChunkSize), 0o644)
	scanned, _ := push(t, store, dir)
	out := rootAt(t, t.TempDir())
	// One chunk at a time, so that the count is exact.
	_, err := files.Fetch(t.Context(), out, scanned.Manifest, files.Writing{Source: locked(&cut{store, 12})})
	if err == nil || !strings.Contains(err.Error(), "big: the cable was cut") {
		t.Fatal(err)
	}
	got, err := files.Fetch(t.Context(), out, scanned.Manifest, files.Writing{Source: store})
	if err != nil || got.Chunks == 0 || got.Chunks > 8 {
		t.Errorf("fetched %+v: %v", got, err)
	}
	if back, err := files.Scan(t.Context(), out, files.Options{}); err != nil || back.Digest != scanned.Digest {
		t.Error("it is not whole", err)
	}
}

// serial answers one request at a time.
type serial struct {
	turn chan struct{}
	of   files.Source
}

func locked(of files.Source) serial { return serial{make(chan struct{}, 1), of} }

func (s serial) Get(ctx context.Context, d files.Digest) ([]byte, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.of.Get(ctx, d)
}

func TestDamagedAndMissingContent(t *testing.T) {
	store := files.NewMemory()
	dir := sample(t)
	scanned, _ := push(t, store, dir)
	d := scanned.Manifest.Find("big").Chunks[2]
	store.Replace(d, []byte("something else"))
	_, err := files.Fetch(t.Context(), rootAt(t, t.TempDir()), scanned.Manifest, files.Writing{Source: store})
	if err == nil || !strings.Contains(err.Error(), "big: content "+d.Short()+" is damaged") {
		t.Error(err)
	}
	store.Replace(d, nil)
	_, err = files.Fetch(t.Context(), rootAt(t, t.TempDir()), scanned.Manifest, files.Writing{Source: store})
	if !errors.Is(err, files.ErrNoChunk) || !strings.Contains(err.Error(), "big: ") {
		t.Error(err)
	}
	if _, p := push(t, store, dir); p.Bytes != files.ChunkSize {
		t.Errorf("pushing again stored %d bytes", p.Bytes)
	}
}

// TestFetchStaysInside writes to a folder with traps in it.
func TestFetchStaysInside(t *testing.T) {
	store := files.NewMemory()
	from := t.TempDir()
	write(t, from+"/dir/file", []byte("new"), 0o644)
	write(t, from+"/top", []byte("new"), 0o644)
	scanned, _ := push(t, store, from)
	outside, inside := t.TempDir(), t.TempDir()
	write(t, outside+"/file", []byte("old"), 0o644)
	write(t, outside+"/other", []byte("old"), 0o644)
	for _, err := range []error{os.Symlink(outside, inside+"/dir"), os.Link(outside+"/other", inside+"/top")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := files.Fetch(t.Context(), rootAt(t, inside), scanned.Manifest, files.Writing{Source: store}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/file", "/other"} {
		if got, _ := os.ReadFile(outside + name); string(got) != "old" {
			t.Errorf("outside%s was written to: %q", name, got)
		}
	}
	for _, name := range []string{"/dir/file", "/top"} {
		if got, _ := os.ReadFile(inside + name); string(got) != "new" {
			t.Errorf("inside%s is %q", name, got)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	for name, lay := range map[string]func(dir string) error{
		"link out":     func(dir string) error { return os.Symlink("../x", dir+"/a") },
		"link to root": func(dir string) error { return os.Symlink("/etc/passwd", dir+"/a") },
		"newline":      func(dir string) error { return os.WriteFile(dir+"/a\nb", nil, 0o644) },
		"not UTF-8":    func(dir string) error { return os.WriteFile(dir+"/\xff", nil, 0o644) },
	} {
		dir := t.TempDir()
		if err := lay(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Scan(t.Context(), rootAt(t, dir), files.Options{}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	dir := sample(t)
	if _, err := files.Scan(t.Context(), rootAt(t, dir), files.Options{MaxBytes: 1000}); !errors.Is(err, files.ErrTooMuch) {
		t.Error(err)
	}
}

func TestFileThatChangesWhileItIsPushed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", []byte("one"), 0o644)
	root := rootAt(t, dir)
	scanned, err := files.Scan(t.Context(), root, files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/a", []byte("two"), 0o644)
	store := files.NewMemory()
	_, err = files.Push(t.Context(), store, root, scanned, "", time.Time{}, nil)
	if err == nil || !strings.Contains(err.Error(), "a changed while it was pushed") {
		t.Error(err)
	}
	if _, err := store.Version(t.Context(), scanned.Digest); !errors.Is(err, files.ErrNoVersion) {
		t.Error("half a version is known", err)
	}
}

func TestIgnoreFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/"+files.IgnoreFile, []byte("*.log\n/cache/\n"), 0o644)
	write(t, dir+"/a.log", nil, 0o644)
	write(t, dir+"/cache/x", nil, 0o644)
	write(t, dir+"/b.tmp", nil, 0o644)
	write(t, dir+"/c", nil, 0o644)
	root := rootAt(t, dir)
	ig, err := files.ReadIgnore(root, "*.tmp")
	if err != nil {
		t.Fatal(err)
	}
	scanned, err := files.Scan(t.Context(), root, files.Options{Ignore: ig})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, e := range scanned.Manifest.Entries {
		b.WriteString(e.Path + " ")
	}
	if got := b.String(); got != ".millraceignore c " {
		t.Error(got)
	}
}

// A file is replaced, added, renamed or removed in a version without the others, and what the store lacks is not
// passed off as stored.
func TestEdited(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "one", "b": strings.Repeat("x", files.ChunkSize+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := files.NewMemory()
	root := rootAt(t, dir)
	tree, err := files.Scan(ctx, root, files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.Push(ctx, s, root, tree, "ada", time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	change := func(s files.Store, c files.Edit) (files.Version, error) {
		is, err := files.Edited(tree.Manifest, c)
		if err != nil {
			return files.Version{}, err
		}
		return is.Store(ctx, s, "ann", time.Now())
	}
	for _, text := range []string{"two", "", strings.Repeat("y", 2*files.ChunkSize+7), "one"} {
		v, err := change(s, files.Edit{Path: "a", To: "a", Content: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := files.Held(ctx, s, v.Digest)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, d := range m.Find("a").Chunks {
			part, err := s.Get(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, part...)
		}
		if string(got) != text || !m.Find("a").Exec || !m.Find("b").Same(tree.Manifest.Find("b")) || (v.Digest == tree.Digest) != (text == "one") {
			t.Errorf("%d bytes became %d, in %+v", len(text), len(got), v)
		}
	}
	if tree.Manifest.Find("a").Size != 3 {
		t.Error("the manifest that was given has changed")
	}
	for want, c := range map[string]files.Edit{
		"a b c/d": {To: "c/d", Content: []byte("new"), Exec: true},
		"b c":     {Path: "a", To: "c"},
		"a b z":   {To: "z", Content: []byte{}},
		"b":       {Path: "a"},
	} {
		v, err := change(s, c)
		if err != nil {
			t.Fatal(err)
		}
		m, err := files.Held(ctx, s, v.Digest)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for i := range m.Entries {
			paths = append(paths, m.Entries[i].Path)
		}
		if is := m.Find(c.To); strings.Join(paths, " ") != want || is != nil && (is.Exec != (c.Exec || c.Path != "") || c.Content == nil && !is.Same(tree.Manifest.Find(c.Path))) {
			t.Errorf("%+v made %+v", c, m.Entries)
		}
	}
	for _, c := range []files.Edit{
		{}, {Path: "none"}, {Path: "none", To: "none", Content: []byte{}}, {To: "a", Content: []byte{}}, {Path: "a", To: "b"}, {To: "a/b", Content: []byte{}}, {To: "../x", Content: []byte{}}, {Path: "a", To: "/x"}, {Path: "a", To: "x\n"},
	} {
		if _, err := change(s, c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if _, err := change(files.NewMemory(), files.Edit{Path: "a", To: "a", Content: []byte("two")}); !errors.Is(err, files.ErrNoChunk) {
		t.Errorf("a store without the other file takes the version: %v", err)
	}
}
