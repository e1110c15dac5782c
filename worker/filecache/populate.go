package filecache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Mode says how files get into another directory.
type Mode uint8

// Modes of [Held.Populate].
const (
	// Copy makes separate files, which share their blocks where the file system can.
	Copy Mode = iota
	// Link makes hard links, or copies where that is not possible.
	Link
)

// Put puts a version into an empty directory, and returns the cached directory that it came from,
// as Checkout does. If a task has changed that meanwhile, Put starts again; not with links, where
// such a change changes both ends.
func (c *Cache) Put(ctx context.Context, u Use, into string, mode Mode) (*Held, error) {
	for range maxMakes {
		held, err := c.Checkout(ctx, u)
		if err != nil {
			return nil, err
		}
		err = held.Populate(ctx, into, mode)
		// A link moves the time by which a change is detected.
		sound := mode == Link || c.sound(held.slot, u)
		if err == nil && sound {
			return held, nil
		}
		held.Release()
		if err != nil && sound {
			return nil, fmt.Errorf("they could not be put into the working directory: %w", err)
		}
		if err := empty(into); err != nil {
			return nil, err
		}
	}
	return nil, c.unsteady()
}

// empty removes everything in a directory.
func empty(dir string) error {
	all, err := os.ReadDir(dir)
	for _, e := range all {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// Populate puts all files into a directory; no other process may write there meanwhile. It leaves
// out files that were added to a version.
func (h *Held) Populate(ctx context.Context, into string, mode Mode) error {
	ours := map[string]bool(nil) // nil for everything there
	if !h.slot.setUp() {
		manifest, err := h.slot.readManifest()
		if err != nil {
			return err
		}
		ours = paths(manifest)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	err := filepath.WalkDir(h.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rel, err := filepath.Rel(h.Dir, p)
		if err != nil || rel == "." {
			return err
		}
		if ours != nil && !ours[rel] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		to := filepath.Join(into, rel)
		switch {
		case d.IsDir():
			return os.Mkdir(to, 0o755)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		case !d.Type().IsRegular():
			return nil // a setup has left a socket or the like; it cannot be copied
		}
		g.Go(func() error {
			if mode == Link && os.Link(p, to) == nil {
				return nil
			}
			return copyFile(ctx, p, to)
		})
		return nil
	})
	if failed := g.Wait(); failed != nil {
		return failed // it also ended the walk
	}
	return err
}

func copyFile(ctx context.Context, from, to string) (err error) {
	in, err := openPlain(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
		if err == nil {
			err = os.Chtimes(to, info.ModTime(), info.ModTime()) // tools compare times
		}
	}()
	if cloneFile(out, in) == nil {
		return nil
	}
	for left := info.Size(); left > 0; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := io.CopyN(out, in, min(left, copyStep)) // in the kernel, where that can
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// copyStep is how many bytes are copied before the copy checks whether it is still wanted.
const copyStep = 64 << 20
