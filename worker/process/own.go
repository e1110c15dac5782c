package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// other tells whether the account belongs to another user than this program's.
func (a *account) other() bool { return a != nil && a.credential != nil }

// open opens a file for reading with the user's rights.
func (a *account) open(name string) (f *os.File, err error) {
	err = a.act(func() (err error) {
		f, err = os.Open(name)
		return err
	})
	return f, err
}

// ownAll makes a user the owner of everything in a directory, except files with further names,
// which are also part of something else. No other user may be able to enter the directory
// meanwhile.
func ownAll(dir string, uid, gid int) error {
	return each(dir, func(root *os.Root, p string, info fs.FileInfo) error {
		if info.Mode().IsRegular() && names(info) > 1 {
			return nil
		}
		return root.Lchown(p, uid, gid)
	})
}

// reclaim makes this program's user the owner of a directory and everything in it, after another
// user has written there. It refuses a file that also has a name outside: through that name the
// other user could go on writing, and the file may be anything.
func reclaim(dir string) error {
	own, group := os.Geteuid(), os.Getegid()
	// The directory first: then the other user cannot enter it any more.
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

// each calls do for everything in a directory, even if another process changes it meanwhile.
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
