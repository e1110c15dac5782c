package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Options say which files of a directory are read.
type Options struct {
	// Ignore is what is left out.
	Ignore Ignore
	// Only, if set, are the patterns of the files to take; see [files.Glob].
	Only []string
	// MaxBytes, if set, is how large all files together may be; beyond it the error wraps
	// [ErrTooMuch].
	MaxBytes int64
	// As calls do with the rights with which files are opened, here and in [Push]. Default: this
	// program's rights.
	As func(do func() error) error
}

func (o *Options) as(do func() error) error {
	if o.As == nil {
		return do()
	}
	return o.As(do)
}

// ErrTooMuch: the files are larger than [Options.MaxBytes].
var ErrTooMuch = errors.New("it is too much")

// Tree is a directory that was read, or a version with a change.
type Tree struct {
	Manifest *Manifest
	// Digest is its version, and text the encoded manifest.
	Digest Digest
	text   []byte
	// Notes name entries that were left out because they are not files.
	Notes []string

	as    func(do func() error) error // see [Options.As]
	parts map[Digest][]byte           // chunks of a file that lies nowhere: see [Edited]
}

// Scan reads everything below a root. It leaves out devices, sockets and pipes, with a note. The
// error names the first path that cannot be part of a bundle: a name that is not plain text, a link
// that leads out.
func Scan(ctx context.Context, root *os.Root, o Options) (*Tree, error) {
	t := &Tree{Manifest: &Manifest{}, as: o.as}
	holds := map[string]bool{} // directories with entries that are taken
	var dirs []string
	err := o.as(func() error { return t.walk(ctx, root, &o, holds, &dirs) })
	if err != nil {
		return nil, err
	}
	if len(o.Only) == 0 {
		t.empty(dirs, holds)
	}
	if err := t.hash(ctx, root, o); err != nil {
		return nil, err
	}
	t.text, t.Digest, err = Encode(t.Manifest)
	return t, err
}

// walk lists everything below a root: its entries, and all directories. holds gets the directories
// with entries that are taken.
func (t *Tree) walk(ctx context.Context, root *os.Root, o *Options, holds map[string]bool, dirs *[]string) error {
	var total int64
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p == "." {
			return nil
		}
		if o.Ignore.Match(p, d.IsDir()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			*dirs = append(*dirs, p)
			return nil
		}
		if len(o.Only) > 0 && !Glob(o.Only, p) {
			return nil
		}
		e := Entry{Path: p}
		switch d.Type() {
		case 0:
			info, err := d.Info()
			if err != nil {
				return err
			}
			if total += info.Size(); o.MaxBytes > 0 && total > o.MaxBytes {
				return fmt.Errorf("%w: more than %d bytes with %s", ErrTooMuch, o.MaxBytes, p)
			}
		case fs.ModeSymlink:
			if e.Link, err = root.Readlink(p); err != nil {
				return err
			}
		default:
			t.Notes = append(t.Notes, fmt.Sprintf("%q is left out: it is %s", p, kindOf(d.Type())))
			return nil
		}
		t.Manifest.Entries = append(t.Manifest.Entries, e)
		for dir := path.Dir(p); dir != "." && !holds[dir]; dir = path.Dir(dir) {
			holds[dir] = true
		}
		return nil
	})
}

// empty adds the empty directories, the deepest first.
func (t *Tree) empty(dirs []string, holds map[string]bool) {
	for i := len(dirs) - 1; i >= 0; i-- {
		if p := dirs[i]; !holds[p] {
			t.Manifest.Entries = append(t.Manifest.Entries, Entry{Path: p, Dir: true})
			for dir := path.Dir(p); dir != "." && !holds[dir]; dir = path.Dir(dir) {
				holds[dir] = true
			}
		}
	}
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no file"
}

// hash reads the contents of all files.
func (t *Tree) hash(ctx context.Context, root *os.Root, o Options) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	buffers := newBuffers()
	for i := range t.Manifest.Entries {
		e := &t.Manifest.Entries[i]
		if !e.Regular() {
			continue
		}
		g.Go(func() error {
			buf := buffers.get()
			defer buffers.put(buf)
			return hashFile(ctx, root, e, buf[:ChunkSize], t.as)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if n := t.Manifest.Size(); o.MaxBytes > 0 && n > o.MaxBytes { // one may have grown
		return fmt.Errorf("%w: more than %d bytes", ErrTooMuch, o.MaxBytes)
	}
	return nil
}

func hashFile(ctx context.Context, root *os.Root, e *Entry, buf []byte, as func(func() error) error) error {
	f, err := openAs(root, e.Path, as)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	e.Exec = info.Mode()&0o111 != 0
	for ctx.Err() == nil {
		n, err := io.ReadFull(f, buf)
		if n > 0 {
			e.Size += int64(n)
			e.Chunks = append(e.Chunks, DigestOf(buf[:n]))
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		default:
			return err
		}
	}
	return ctx.Err()
}

// openAs is open with the rights that as gives.
func openAs(root *os.Root, p string, as func(func() error) error) (f *os.File, err error) {
	err = as(func() (err error) {
		f, err = open(root, p)
		return err
	})
	return f, err
}

// open opens a file that was regular when its directory was listed. If a pipe has taken its place,
// open does not wait for the pipe's other side.
func open(root *os.Root, p string) (*os.File, error) {
	f, err := root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s changed while it was read: try again", p)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// ReadIgnore reads the [files.IgnoreFile] of a directory, if it has one, and adds further patterns.
func ReadIgnore(root *os.Root, more ...string) (Ignore, error) {
	text, err := root.ReadFile(IgnoreFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Ignore{}, err
	}
	ig, err := ParseIgnore(append(strings.Split(string(text), "\n"), more...)...)
	if err != nil {
		return ig, fmt.Errorf("what is to be left out: %w", err)
	}
	return ig, nil
}
