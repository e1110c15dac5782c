package embed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// storeLimit returns how many bytes the streams of an embedded server may hold together, if they
// hold used now and the disk has free bytes left. Beyond a limit the server refuses messages with
// an error; on a full disk it only falls silent. So a tenth of the disk, 1 GiB at most, stays
// reserved, but never more than half of the free space: a server that starts on a nearly full disk
// must still take messages.
func storeLimit(used, free int64) int64 {
	reserve := min((used+free)/10, 1<<30, free/2)
	return used + free - reserve
}

// room returns how many bytes the streams in a folder may hold together.
func (s *Server) room(dir string) (int64, error) {
	if s.cfg.Store > 0 {
		return s.cfg.Store, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("embedded server: %w", err)
	}
	free, err := diskFree(dir)
	if err != nil {
		return 0, fmt.Errorf("embedded server: how much room %s has: %w", dir, err)
	}
	used, err := usedBy(dir)
	if err != nil {
		return 0, fmt.Errorf("embedded server: how much %s holds: %w", dir, err)
	}
	return storeLimit(used, free), nil
}

// diskFree returns how many bytes this user may still write to the disk of a directory.
func diskFree(dir string) (int64, error) {
	var at syscall.Statfs_t
	if err := syscall.Statfs(dir, &at); err != nil {
		return 0, err
	}
	return int64(uint64(at.Bavail) * uint64(at.Bsize)), nil //nolint:unconvert // its types differ by system
}

// usedBy returns how many bytes the files below a folder have.
func usedBy(dir string) (used int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return unlessGone(err)
		}
		info, err := d.Info()
		if err == nil {
			used += info.Size()
		}
		return unlessGone(err)
	})
	return used, err
}

// unlessGone returns err, or nil if err means that a file was removed meanwhile.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
