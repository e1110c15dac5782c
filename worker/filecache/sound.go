package filecache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/internal/files"
)

// A task of the worker's own user can write to the cache, and can restore sizes, modes and times.
// It cannot restore the time at which the kernel recorded a change of a file's state. So a process
// trusts a directory that it has read completely as long as all those times stay the same;
// otherwise it reads it again. What a process knows of a directory stays in its memory: on the disk
// such a task could change that, too.

// known is what this process knows of a directory that it has read.
type known struct {
	look look
	// contents is the digest of a directory that setup commands have made.
	contents files.Digest
	// strangers tells whether the directory holds more than its version.
	strangers bool
}

// look summarises all entries of a directory as seen from outside: names, modes, sizes and times.
type look [sha256.Size]byte

// coarse is longer than one step of the kernel's clock for files. Of two changes within that time
// the second may be invisible.
const coarse = 20 * time.Millisecond

// lookAt looks at a directory. It also returns the time of the latest change.
func lookAt(dir string) (l look, last time.Time, err error) {
	h := sha256.New()
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		inode, changed, ok := stateOf(info)
		if !ok {
			return errors.ErrUnsupported
		}
		if changed.After(last) {
			last = changed
		}
		var b [40]byte
		binary.LittleEndian.PutUint64(b[:], inode)
		binary.LittleEndian.PutUint64(b[8:], uint64(info.Mode()))
		binary.LittleEndian.PutUint64(b[16:], uint64(info.Size()))
		binary.LittleEndian.PutUint64(b[24:], uint64(changed.UnixNano()))
		binary.LittleEndian.PutUint64(b[32:], uint64(len(p)))
		h.Write(b[:])
		_, _ = io.WriteString(h, p)
		return nil
	})
	h.Sum(l[:0])
	return l, last, err
}

// sound tells whether the directory is complete and unchanged. The caller holds its lock.
func (c *Cache) sound(s slot, u Use) bool {
	text, err := os.ReadFile(s.markFile())
	var m mark
	if err != nil || json.Unmarshal(text, &m) != nil {
		return false
	}
	now, _, err := lookAt(s.tree())
	before, seen := c.known(s)
	if err != nil || !seen || before.look != now {
		made := m.Contents
		if seen {
			made = before.contents
		}
		if before, err = c.study(s); err != nil || before.contents != made {
			return false
		}
		c.learn(s, before)
	}
	return !u.Shared || !before.strangers
}

func (c *Cache) known(s slot) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.knows[s.key]
	return k, ok
}

func (c *Cache) learn(s slot, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.knows[s.key] = k
}

func (c *Cache) forget(s slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.knows, s.key)
}

// errUnsteady says that a directory changes while it is read.
var errUnsteady = errors.New("it changes while it is read")

// study reads a directory completely and returns what it found. An error means that the directory
// does not match its version, or cannot be read. Concurrent callers share one study.
func (c *Cache) study(s slot) (known, error) {
	got, err, _ := c.studies.Do(s.key, func() (any, error) {
		for range maxMakes {
			before, last, err := lookAt(s.tree())
			unsure := errors.Is(err, errors.ErrUnsupported) // then each use reads it
			if err != nil && !unsure {
				return known{}, err
			}
			if age := time.Since(last); age < coarse { // so that a change from now on is visible
				time.Sleep(min(coarse, coarse-age))
			}
			k, err := s.read()
			if err != nil {
				return known{}, err
			}
			if after, _, err := lookAt(s.tree()); unsure || err == nil && after == before {
				k.look = before
				return k, nil
			}
		}
		return known{}, errUnsteady
	})
	return got.(known), err
}

// read reads everything in a directory.
func (s slot) read() (k known, err error) {
	if s.setUp() {
		k.contents, err = contentsOf(s.tree())
		return k, err
	}
	manifest, err := s.readManifest()
	if err != nil {
		return k, err
	}
	root, err := os.OpenRoot(s.tree())
	if err != nil {
		return k, err
	}
	defer root.Close()
	if err := files.Verify(root, manifest); err != nil {
		return k, err
	}
	ours := paths(manifest)
	err = filepath.WalkDir(s.tree(), func(p string, _ fs.DirEntry, err error) error {
		if rel, relErr := filepath.Rel(s.tree(), p); err == nil && relErr == nil && rel != "." && !ours[rel] {
			k.strangers = true
			return fs.SkipAll
		}
		return err
	})
	return k, err
}

// contentsOf returns a digest of everything in a directory: names, modes, contents and links.
func contentsOf(dir string) (files.Digest, error) {
	type entry struct {
		path string
		info fs.FileInfo
		is   []byte
	}
	var all []*entry
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all = append(all, &entry{path: p, info: info})
		}
		return err
	})
	if err != nil {
		return "", err
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, e := range all {
		switch {
		case e.info.Mode().IsRegular():
			g.Go(func() (err error) {
				e.is, err = digestFile(e.path)
				return err
			})
		case e.info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(e.path)
			if err != nil {
				return "", errors.Join(err, g.Wait())
			}
			e.is = []byte(to)
		}
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	var text bytes.Buffer
	for _, e := range all {
		rel, err := filepath.Rel(dir, e.path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%q %o %x\n", rel, e.info.Mode(), e.is)
	}
	return files.DigestOf(text.Bytes()), nil
}

func digestFile(path string) ([]byte, error) {
	f, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var h hash.Hash = sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
