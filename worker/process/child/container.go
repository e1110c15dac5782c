package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"millrace/task"
	"millrace/task/value"
)

// Container is what a command runs in if its job names an image. The process that Millrace starts is
// the runtime's client, which passes on output, signals and the exit code. It is the worker's own
// tool: only what is in the container has lost rights. The end of the client says nothing of the
// container, so that is removed behind it, and by the guard if the worker dies.
type Container struct {
	// Runtime is the client's program, and Image what it runs, for people.
	Runtime, Image string
	// Name is that of the attempt: task and epoch.
	Name string
	// Args are the arguments of "run", but for the container's name.
	Args []string
	// Memory tells that memory is bounded. Bounds are all bounds in words.
	Memory bool   `json:",omitempty"`
	Bounds string `json:",omitempty"`
}

// containerPrefix begins the names of all containers of Millrace.
const containerPrefix = "millrace."

// keeper identifies this process for all that look at the same runtime: by the boot and the space of
// its number, the number, and when it started.
var keeper = sync.OnceValue(func() string {
	start, _ := StartOf(os.Getpid()) // our own
	return fmt.Sprintf("%s.%d.%d", keeperPlace(), os.Getpid(), start)
})

var keeperPlace = sync.OnceValue(func() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // "" on other systems than Linux
	space, _ := os.Readlink("/proc/self/ns/pid")
	h := fnv.New32a()
	h.Write(append(boot, space...))
	return strconv.FormatUint(uint64(h.Sum32()), 36)
})

// left tells whether a container's name says that its keeper is gone, and whether that is sure: of
// another boot's, or another space's, it is not.
func left(name string) (gone, sure bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 6 || parts[0]+"." != containerPrefix {
		return false, false
	}
	pid, err1 := strconv.Atoi(parts[4])
	start, err2 := strconv.ParseUint(parts[5], 10, 64)
	if err1 != nil || err2 != nil || pid <= 0 {
		return false, false
	}
	if parts[3] != keeperPlace() {
		return true, false
	}
	now, err := StartOf(pid)
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err != nil || now != start, true
}

func (c *Container) name() string { return containerPrefix + c.Name + "." + keeper() }

func (c *Container) argv() []string {
	return append([]string{c.Runtime, "run", "--name", c.name()}, c.Args...)
}

// removal returns the command that ends and removes a container.
func removal(runtime, name string) []string {
	if runtime == "podman" { // which would first wait, and fail for one that is gone
		return []string{runtime, "rm", "--force", "--ignore", "--time", "0", name}
	}
	return []string{runtime, "rm", "--force", name}
}

const (
	// removeTries and removeBound bound the removal of a container: runtimes fail while another of
	// their processes is at the same one.
	removeTries = 5
	removeBound = 20 * time.Second
)

// remove has a runtime remove a container, and returns whether there was one. start starts its
// process, and returns when it has ended.
func remove(argv []string, run func(*exec.Cmd) error) (there bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), removeBound)
	defer cancel()
	for try := 1; ; try++ {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		var said, why bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = HelpersEnv(), &said, &why, time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ^C is not for it
		err = run(cmd)
		if err == nil || strings.Contains(strings.ToLower(why.String()), "no such container") {
			return strings.Contains(said.String(), argv[len(argv)-1]), nil
		}
		if ctx.Err() != nil || try == removeTries {
			return false, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(why.String()))
		}
		time.Sleep(time.Duration(try) * 100 * time.Millisecond)
	}
}

// tool runs a program of the worker's own to its end.
func (r *Runner) tool(cmd *exec.Cmd) error {
	if err := r.StartBeside(cmd); err != nil {
		return err
	}
	err := cmd.Wait()
	r.Gone(cmd.Process.Pid)
	return err
}

// runContained follows the client of a container to its end, and sees to it that the container ends.
func (r *Runner) runContained(ctx context.Context, p *Running, c *Container, s Sink) Result {
	res := p.run(ctx, "image "+c.Image, s)
	there, err := remove(removal(c.Runtime, c.name()), r.tool)
	if err != nil {
		r.log.Error("a container may go on running: its runtime does not remove it", "error", err)
		res.Survivors++
	}
	res.Usage = task.Usage{Limits: c.Bounds} // the client's own figures say nothing of the container
	if res.Exit == nil || res.Stopped {
		return res
	}
	switch code := *res.Exit; {
	case code == 125: // no image, no mount, no such option
		res.Class, res.Message = value.System, c.Runtime+" could not run image "+c.Image+": "+seeOutput
	case code == 126 || code == 127:
		res.Message = fmt.Sprintf("image %s exited with code %d: it has no such program, or none that may be executed; "+seeOutput, c.Image, code)
	case code == 128+int(syscall.SIGKILL) && c.Memory && r.kills.lately():
		res.Class, res.Message = value.Memory, "it used more memory than resources.memory allows: raise that, or use less"
	}
	if there && res.Class != "" {
		res.Class, res.Message = value.Killed, res.Message+"; "+c.Runtime+" had lost sight of the container, which is removed"
	}
	return res
}

// Sweep removes the containers that processes of Millrace have left behind with a runtime. Only those
// whose keeper is certainly gone are ended. An error says why the runtime cannot be used.
func (r *Runner) Sweep(ctx context.Context, runtime string) error {
	cmd := exec.CommandContext(ctx, runtime, "ps", "--all", "--filter", "name="+containerPrefix, "--format", "{{.Names}}")
	var said, why bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = HelpersEnv(), &said, &why, time.Second
	if err := r.tool(cmd); err != nil {
		return fmt.Errorf("%s ps: %w: %s", runtime, err, strings.TrimSpace(why.String()))
	}
	for name := range strings.FieldsSeq(said.String()) {
		argv := removal(runtime, name)
		switch gone, sure := left(name); {
		case !gone:
			continue
		case !sure:
			argv = []string{runtime, "rm", name} // refused for one that runs
		}
		if _, err := remove(argv, r.tool); err != nil {
			r.log.Warn("a container that a process of Millrace has left behind is not removed", "error", err)
		} else {
			r.log.Info("a container that a process of Millrace has left behind is removed", "container", name)
		}
	}
	return nil
}
