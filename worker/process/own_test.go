//go:build unix

package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReclaim: files that another user has left are taken back, unless they are part of something
// else as well.
func TestReclaim(t *testing.T) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "tree"), filepath.Join(base, "outside")
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "d"), 0o777), os.WriteFile(filepath.Join(dir, "a"), nil, 0o600), os.WriteFile(outside, nil, 0o600),
		os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "d", "b")), os.Symlink(outside, filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 65534, 65534
	}
	owner := func(path string) bool {
		var st syscall.Stat_t
		return syscall.Lstat(path, &st) == nil && int(st.Uid) == uid
	}
	if err := errors.Join(ownAll(dir, uid, gid), os.Lchown(dir, uid, gid)); err != nil || !owner(filepath.Join(dir, "d")) || !owner(filepath.Join(dir, "link")) {
		t.Errorf("not all of it was given away: %v", err)
	}
	if os.Geteuid() == 0 && (owner(filepath.Join(dir, "a")) || owner(outside)) {
		t.Error("a file with two names was given away, or what a link leads to")
	}
	if err := reclaim(dir); err != nil {
		t.Errorf("with all names within: %v", err)
	}
	if os.Geteuid() == 0 && (owner(dir) || owner(filepath.Join(dir, "d")) || owner(filepath.Join(dir, "link"))) {
		t.Error("it is still the other user's")
	}
	if err := os.Link(outside, filepath.Join(dir, "d", "taken")); err != nil {
		t.Fatal(err)
	}
	if err := reclaim(dir); err == nil || !strings.Contains(err.Error(), "names elsewhere") {
		t.Errorf("with a name outside: %v", err)
	}
}
