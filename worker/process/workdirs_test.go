package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

func TestWorkdirs(t *testing.T) {
	where := t.TempDir()
	var w workdirs
	first, err := w.get(where)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.get(where)
	if err != nil || first == second {
		t.Fatalf("%q after %q, %v: two attempts share a directory", second.path, first.path, err)
	}
	w.put(first)
	if again, err := w.get(where); err != nil || again != first {
		t.Errorf("%q, %v: the empty directory is not used again", again.path, err)
	}
	if err := os.WriteFile(filepath.Join(second.path, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.put(second)
	if _, err := os.Stat(second.path); !os.IsNotExist(err) {
		t.Errorf("a directory with something in it is still there: %v", err)
	}
	if err := os.Chmod(first.path, 0o755); err != nil {
		t.Fatal(err)
	}
	w.put(first)
	if next, err := w.get(where); err != nil || next == first {
		t.Errorf("%q, %v: a directory that a task has opened to others is used again", next.path, err)
	}
	w.close()
	if left, _ := os.ReadDir(where); len(left) > 0 {
		t.Errorf("close leaves %v", left)
	}
}

func TestAbandonedWorkdirsAreRemoved(t *testing.T) {
	where := t.TempDir()
	dead := exec.Command("/bin/true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	abandoned, err := os.MkdirTemp(where, "millrace-work-"+strconv.Itoa(dead.Process.Pid)+"-")
	if err != nil {
		t.Fatal(err)
	}
	alive, err := os.MkdirTemp(where, "millrace-work-"+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(where, "millrace-work-"+strconv.Itoa(dead.Process.Pid)+"-0")
	// A directory of another user is left alone, too.
	if err := os.Symlink(alive, foreign); err != nil {
		t.Fatal(err)
	}
	var w workdirs
	if _, err := w.get(where); err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if _, err := os.Lstat(foreign); err != nil {
		t.Errorf("what is no directory of this user is gone: %v", err)
	}
	if _, err := os.Stat(abandoned); !os.IsNotExist(err) {
		t.Errorf("the directory of a dead worker is still there: %v", err)
	}
	if _, err := os.Stat(alive); err != nil {
		t.Errorf("the directory of a living worker is gone: %v", err)
	}
}
