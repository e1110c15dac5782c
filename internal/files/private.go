//go:build unix

package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrForeign refuses a folder that does not belong only to this user.
var ErrForeign = errors.New("it is not this user's alone")

const (
	ownOnly = 0o700 // no access for others
	passing = 0o711 // others may pass through it, to names that they know
)

// PrivateDir makes a folder below base, with those in between, and returns its absolute path. Each of
// parts must be a directory of this user to which no other user may write; access of others to an
// own directory is removed. Base belongs to the operator: it is made likewise if it does not exist,
// and otherwise accepted as it is.
//
// The error wraps [ErrForeign] if one of parts belongs to another user, is writable by others, or
// is a link that another user has made.
func PrivateDir(base string, parts ...string) (string, error) { return makeDirs(ownOnly, base, parts) }

// PassageDir is [PrivateDir] for folders through which other users may pass to their own files.
func PassageDir(base string, parts ...string) (string, error) { return makeDirs(passing, base, parts) }

// OwnDir is PrivateDir for a folder with a single name: all above it belongs to the operator.
func OwnDir(path string) (string, error) {
	return makeDirs(ownOnly, filepath.Dir(path), []string{filepath.Base(path)})
}

// Owned tells whether path is a directory, not a link to one, that belongs to this user.
func Owned(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid()
}

// Write writes a file that only this user may read, completely or not at all, and returns when it
// outlasts a loss of power. Every file that is made once and must be the same ever after comes into
// its place by this function or by [Put].
func Write(name string, text []byte) error {
	return Put(filepath.Dir(name), func(to io.Writer) (string, error) {
		_, err := to.Write(text)
		return filepath.Base(name), err
	})
}

// unfinished begins the names of files that are being written, and abandoned is how much older than a
// new one such a file is if its process has ended: whoever writes is not silent for so long.
const (
	unfinished = ".new-"
	abandoned  = time.Hour
)

// Put is [Write] for a file in a folder that has what write writes, and the name that it returns. It
// removes what processes that have ended left unfinished there.
func Put(in string, write func(io.Writer) (name string, err error)) error {
	dir, err := os.Open(in)
	if err != nil {
		return err
	}
	defer dir.Close()
	tmp, err := os.CreateTemp(dir.Name(), unfinished+"*") // mode 0600
	if err != nil {
		return err
	}
	err = sweep(in, tmp)
	var name string
	if err == nil {
		name, err = write(tmp)
	}
	if err == nil {
		err = flush(tmp)
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(in, name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return err
	}
	return flush(dir)
}

// sweep removes what was abandoned in a folder by the time at which a file there was made.
func sweep(dir string, made *os.File) error {
	now, err := made.Stat()
	if err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	for _, name := range left {
		is, bad := os.Lstat(name)
		if bad == nil && is.Mode().IsRegular() && is.ModTime().Before(now.ModTime().Add(-abandoned)) {
			bad = os.Remove(name)
		}
		if !errors.Is(bad, fs.ErrNotExist) { // another one was quicker
			err = errors.Join(err, bad)
		}
	}
	return err
}

// Move gives a folder another place beside it, and returns when that outlasts a loss of power.
func Move(from, to string) error {
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return flush(dir)
}

// flush writes a file, or the names in a folder, to the disk. Tests watch it.
var flush = (*os.File).Sync

func makeDirs(mode uint32, base string, parts []string) (string, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return "", err
	}
	dir, err := openBase(base)
	if err != nil {
		return "", err
	}
	path := base
	for _, part := range parts {
		for name := range strings.SplitSeq(filepath.Clean(part), string(filepath.Separator)) {
			path = filepath.Join(path, name)
			next, err := enter(dir, name, mode)
			unix.Close(dir)
			if err != nil {
				return "", &fs.PathError{Op: "use", Path: path, Err: err}
			}
			dir = next
		}
	}
	unix.Close(dir)
	return path, nil
}

// openBase opens a directory, and makes it if it does not exist.
func openBase(base string) (int, error) {
	dir, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) && base != filepath.Dir(base) {
		var above int
		if above, err = openBase(filepath.Dir(base)); err != nil {
			return -1, err
		}
		defer unix.Close(above)
		dir, err = enter(above, filepath.Base(base), ownOnly)
	}
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		err = &fs.PathError{Op: "open", Path: base, Err: err}
	}
	return dir, err
}

// enter opens a directory of this user below an open one, and makes it if it does not exist.
func enter(above int, name string, mode uint32) (int, error) {
	switch err := unix.Mkdirat(above, name, mode); {
	case err == nil:
		if err := unix.Fsync(above); err != nil { // what is made in it must not be lost with it
			return -1, err
		}
	case !errors.Is(err, unix.EEXIST):
		return -1, err
	}
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	var st unix.Stat_t
	if err := unix.Fstatat(above, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK { // the operator may have moved it to another disk
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return -1, fmt.Errorf("%w: it is a link that user %d has made", ErrForeign, st.Uid)
		}
		flags &^= unix.O_NOFOLLOW
	}
	dir, err := unix.Openat(above, name, flags, 0)
	if err != nil {
		return -1, err
	}
	if err := claim(dir, mode); err != nil {
		unix.Close(dir)
		return -1, err
	}
	return dir, nil
}

// claim checks that an open directory belongs to this user, and removes the access of others that
// mode does not include.
func claim(dir int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	has := uint32(st.Mode) & 0o7777 //nolint:unconvert // 16 bits on some systems
	switch {
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: it belongs to user %d, not to user %d", ErrForeign, st.Uid, os.Geteuid())
	case has&0o022 != 0:
		return fmt.Errorf("%w: others may write to it (mode %#o), so they may have put something there", ErrForeign, has)
	case has&^mode&0o077 == 0 && has&mode == mode:
		return nil
	}
	return unix.Fchmod(dir, mode)
}
