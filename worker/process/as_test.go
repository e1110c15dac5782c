//go:build linux

package process

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestActAsUser: files are opened with the rights of another user, and afterwards with our own
// again.
func TestActAsUser(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		_, err := os.ReadFile(secret)
		return err
	}
	var own *account
	if err := own.act(read); err != nil {
		t.Errorf("as ourselves: %v", err)
	}
	if os.Geteuid() != 0 { // then there is no other user to be
		u, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		if as, err := lookUser(u.Uid); err != nil || as.act(read) != nil {
			t.Errorf("as ourselves by name: %v", err)
		}
		return
	}
	nobody, err := lookUser("nobody")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Dir(dir), dir} { // the file's own mode is to decide
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 { // on any thread
		if err := nobody.act(read); !errors.Is(err, os.ErrPermission) {
			t.Fatalf("as nobody: %v, want a refusal", err)
		}
		if err := read(); err != nil {
			t.Fatalf("afterwards: %v", err)
		}
	}
	err = nobody.act(func() error {
		if now, _ := unix.SetfsuidRetUid(-1); now != nobody.uid {
			t.Errorf("the thread has user %d for files, want %d", now, nobody.uid)
		}
		return os.WriteFile(filepath.Join(dir, "new"), nil, 0o600)
	})
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("as nobody a file was made: %v", err)
	}
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := nobody.act(read); err != nil {
		t.Errorf("as nobody, who may: %v", err)
	}
}
