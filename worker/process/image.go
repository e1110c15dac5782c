package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"millrace/ipc"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/worker"
	"millrace/worker/process/child"
)

// runtimeStart bounds how long a runtime may take to answer when a worker starts.
const runtimeStart = 5 * time.Second

// FindRuntimes returns those of the named runtimes that work here, in the same order. It also removes
// the containers that workers have left behind with them.
func (t *Tasks) FindRuntimes(ctx context.Context, names []string, say func(error)) []string {
	ctx, cancel := context.WithTimeout(ctx, runtimeStart)
	defer cancel()
	errs := make([]error, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() { errs[i] = t.Runner.Sweep(ctx, name) })
	}
	asked.Wait()
	var all []string
	for i, name := range names {
		if errs[i] == nil {
			all = append(all, name)
		} else {
			say(errs[i])
		}
	}
	return all
}

// runtimeOf returns the program that runs an image here.
func (t *Tasks) runtimeOf(run *job.Run) (string, error) {
	if run.Runtime != "" && slices.Contains(t.Runtimes, run.Runtime) {
		return run.Runtime, nil
	}
	if run.Runtime != "" || len(t.Runtimes) == 0 {
		return "", fmt.Errorf("this worker runs no images by %s: install that, see that the worker may use it, and start the worker again", strings.Join(orAll(run.Runtime), ", "))
	}
	return t.Runtimes[0], nil
}

func orAll(runtime string) []string {
	if runtime == "" {
		return job.Runtimes
	}
	return []string{runtime}
}

// fetch sees to it that this node has the image of an attempt. What the runtime says stands in the
// stream setup of the task's log, and it has the time of setup.
func (t *Tasks) fetch(ctx context.Context, a *worker.Attempt) error {
	spec := a.Task.Spec
	run := spec.Run
	runtime, err := t.runtimeOf(run)
	if err != nil {
		return err
	}
	limit := spec.Timeout.Setup.Std()
	if limit == 0 {
		limit = job.DefaultSetup
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSetupTimeout)
	defer cancel()
	do := func(sink child.Sink, args ...string) child.Result {
		return t.Runner.Run(ctx, child.Command{
			Argv: append([]string{runtime}, args...), Env: child.WorkersOwn(), Own: true, Messages: ipc.Gate{Keyless: ipc.KeylessOff},
			Grace: spec.Timeout.Grace(), Limit: a.Grace,
		}, sink)
	}
	if run.Pull != job.PullAlways {
		var said lastLine
		r := do(&said, "image", "inspect", run.Image)
		switch {
		case r.Class == "":
			return nil
		case r.Stopped:
			return fmt.Errorf("the look for image %s was stopped: %w", run.Image, context.Cause(ctx))
		case run.Pull == job.PullNever:
			return fmt.Errorf("image %s is not on this node, and run.pull is never: pull it here, or correct its name; %s says: %s", run.Image, runtime, said)
		}
	}
	a.Output.Line(output.Setup, "+ "+runtime+" pull "+run.Image)
	r := do(&setupSink{out: a.Output, redact: newRedactor(nil)}, "pull", "--quiet", run.Image)
	switch {
	case errors.Is(context.Cause(ctx), errSetupTimeout):
		return fmt.Errorf("fetching image %s took longer than timeout.setup, which is %v, and was stopped", run.Image, limit)
	case r.Stopped:
		return fmt.Errorf("fetching image %s was stopped: %w", run.Image, context.Cause(ctx))
	case r.Class != "":
		return fmt.Errorf("image %s cannot be fetched: %s; correct its name, or see that this node reaches its registry and may read there", run.Image, child.WithLastLine(r.Message, a.Output.LastLine(output.Setup)))
	}
	return nil
}

// lastLine is a sink that keeps the last line of standard error.
type lastLine string

// Line implements [child.Sink].
func (l *lastLine) Line(s child.Stream, line ipc.Line) {
	if s == child.Stderr {
		line.Each(func(one ipc.Line) { *l = lastLine(one.Text) })
	}
}

// Message and Withheld implement [child.Sink]; all is text.
func (*lastLine) Message(ipc.Message) {}
func (*lastLine) Withheld(string)     {}

