package filecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"millrace/internal/files"
)

// errNoSpace is the kernel's error for a full disk or an exhausted quota.
var errNoSpace = syscall.ENOSPC

// fetch makes the directory of a version. It checks and keeps what is already there, copies what
// other versions have, and fetches the rest from the store.
func (c *Cache) fetch(ctx context.Context, s slot, u Use) error {
	began := time.Now()
	manifest, err := s.readManifest()
	if err != nil {
		if manifest, err = files.Held(ctx, c.store, u.Version); err != nil {
			return err
		}
		text, _, err := files.Encode(manifest)
		if err != nil {
			return err
		}
		if err := files.Write(s.manifest(), text); err != nil {
			return err
		}
	}
	if err := c.room(s, manifest); err != nil {
		return err
	}
	if err := unseal(s.tree()); err != nil {
		return err
	}
	if err := tidy(s.tree(), manifest); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.tree())
	if err != nil {
		return err
	}
	defer root.Close()
	near := c.neighbours(s.key, manifest)
	defer near.close()
	source := &chunks{near: near, store: c.store}
	_, err = files.Fetch(ctx, root, manifest, files.Writing{
		Source: source, ReadOnly: true, Each: u.Progress,
	})
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; free some space on this node, or move its cache with --files-cache", err)
	case err != nil:
		return err
	}
	if u.Fetched != nil {
		u.Fetched(files.Fetched{Chunks: source.count.Load(), Bytes: source.bytes.Load()}, time.Since(began))
	}
	return seal(s.tree())
}

// room refuses a version that is larger than the cache may be, or than the free space on its disk,
// before any of it is written. Parts that are already there count as free space.
func (c *Cache) room(s slot, m *files.Manifest) error {
	need := m.Footprint()
	if need > c.cfg.Limit {
		return fmt.Errorf("%w: it takes %d bytes, and the cache of this node may hold %d; push less, or raise --files-limit of the worker", ErrTooLarge, need, c.cfg.Limit)
	}
	free, ok := c.free(s.dir)
	if !ok {
		return nil // the writer will find out
	}
	err := filepath.WalkDir(s.tree(), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				free += info.Size()
			}
		}
		return err
	})
	if err != nil || need <= free {
		return err
	}
	return fmt.Errorf("%w: it takes %d bytes, and %d are free; free some space on this node, or move its cache with --files-cache", errNoSpace, need, free)
}

// ErrTooLarge refuses a version that the cache could never hold.
var ErrTooLarge = errors.New("the version is too large for this node")

// tidy removes files that do not belong to the version: something has put them there.
func tidy(dir string, m *files.Manifest) error {
	wanted := paths(m)
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || wanted[rel] {
			return err
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// paths returns all paths of a version, directories included.
func paths(m *files.Manifest) map[string]bool {
	all := make(map[string]bool, len(m.Entries))
	for i := range m.Entries {
		for p := m.Entries[i].Path; p != "." && !all[p]; p = filepath.Dir(p) {
			all[p] = true
		}
	}
	return all
}

// prepare makes the directory that setup commands produce. They run in its final place, because
// installed programs often record their own path.
func (c *Cache) prepare(ctx context.Context, s slot, u Use) error {
	if err := unseal(s.tree()); err != nil {
		return err
	}
	if err := os.RemoveAll(s.tree()); err != nil {
		return err
	}
	if err := os.Mkdir(s.tree(), 0o700); err != nil {
		return err
	}
	if u.Version != "" {
		plain, err := c.Put(ctx, Use{Version: u.Version, Fetched: u.Fetched, Progress: u.Progress}, s.tree(), Copy)
		if err != nil {
			return err
		}
		plain.Release()
	}
	if u.Setup.User != "" { // that user must get there
		if err := os.Chmod(s.dir, 0o711); err != nil {
			return err
		}
		defer func() { _ = os.Chmod(s.dir, 0o700) }()
	}
	if err := u.Setup.Run(ctx, s.tree()); err != nil {
		return err
	}
	if err := seal(s.tree()); err != nil {
		return err
	}
	return syncDisk(s.tree())
}

// seal removes the right to write from everything in a directory, and from itself.
func seal(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, p)
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode(); mode&0o222 != 0 {
			return os.Chmod(p, mode&^0o222)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = os.Chmod(dirs[i], 0o555)
	}
	return err
}

// unseal restores the right to make and remove entries in directories.
func unseal(dir string) error {
	if err := os.Chmod(dir, 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(p, 0o755) // before it is read
		}
		return err
	})
}
