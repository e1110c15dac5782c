//go:build linux

package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// TestBoundsAreKept runs programs that take too much. Without control groups, the watcher enforces
// the bounds.
func TestBoundsAreKept(t *testing.T) {
	r := runner(t)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		bounds job.Resources
		line   string
		class  string
		want   string // in the message
	}{
		"memory":                  {job.Resources{Memory: 32 << 20}, `x=$(head -c 300000000 /dev/zero | tr '\0' x); sleep 1000`, value.Memory, "32MiB"},
		"memory of a child":       {job.Resources{Memory: 32 << 20}, `sh -c 'x=$(head -c 300000000 /dev/zero | tr "\0" x); sleep 1000' & wait`, value.Memory, "resources.memory"},
		"memory within its bound": {job.Resources{Memory: 512 << 20}, `sleep 0.1`, "", ""},
		"processes":               {job.Resources{PIDs: 5}, `for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait`, value.Task, "resources.pids"},
		"the size of a file":      {job.Resources{FileSize: 1 << 20}, `exec head -c 2000000 /dev/zero >big`, value.Task, "resources.file_size"},
	} {
		t.Run(name, func(t *testing.T) {
			command := shell(c.line)
			command.Resources, command.Grace, command.Dir = c.bounds, time.Minute, dir
			began := time.Now()
			res := r.Run(context.Background(), command, &record{})
			if res.Class != c.class || !strings.Contains(res.Message, c.want) || res.Stopped || res.Usage.Limits == "" {
				t.Errorf("%+v", res)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v to notice", took)
			}
		})
	}
}

// TestPlan checks which bounds are in force where.
func TestPlan(t *testing.T) {
	all := job.Resources{Memory: 64 << 20, CPU: 0.5, PIDs: 7, FileSize: 1 << 30}
	for _, c := range []struct {
		groups bool
		want   string
	}{
		{true, "memory 64MiB (cgroup), cpu 0.5 (cgroup), pids 7 (cgroup), file_size 1GiB (rlimit)"},
		{false, "memory 64MiB (watched), pids 7 (watched), file_size 1GiB (rlimit), not in force: cpu 0.5 (no cgroup v2 is mounted)"},
	} {
		l := plan(all, c.groups, "no cgroup v2 is mounted")
		if got := l.text(); got != c.want {
			t.Errorf("got %q\nwant %q", got, c.want)
		}
	}
	if l := plan(job.Resources{Output: 1}, true, ""); !l.none() || l.text() != "" {
		t.Errorf("nothing to enforce: %+v", l)
	}
}

// files is a directory that looks like a control group.
func files(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCgroupFiles checks what is written where. Whether a kernel enforces it cannot be tested on
// every machine.
func TestCgroupFiles(t *testing.T) {
	dir := files(t, "memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max", "memory.events", "cgroup.kill")
	g := &cgroup{dir: dir, fd: -1}
	if err := g.bound(job.Resources{Memory: 64 << 20, CPU: 0.5, PIDs: 7}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "50000 100000", "pids.max": "7"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	if g.outOfMemory() {
		t.Error("nothing was killed")
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\noom 2\noom_kill 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !g.outOfMemory() {
		t.Error("that the kernel has killed is not seen")
	}
	l := limits{want: job.Resources{Memory: 64 << 20}, group: g}
	if r := l.judge(Result{Class: value.Killed, Signal: "SIGKILL"}, "", 0); r.Class != value.Memory {
		t.Errorf("%+v", r)
	}
	if err := (&cgroup{dir: t.TempDir(), fd: -1}).bound(job.Resources{PIDs: 7}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a group without controllers: %v", err)
	}
}

func TestOwnCgroup(t *testing.T) {
	const mounts = "31 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	if dir, err := ownCgroup(mounts, "0::/system.slice/millrace.service\n"); err != nil || dir != "/sys/fs/cgroup/system.slice/millrace.service" {
		t.Errorf("%s, %v", dir, err)
	}
	for name, c := range map[string]struct{ mounts, own string }{
		"version 1":     {"31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/\n"},
		"nothing of it": {"", ""},
		"in none":       {mounts, "4:memory:/\n"},
	} {
		if dir, err := ownCgroup(c.mounts, c.own); err == nil {
			t.Errorf("%s: %s", name, dir)
		}
	}
	if _, err := delegate(files(t, "cgroup.controllers"), 7); err == nil || !strings.Contains(err.Error(), "no controller memory") {
		t.Errorf("a group without controllers: %v", err)
	}
}

func TestKernelKills(t *testing.T) {
	k := newKernelKills()
	if k.lately() {
		t.Error("the kernel has killed something")
	}
	if k.count == "" {
		t.Error("the kernel's count is not found")
	}
	k.count = "another" // as if it had grown since
	for range 2 {       // for a while
		if !k.lately() {
			t.Error("that the kernel has killed something is not seen")
		}
	}
}

// TestFileSizeIsSetTwice: in either order the program begins. The shell's bound, in blocks, may be
// higher than the exact one that was set from outside.
func TestFileSizeIsSetTwice(t *testing.T) {
	said, err := exec.Command("/bin/sh", "-c", `ulimit -f 10 && exec /bin/sh -c "$1" echo 11 begins`, "sh", boundFileSize).CombinedOutput()
	if string(said) != "begins\n" || err != nil {
		t.Errorf("it says %q, %v", said, err)
	}
}
