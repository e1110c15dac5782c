package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Verify reads a version that [Fetch] has written read-only below a root, and compares all of it
// with the manifest. The error names the first path that differs. Other files there do not matter.
func Verify(root *os.Root, m *Manifest) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	buffers := newBuffers()
	for i := range m.Entries {
		e := &m.Entries[i]
		if e.Regular() {
			g.Go(func() error { return verifyFile(root, e, buffers) })
			continue
		}
		if err := verifyOther(root, e); err != nil {
			return errors.Join(err, g.Wait())
		}
	}
	return g.Wait()
}

// changed is the error for a path that differs from what was written.
func changed(e *Entry) error { return fmt.Errorf("%s has changed since it was written", e.Path) }

func verifyOther(root *os.Root, e *Entry) error {
	if e.Dir {
		if info, err := root.Lstat(filepath.FromSlash(e.Path)); err != nil || !info.IsDir() {
			return errors.Join(changed(e), err)
		}
		return nil
	}
	if to, err := root.Readlink(filepath.FromSlash(e.Path)); err != nil || to != e.Link {
		return errors.Join(changed(e), err)
	}
	return nil
}

func verifyFile(root *os.Root, e *Entry, b *buffers) error {
	mode := fs.FileMode(0o444)
	if e.Exec {
		mode = 0o555
	}
	// Not the file that a link leads to.
	info, err := root.Lstat(filepath.FromSlash(e.Path))
	if err != nil || info.Mode() != mode || !info.ModTime().Equal(Stamp) {
		return errors.Join(changed(e), err)
	}
	return intact(root, e, b)
}

// intact checks whether an existing file has the wanted content.
func intact(root *os.Root, e *Entry, b *buffers) error {
	file, err := open(root, e.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() != e.Size {
		return errors.Join(changed(e), err)
	}
	buf := b.get()
	defer b.put(buf)
	for n, d := range e.Chunks {
		part := buf[:e.ChunkBytes(n)]
		if _, err := file.ReadAt(part, int64(n)*ChunkSize); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if d.Check(part) != nil {
			return changed(e)
		}
	}
	return nil
}