// box is what the container of an attempt is made from.
type box struct {
	run       *job.Run
	resources job.Resources
	env       []string // of what is in the container
	dir       string   // where its command begins; "" as the image says
	folders   []string // of the attempt, at the same path inside
	shared    string   // a folder of the cache, to be read only; "" for none
	mounts    []job.Mount
	argv      []string // to run in place of the image's own command
	as        *account
	elevate   bool
	confine   child.Confinement
}

// arguments returns the arguments of a runtime's "run", but for the container's name.
func (b *box) arguments(runtime string) []string {
	args := []string{"--rm", "--pull=never"}
	flag := func(name, value string) { args = append(args, "--"+name, value) }
	switch runtime {
	case "nerdctl": // it has no driver that keeps nothing
		args = append(args, "--log-driver=json-file", "--log-opt=max-size=1m")
	case "podman": // else it hands on the worker's proxies
		args = append(args, "--log-driver=none", "--http-proxy=false")
	default:
		args = append(args, "--log-driver=none")
	}
	if b.run.Stdin == job.StdinOpen {
		args = append(args, "--interactive")
	}
	if b.run.Network != "" {
		flag("network", b.run.Network)
	}
	if b.as != nil {
		flag("user", fmt.Sprintf("%d:%d", b.as.uid, b.as.gid))
		if b.as.credential != nil {
			for _, g := range b.as.credential.Groups {
				flag("group-add", strconv.FormatUint(uint64(g), 10))
			}
		}
	}
	if !b.elevate {
		flag("security-opt", "no-new-privileges")
	}
	if !b.confine.AllCapabilities {
		flag("cap-drop", "ALL")
		if names := b.confine.CapabilitiesText(); names != "none" {
			for name := range strings.SplitSeq(names, ",") {
				flag("cap-add", strings.ToUpper(name))
			}
		}
	}
	if n := b.resources.Memory; n > 0 { // and no more by swapping
		flag("memory", strconv.FormatInt(int64(n), 10)+"b")
		flag("memory-swap", strconv.FormatInt(int64(n), 10)+"b")
	}
	if b.resources.CPU > 0 {
		flag("cpus", strconv.FormatFloat(b.resources.CPU, 'f', -1, 64))
	}
	if b.resources.PIDs > 0 {
		flag("pids-limit", strconv.Itoa(b.resources.PIDs))
	}
	if n := b.resources.FileSize; n > 0 {
		flag("ulimit", fmt.Sprintf("fsize=%d:%[1]d", int64(n)))
	}
	mount := func(from, to string, readOnly bool) {
		text := "type=bind,source=" + from + ",target=" + to
		if readOnly {
			text += ",readonly"
		}
		flag("mount", text)
	}
	for _, folder := range b.folders {
		mount(folder, folder, false)
	}
	if b.shared != "" {
		mount(b.shared, b.shared, true)
	}
	for _, m := range b.mounts {
		mount(m.From, m.To, m.ReadOnly)
	}
	if b.dir != "" {
		flag("workdir", b.dir)
	}
	for _, v := range b.env {
		if name, _, _ := strings.Cut(v, "="); !job.Steers(name) {
			v = name // its value comes with the runtime's own environment, which others cannot see
		}
		flag("env", v)
	}
	for _, mark := range []string{child.MarkerVar, child.RunVar} {
		flag("env", mark)
	}
	if len(b.argv) == 0 {
		return append(args, b.run.Image)
	}
	flag("entrypoint", b.argv[0])
	return append(append(args, b.run.Image), b.argv[1:]...)
}

// bounds describes the bounds of a container in words.
func (b *box) bounds(runtime string) string {
	r, words := b.resources, []string(nil)
	add := func(set bool, format string, value any) {
		if set {
			words = append(words, fmt.Sprintf(format+" ("+runtime+")", value))
		}
	}
	add(r.Memory > 0, "memory %v", r.Memory)
	add(r.CPU > 0, "cpu %g", r.CPU)
	add(r.PIDs > 0, "pids %d", r.PIDs)
	add(r.FileSize > 0, "file_size %v", r.FileSize)
	return strings.Join(words, ", ")
}

