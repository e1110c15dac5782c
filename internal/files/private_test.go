//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"millrace/internal/files"
)

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestMadeAndTightened(t *testing.T) {
	base := t.TempDir()
	was := mode(t, base)
	got, err := files.PrivateDir(base, "a", "b/c")
	if want := filepath.Join(base, "a", "b", "c"); err != nil || got != want {
		t.Fatalf("%s, %v, want %s", got, err, want)
	}
	for _, dir := range []string{"a", "a/b", "a/b/c"} {
		if m := mode(t, filepath.Join(base, dir)); m != 0o700 {
			t.Errorf("%s has mode %o", dir, m)
		}
	}
	if mode(t, base) != was {
		t.Error("the operator's own folder has another mode")
	}
	if err := os.Chmod(filepath.Join(base, "a"), 0o755); err != nil { // as an earlier version made it
		t.Fatal(err)
	}
	if _, err := files.PrivateDir(base, "a"); err != nil || mode(t, filepath.Join(base, "a")) != 0o700 {
		t.Errorf("%v: others can still read it", err)
	}
	if _, err := files.PassageDir(base, "a"); err != nil || mode(t, filepath.Join(base, "a")) != 0o711 {
		t.Errorf("%v: others cannot pass through it", err)
	}
	if _, err := files.OwnDir(filepath.Join(base, "new", "own")); err != nil || mode(t, filepath.Join(base, "new")) != 0o700 {
		t.Errorf("%v: a base that was not there is open to others", err)
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := files.PrivateDir(base, "file"); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func TestForeign(t *testing.T) {
	base := t.TempDir()
	refused := func(what, name string) {
		t.Helper()
		if _, err := files.PrivateDir(base, name, "spool"); !errors.Is(err, files.ErrForeign) {
			t.Errorf("%s: %v, want ErrForeign", what, err)
		}
	}
	at := func(name string) string { return filepath.Join(base, name) }
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o777))
	refused("a folder that all may write to", "open")
	must(os.Mkdir(at("group"), 0o700), os.Chmod(at("group"), 0o770))
	refused("a folder that a group may write to", "group")
	must(os.Symlink(at("open"), at("to open")))
	refused("a link to such a one", "to open")
	must(os.Mkdir(at("mine"), 0o700), os.Symlink("mine", at("link")))
	if _, err := files.PrivateDir(base, "link", "spool"); err != nil {
		t.Errorf("a link of one's own: %v", err)
	}
	if !files.Owned(at("mine")) || files.Owned(at("link")) || files.Owned(at("none")) {
		t.Error("what is owned is not, or the other way round")
	}
	if os.Geteuid() != 0 { // only root can make another user's folder: the root folder is one
		if _, err := files.PrivateDir("/", "usr"); !errors.Is(err, files.ErrForeign) || files.Owned("/usr") {
			t.Errorf("a folder of root: %v", err)
		}
		return
	}
	must(os.Mkdir(at("theirs"), 0o700), os.Chown(at("theirs"), 65534, 65534))
	refused("a folder of another user", "theirs")
	must(os.Symlink("mine", at("their link")), os.Lchown(at("their link"), 65534, 65534))
	refused("a link of another user to a folder of our own", "their link")
	if files.Owned(at("theirs")) {
		t.Error("what is another's counts as ours")
	}
}
