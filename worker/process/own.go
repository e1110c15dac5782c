package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// other tells whether processes of the account are those of another user than this program.
func (a *account) other() bool { return a != nil && a.credential != nil }

// open opens a file for reading with the user's rights.
func (a *account) open(name string) (f *os.File, err error) {
	err = a.act(func() (err error) {
		f, err = os.Open(name)
		return err
	})
	return f, err
}

// ownAll makes a user the owner of all that is in a directory, but for files with further names: those
// are part of something else, too. Nobody but this program may be able to enter it meanwhile.
func ownAll(dir string, uid, gid int) error {
	return each(dir, func(root *os.Root, p string, info fs.FileInfo) error {
		if info.Mode().IsRegular() && names(info) > 1 {
			return nil
		}
		return root.Lchown(p, uid, gid)
	})
}

// reclaim makes this program's user the owner of a directory and all in it, after another one has written
// there. It refuses a file that has a name outside of it as well: through that the other could go
// on writing, and it may be anything.
func reclaim(dir string) error {
	own, group := os.Geteuid(), os.Getegid()
	// First the directory: so the other cannot enter it any more.
	if err := errors.Join(os.Lchown(dir, own, group), os.Chmod(dir, 0o700)); err != nil {
		return err
	}
	left := map[uint64]uint64{} // further names, by file
	if err := each(dir, func(_ *os.Root, p string, info fs.FileInfo) error {
		if s, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && s.Nlink > 1 {
			if _, seen := left[s.Ino]; !seen {
				left[s.Ino] = names(info)
			}
			if left[s.Ino]--; left[s.Ino] == 0 {
				delete(left, s.Ino)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("it has left %d files that have names elsewhere, too: have it copy instead of linking", len(left))
	}
	return each(dir, func(root *os.Root, p string, _ fs.FileInfo) error { return root.Lchown(p, own, group) })
}

// each calls do for all that is in a directory, whatever is put in its way meanwhile.
func each(dir string, do func(root *os.Root, p string, info fs.FileInfo) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return do(root, p, info)
	})
}

func names(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink) //nolint:unconvert // 16 or 32 bits on some systems
	}
	return 1
}
