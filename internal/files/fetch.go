package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Stamp is the modification time of all files that [Fetch] writes: bundles have no times, and a
// file with another time was changed since.
var Stamp = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Writing says how a version is written.
type Writing struct {
	// Source is where chunks come from.
	Source Source
	// ReadOnly makes files read-only (0444, 0555). Default: the owner may write.
	ReadOnly bool
	// Each, if not nil, is called after each chunk with the bytes written so far, and the total.
	Each func(done, of int64)
}

// Fetched is the result of writing a version.
type Fetched struct {
	// Chunks and Bytes count what came from the source.
	Chunks, Bytes int64
}

// Fetch writes a version below a root. It keeps right chunks of existing files and rewrites wrong
// ones, so the next Fetch continues an interrupted one. It leaves other files alone. The error
// names the file; it wraps [ErrNoChunk] if the store lacks a part of it.
func Fetch(ctx context.Context, root *os.Root, m *Manifest, w Writing) (Fetched, error) {
	asked := ctx
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	f := &fetch{w: w, root: root, buffers: newBuffers(), told: newTally(m.Size(), w.Each), made: map[string]bool{".": true}}
	for i := range m.Entries {
		if ctx.Err() != nil {
			break
		}
		e := &m.Entries[i]
		if err := f.entry(ctx, g, e); err != nil {
			_ = g.Wait() // the first error is the one to report
			return f.done(), fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	if err := g.Wait(); err != nil {
		return f.done(), err
	}
	return f.done(), asked.Err()
}

type fetch struct {
	w       Writing
	root    *os.Root
	buffers *buffers
	told    *tally
	made    map[string]bool // directories
	chunks  atomic.Int64
	bytes   atomic.Int64
}

func (f *fetch) done() Fetched { return Fetched{Chunks: f.chunks.Load(), Bytes: f.bytes.Load()} }

func (f *fetch) entry(ctx context.Context, g *errgroup.Group, e *Entry) error {
	dir := path.Dir(e.Path)
	if e.Dir {
		dir = e.Path
	}
	if err := f.mkdir(dir); err != nil || e.Dir {
		return err
	}
	if e.Link != "" {
		return f.link(e)
	}
	if e.Size <= ChunkSize {
		g.Go(func() error {
			file, fresh, err := f.file(e)
			if err == nil {
				file.users.Store(1)
				if e.Size > 0 {
					err = f.chunk(ctx, file.File, e, 0, fresh)
				}
				if left := file.leave(); err == nil {
					err = left
				}
			}
			return of(e, err)
		})
		return nil
	}
	file, fresh, err := f.file(e)
	if err != nil {
		return err
	}
	file.users.Store(int32(len(e.Chunks)) + 1)
	for n := range e.Chunks {
		g.Go(func() error {
			err := ctx.Err()
			if err == nil {
				err = f.chunk(ctx, file.File, e, n, fresh)
			}
			if left := file.leave(); err == nil {
				err = left
			}
			return of(e, err)
		})
	}
	return file.leave()
}

func of(e *Entry, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", e.Path, err)
}

// mkdir makes a directory. It removes anything else at that path: the bundle decides what is there.
func (f *fetch) mkdir(dir string) error {
	if f.made[dir] {
		return nil
	}
	if err := f.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	info, err := f.root.Lstat(dir)
	if err == nil && !info.IsDir() {
		if err := f.root.Remove(dir); err != nil {
			return err
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = f.root.Mkdir(dir, 0o755)
	}
	if err != nil {
		return err
	}
	f.made[dir] = true
	return nil
}

func (f *fetch) link(e *Entry) error {
	if now, err := f.root.Readlink(e.Path); err == nil && now == e.Link {
		return nil
	}
	if err := f.clear(e.Path); err != nil {
		return err
	}
	return f.root.Symlink(e.Link, e.Path)
}

// clear removes what is at a path, unless it is a non-empty directory.
func (f *fetch) clear(p string) error {
	if err := f.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// file opens a file for writing. It is fresh if it has no content worth keeping.
func (f *fetch) file(e *Entry) (*shared, bool, error) {
	fresh := true
	if info, err := f.root.Lstat(e.Path); err == nil {
		// A file with several names would change under all of them.
		if fresh = !info.Mode().IsRegular() || linked(info) && intact(f.root, e, f.buffers) != nil; fresh {
			if err := f.clear(e.Path); err != nil {
				return nil, false, err
			}
		} else if err := f.root.Chmod(e.Path, 0o600); err != nil {
			return nil, false, err
		}
	}
	flags := os.O_RDWR | os.O_CREATE
	if fresh {
		flags |= os.O_EXCL
	}
	file, err := f.root.OpenFile(e.Path, flags, 0o600)
	if err != nil {
		return nil, false, err
	}
	if !fresh || e.Size > ChunkSize { // chunks come in any order
		err = file.Truncate(e.Size)
	}
	if err != nil {
		_ = file.Close()
		return nil, false, err
	}
	mode := fs.FileMode(0o644)
	if f.w.ReadOnly {
		mode = 0o444
	}
	if e.Exec {
		mode |= 0o111
	}
	return &shared{File: file, last: func(file *os.File) error {
		if err := file.Chmod(mode); err != nil {
			return err
		}
		return f.root.Chtimes(e.Path, Stamp, Stamp)
	}}, fresh, nil
}

// chunk makes sure that a chunk of a file is written.
func (f *fetch) chunk(ctx context.Context, file *os.File, e *Entry, n int, fresh bool) error {
	at, size, d := int64(n)*ChunkSize, e.ChunkBytes(n), e.Chunks[n]
	if !fresh {
		buf := f.buffers.get()
		_, err := file.ReadAt(buf[:size], at)
		right := (err == nil || errors.Is(err, io.EOF)) && d.Check(buf[:size]) == nil
		f.buffers.put(buf)
		if right {
			f.told.add(size)
			return nil
		}
	}
	b, err := f.w.Source.Get(ctx, d)
	if err != nil {
		return err
	}
	if int64(len(b)) != size {
		return fmt.Errorf("content %s has %d bytes, the list of files says %d", d.Short(), len(b), size)
	}
	if _, err := file.WriteAt(b, at); err != nil {
		return err
	}
	f.chunks.Add(1)
	f.bytes.Add(size)
	f.told.add(size)
	return nil
}
