package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"millrace/task/job"
)

// cgroups makes a control group (version 2) for each run that needs one, below the group in which
// this program was started.
type cgroups struct{ root string }

// neededControllers enforce the bounds that a job can set.
var neededControllers = []string{"memory", "cpu", "pids"}

// findCgroups prepares the control group of this program for groups below it. An error says why
// that is impossible; nothing is changed then.
func findCgroups() (*cgroups, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	base, err := ownCgroup(string(mounts), string(own))
	if err != nil {
		return nil, err
	}
	return delegate(base, os.Getpid())
}

// ownCgroup is the directory of the version 2 group that this process is in.
func ownCgroup(mounts, own string) (string, error) {
	mount := ""
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(f) > 4 {
			mount = f[4]
		}
	}
	if mount == "" {
		return "", errors.New("no cgroup v2 is mounted")
	}
	for line := range strings.Lines(own) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(mount, path), nil
		}
	}
	return "", errors.New("the worker is in no cgroup v2")
}

// delegate enables controllers for groups below base. A group with members cannot have controlled
// groups below it, so this process first moves to one of its own.
func delegate(base string, pid int) (*cgroups, error) {
	has, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("cgroup v2: %w", err)
	}
	for _, c := range neededControllers {
		if !bytes.Contains(append([]byte{' '}, has...), []byte(" "+c)) {
			return nil, fmt.Errorf("cgroup v2 has no controller %s here", c)
		}
	}
	left, _ := filepath.Glob(filepath.Join(base, "millrace-*")) // the pattern is valid
	for _, dir := range left {
		_ = os.Remove(dir) // of a killed worker; a group with members stays
	}
	own := filepath.Join(base, "millrace-worker-"+strconv.Itoa(pid))
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("cgroup v2 is not delegated to the worker: %w", err)
	}
	number := []byte(strconv.Itoa(pid))
	if err := put(own, "cgroup.procs", number); err != nil {
		_ = os.Remove(own)
		return nil, fmt.Errorf("cgroup v2 is not delegated to the worker: %w", err)
	}
	if err := put(base, "cgroup.subtree_control", []byte("+memory +cpu +pids")); err != nil {
		_ = put(base, "cgroup.procs", number)
		_ = os.Remove(own)
		return nil, fmt.Errorf("cgroup v2 is shared with others: start the worker in a group of its own (systemd: Delegate=yes): %w", err)
	}
	return &cgroups{root: base}, nil
}

// put writes to an existing file of a group.
func put(dir, name string, text []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// cgroup is the group of one run.
type cgroup struct {
	dir string
	fd  int
}

// cpuPeriod is the period over which processor time is bounded, in microseconds.
const cpuPeriod = 100_000

// create makes a group with bounds. Close it when its processes have ended.
func (c *cgroups) create(name string, r job.Resources) (*cgroup, error) {
	dir := filepath.Join(c.root, "millrace-run-"+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	g := &cgroup{dir: dir, fd: -1}
	err := g.bound(r)
	if err == nil {
		g.fd, err = syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *cgroup) bound(r job.Resources) error {
	var errs []error
	set := func(name, value string) { errs = append(errs, put(g.dir, name, []byte(value))) }
	if r.Memory > 0 {
		set("memory.max", strconv.FormatInt(int64(r.Memory), 10))
		_ = put(g.dir, "memory.swap.max", []byte("0"))  // not there without swap
		_ = put(g.dir, "memory.oom.group", []byte("1")) // not there before Linux 4.19
	}
	if r.CPU > 0 {
		set("cpu.max", fmt.Sprintf("%d %d", int64(r.CPU*cpuPeriod), cpuPeriod))
	}
	if r.PIDs > 0 {
		set("pids.max", strconv.Itoa(r.PIDs))
	}
	return errors.Join(errs...)
}

// outOfMemory tells whether the kernel has killed members because of the group's memory bound.
func (g *cgroup) outOfMemory() bool {
	text, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" && f[1] != "0" {
			return true
		}
	}
	return false
}

// kill kills all members.
func (g *cgroup) kill() { _ = put(g.dir, "cgroup.kill", []byte("1")) }

// close kills what is left and removes the group.
func (g *cgroup) close() {
	if g.fd >= 0 {
		syscall.Close(g.fd)
	}
	for pause := time.Millisecond; pause < time.Second; pause *= 2 {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		g.kill()
		time.Sleep(pause)
	}
}