// contain puts the command of an attempt into a container. argv is what runs in it; env are its
// variables, without those of the worker.
func (t *Tasks) contain(c *child.Command, a *worker.Attempt, p *place, as *account) error {
	run := a.Task.Spec.Run
	runtime, err := t.runtimeOf(run)
	if err != nil {
		return err
	}
	b := box{run: run, resources: c.Resources, env: c.Env, argv: c.Argv, as: as, elevate: t.Runner.Elevates(), confine: t.Runner.Confines()}
	if c.Shell != "" {
		b.argv = []string{"/bin/sh", "-c", c.Shell}
	}
	switch {
	case filepath.IsAbs(run.Dir):
		b.dir = run.Dir
	case run.Dir != "" || len(b.argv) > 0:
		b.dir = p.dir
	}
	b.folders = []string{p.base}
	if p.extra != "" {
		b.folders = append(b.folders, p.extra)
	}
	if files := a.Task.Spec.Files; files != nil && files.Mode == job.FilesShared {
		b.shared = strings.TrimPrefix(p.env[0], "MILLRACE_FILES=")
	}
	for _, folder := range append(slices.Clone(b.folders), b.shared) {
		if folder != "" && !job.MountablePath(folder) {
			return fmt.Errorf("the folder %s cannot be shown to a container: choose one without commas, colons and quotes for TMPDIR and --files-cache of the worker", folder)
		}
	}
	for _, text := range run.Mounts {
		m, err := job.ParseMount(text)
		if err == nil {
			m.From, err = t.mountable(m.From)
		}
		if err != nil {
			return err
		}
		b.mounts = append(b.mounts, m)
	}
	if as == nil { // the image says who runs there; only this user reaches the folders from outside
		for _, folder := range b.folders {
			if err := openUp(folder); err != nil {
				return err
			}
		}
	}
	c.Container = &child.Container{Runtime: runtime, Image: run.Image, Name: fmt.Sprintf("%s.%d", a.Task.ID, a.Task.Epoch), Args: b.arguments(runtime), Memory: c.Resources.Memory > 0, Bounds: b.bounds(runtime)}
	env := slices.Clip(child.WorkersOwn())
	for _, v := range c.Env {
		if name, _, _ := strings.Cut(v, "="); !job.Steers(name) {
			env = append(env, v)
		}
	}
	c.Argv, c.Shell, c.Dir, c.Env, c.Credential, c.Resources, c.Fresh = nil, "", "", env, nil, job.Resources{}, false
	return nil
}

// openUp lets every user in a container work in a folder, and read what is in it.
func openUp(folder string) error {
	if err := os.Chmod(folder, 0o777); err != nil {
		return err
	}
	return each(folder, func(root *os.Root, p string, info fs.FileInfo) error {
		if info.Mode()&fs.ModeSymlink != 0 || info.Mode().IsRegular() && names(info) > 1 {
			return nil // a link to the cache, whose files all may read
		}
		return root.Chmod(p, info.Mode().Perm()|info.Mode().Perm()&0o500>>3|info.Mode().Perm()&0o500>>6)
	})
}

// mountable returns the real path of a folder or file of the node, unless a container must not see
// it: with the socket of a runtime it could start others without bounds, and the worker trusts what
// lies in its own folders.
func (t *Tasks) mountable(from string) (string, error) {
	path, err := filepath.EvalSymlinks(from)
	if err != nil {
		return "", fmt.Errorf("run.mounts: %w: create it on this node, or correct the path", err)
	}
	closed := append(runtimeSockets(), t.Runner.Confines().Hide...)
	for _, p := range append(closed, t.Folder) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		if p != "" && (below(p, path) || below(path, p)) {
			return "", fmt.Errorf("run.mounts: a container must not see %s, which is the worker's or a runtime's, and %s would show it: name what the program needs alone", p, from)
		}
	}
	if !job.MountablePath(path) {
		return "", fmt.Errorf("run.mounts: %s is really %q, which no runtime can be told: move it", from, path)
	}
	return path, nil
}

// below tells whether a path is another one, or lies in it.
func below(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// runtimeSockets are where runtimes listen.
func runtimeSockets() []string {
	all := []string{"/run/podman", "/run/docker.sock", "/run/docker", "/run/containerd", "/run/crio", "/run/buildkit", "/run/user"}
	for _, name := range []string{"DOCKER_HOST", "CONTAINER_HOST", "CONTAINERD_ADDRESS", "XDG_RUNTIME_DIR"} {
		if path := strings.TrimPrefix(os.Getenv(name), "unix://"); filepath.IsAbs(path) {
			all = append(all, path)
		}
	}
	return all
}
