//go:build linux

package promises

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// withPodman has the tests of images run them by podman and runc; without it a stand-in for podman
// starts plain processes (see fakeRuntime).
var withPodman = flag.Bool("podman", false, "run images by podman")

// imageName is the image that all tests run.
const imageName = "localhost/contained:1"

// imaged is a place whose workers run images.
type imaged struct {
	*harness.Place
	c *client.Client
}

// newImaged makes a place with a server. Its runtime keeps everything below the place.
func newImaged(t *testing.T) *imaged {
	t.Helper()
	p := harness.New(t, 20*time.Second)
	program := built(p, contained)
	p.Let("MILLRACE_RUNTIMES", "podman")
	if *withPodman {
		setUpPodman(p, program)
	} else {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		put(p, "runtime/images/localhost/.keep", "")
		for from, to := range map[string]string{self: "runtime/podman", program: "runtime/images/" + imageName} {
			if err := os.Symlink(from, p.Path(to)); err != nil {
				t.Fatal(err)
			}
		}
		p.Let("PATH", p.Path("runtime")+":"+filepath.Dir(p.Program)+":"+os.Getenv("PATH"))
	}
	p.Server()
	return &imaged{p, p.Connect()}
}

// contained is the program of the image, built once.
var contained = sync.OnceValues(func() (string, error) {
	if _, err := harness.Program(); err != nil { // makes ProgramDir
		return "", err
	}
	dir := filepath.Join(harness.ProgramDir, "image")
	program, main := filepath.Join(dir, "contained"), filepath.Join(dir, "main.go")
	source, err := os.ReadFile("testdata/contained.source")
	if err := errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(main, source, 0o600)); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, main)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
})

// setUpPodman has podman use runc, without the help of systemd and within the bounds of this process,
// and gives it the image.
func setUpPodman(p *harness.Place, program string) {
	p.Helper()
	put(p, "podman/containers.conf", "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n")
	put(p, "podman/storage.conf", "[storage]\ndriver = \"vfs\"\ngraphroot = \""+p.Path("podman/graph")+"\"\nrunroot = \""+p.Path("podman/run")+"\"\n")
	p.Let("CONTAINERS_CONF", p.Path("podman/containers.conf"))
	p.Let("CONTAINERS_STORAGE_CONF", p.Path("podman/storage.conf"))
	tar := p.Path("podman/image.tar")
	if out, err := exec.Command("tar", "-C", filepath.Dir(program), "-cf", tar, filepath.Base(program)).CombinedOutput(); err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	podman(p, "import", "--change", `ENTRYPOINT ["/contained"]`, tar, imageName)
	p.Cleanup(func() { podman(p, "rm", "--all", "--force", "--time", "0") })
}

func podman(p *harness.Place, args ...string) string {
	p.Helper()
	cmd := exec.Command("podman", args...)
	cmd.Env = p.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// put writes a file in a folder that is made for it.
func put(p *harness.Place, name, text string) {
	p.Helper()
	if err := os.MkdirAll(filepath.Dir(p.Path(name)), 0o755); err != nil {
		p.Fatal(err)
	}
	p.Write(name, text)
}

func (p *imaged) put(name, text string) { p.Helper(); put(p.Place, name, text) }

// task submits a task of the image; change, if not nil, changes what it is.
func (p *imaged) task(change func(*job.Spec), argv ...string) task.ID {
	p.Helper()
	spec := &job.Spec{Run: &job.Run{Image: imageName, Network: "none", Pull: job.PullNever, Argv: append([]string{p.program()}, argv...)}, Timeout: job.Timeout{Stop: value.Duration(time.Second)}}
	if change != nil {
		change(spec)
	}
	return p.SubmitAs(p.c, birth.Submission{Spec: spec})
}

func (p *imaged) program() string { return "/contained" }

// alive returns the processes in the container of a task, without the runtime's client.
func (p *imaged) alive(id task.ID) (pids []int) {
	for _, s := range harness.Survivors("MILLRACE_TASK=" + string(id)) {
		if !strings.HasPrefix(s.Command, "podman ") {
			pids = append(pids, s.PID)
		}
	}
	return pids
}

// begins waits until a task has printed something.
func (p *imaged) begins(id task.ID, printed string) {
	p.Helper()
	p.Until("it prints "+printed, func() bool { return strings.Contains(p.printed(id), printed) })
}

func (p *imaged) printed(id task.ID) string { return printed(p.Place, p.c, id) }

// ends waits until a task has ended, and nothing of it is left.
func (p *imaged) ends(id task.ID, in task.State) task.Task {
	p.Helper()
	ended := p.Await(p.c, id, in)
	p.Until("nothing of it is left", func() bool { return len(p.alive(id)) == 0 })
	return ended
}

// left returns the names of the containers that the runtime knows.
func (p *imaged) left() []string {
	p.Helper()
	if *withPodman {
		return strings.Fields(podman(p.Place, "ps", "--all", "--format", "{{.Names}}"))
	}
	files, _ := filepath.Glob(p.Path("runtime/millrace.*"))
	return files
}

func (p *imaged) wantNoneLeft() {
	p.Helper()
	p.Until("no container is left", func() bool { return len(p.left()) == 0 })
}

// An image's task has what a program's has: output, messages, files, artifacts, variables, secrets,
// its exit code, and bounds. It has none of the worker's variables.
func TestImages(t *testing.T) {
	t.Parallel()
	p := newImaged(t)
	p.Let("WORKERS_OWN", "x")
	p.Let("TAKEN_ALONG", "y")
	p.put("bundle/data.txt", "from the bundle")
	p.put("secret", "hunter2\n")
	worker := p.Worker("only", "--slots", "4")
	p.Run("files", "push", "bundle", "--name", "bundle")

	said := p.task(func(s *job.Spec) {
		s.Files, s.Artifacts = &job.Files{Bundle: "bundle"}, &job.Artifacts{Paths: []string{"left.txt"}}
		s.Run.Env = map[string]string{"PATH": "/elsewhere", "LINES": "one\ntwo"}
		s.Run.Inherit = []string{"TAKEN_ALONG"}
		s.Run.Secrets = map[string]job.Secret{"API_KEY": {File: p.Path("secret")}}
	}, "say", "WORKERS_OWN", "TAKEN_ALONG", "PATH", "LINES", "API_KEY", "MILLRACE_EXE", "MILLRACE_ATTEMPT")
	ended := p.ends(said, task.Finished)
	if string(ended.Result) != `{"n":7}` {
		t.Errorf("its result is %s", ended.Result)
	}
	out := p.Run("task", "logs", string(said))
	for _, want := range []string{"WORKERS_OWN= false", "TAKEN_ALONG=y true", "PATH=/elsewhere true", "LINES=one\ntwo true", "API_KEY=[secret] true", "MILLRACE_EXE= false", "MILLRACE_ATTEMPT=1 true", "from the bundle", "complaint"} {
		if !strings.Contains(out, want) {
			t.Errorf("it has not printed %q:\n%s", want, out)
		}
	}
	if got := p.Run("task", "artifacts", string(said)); !strings.Contains(got, "left.txt") {
		t.Errorf("its artifacts are %s", got)
	}

	own := p.task(func(s *job.Spec) { s.Run.Argv = nil })
	if p.ends(own, task.Finished); !strings.Contains(p.printed(own), "the image's own command") {
		t.Errorf("it has printed %q", p.printed(own))
	}
	typed := task.ID(strings.TrimSpace(p.Run("run", "--image", imageName, "--pull", "never", "--network", "none", "--mount", p.Path("secret")+":/secret:ro", "--runtime", "podman", "--env", "LINES=three", "--", p.program(), "say", "LINES")))
	if p.ends(typed, task.Finished); !strings.Contains(p.printed(typed), "LINES=three true") {
		t.Errorf("what was typed has printed %q", p.printed(typed))
	}
	failed := p.ends(p.task(nil, "exit"), task.Error)
	if failed.Exit == nil || *failed.Exit != 3 || failed.Reason != value.Exit || !strings.Contains(failed.Message, "image "+imageName+" exited with code 3: leaving") {
		t.Errorf("it ended as %s: %s", failed.Reason, failed.Message)
	}
	flood := p.task(func(s *job.Spec) { s.Resources.Output = 1 << 20 }, "flood")
	if p.ends(flood, task.Finished); len(p.printed(flood)) > 2<<20 {
		t.Errorf("%d bytes of its output are kept", len(p.printed(flood)))
	}
	if *withPodman {
		if ate := p.ends(p.task(func(s *job.Spec) { s.Resources.Memory = 32 << 20 }, "eat"), task.Error); ate.Reason != value.Memory {
			t.Errorf("it ended as %s: %s", ate.Reason, ate.Message)
		}
		as := p.task(func(s *job.Spec) { s.Run.User = "daemon" }, "say")
		if p.ends(as, task.Finished); !strings.Contains(p.printed(as), "as 1:1") {
			t.Errorf("it has printed %q", p.printed(as))
		}
	}
	p.wantNoneLeft()
	worker.Stop()
}

// What cannot run says so: an image that is not there, one that cannot be fetched, a registry that
// never answers, a mount of what a container must not see.
func TestImagesThatCannotRun(t *testing.T) {
	t.Parallel()
	p := newImaged(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	worker := p.Worker("only", "--slots", "4")
	for why, change := range map[string]func(*job.Spec){
		"is not on this node, and run.pull is never": func(s *job.Spec) { s.Run.Image = "localhost/nothing:1" },
		"cannot be fetched":                          func(s *job.Spec) { s.Run.Image, s.Run.Pull = "127.0.0.1:1/nothing:1", job.PullMissing },
		"longer than timeout.setup": func(s *job.Spec) {
			s.Run.Image, s.Run.Pull, s.Timeout.Setup = silent.Addr().String()+"/silent:1", job.PullAlways, value.Duration(time.Second)
		},
		"a container must not see": func(s *job.Spec) { s.Run.Mounts = []string{"/run:/host"} },
		"no such file":             func(s *job.Spec) { s.Run.Mounts = []string{p.Path("nothing") + ":/host"} },
	} {
		if ended := p.ends(p.task(change, "exit"), task.Error); ended.Reason != value.System || !strings.Contains(ended.Message, why) {
			t.Errorf("it ended as %s: %s; want %q", ended.Reason, ended.Message, why)
		}
	}
	p.wantNoneLeft()
	worker.Stop()
}

// A cancel ends a container as it ends a program: politely, and by force if that does not help, also
// while it is suspended.
func TestImagesAreCancelled(t *testing.T) {
	t.Parallel()
	p := newImaged(t)
	worker := p.Worker("only", "--slots", "4")
	polite, stubborn, suspended := p.task(nil, "wait"), p.task(nil, "ignore"), p.task(nil, "ignore")
	p.begins(polite, "waiting")
	p.begins(stubborn, "ignoring")
	p.begins(suspended, "ignoring")
	for _, pid := range p.alive(suspended) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []task.ID{polite, stubborn, suspended} {
		p.Run("task", "cancel", string(id))
		p.ends(id, task.Cancelled)
	}
	if !strings.Contains(p.printed(polite), "told to stop") {
		t.Errorf("it was not told: %q", p.printed(polite))
	}
	p.wantNoneLeft()
	worker.Stop()
}

// A killed worker leaves no container behind: its guard removes them, and if that was killed as well,
// the next worker does. A task that may be adopted goes on, with one epoch and each line once.
func TestImagesOutliveNoWorker(t *testing.T) {
	t.Parallel()
	p := newImaged(t)
	p.put("mounted/any", "")
	worker := p.Worker("only", "--slots", "4", "--spool", "kept")
	again := p.task(nil, "wait")
	kept := p.task(func(s *job.Spec) {
		s.OnRestart, s.Run.Mounts = job.RestartAdopt, []string{p.Path("mounted") + ":" + p.Path("mounted") + ":ro"}
	}, "count", p.Path("mounted/go"))
	p.begins(again, "waiting")
	p.begins(kept, "out 5")
	worker.Kill()
	p.Until("the guard has ended one of them", func() bool { return len(p.alive(again)) == 0 && len(p.left()) == 1 })
	if len(p.alive(kept)) == 0 {
		t.Fatal("the container has ended with the worker")
	}

	worker = p.Worker("only", "--slots", "4", "--spool", "kept")
	seen := linesOf(p.Place, p.c, kept)
	p.Until("it goes on printing", func() bool { return linesOf(p.Place, p.c, kept) > seen+5 })
	p.Until("the other one begins again", func() bool { return len(p.alive(again)) == 1 })
	stops := []int{worker.Cmd.Process.Pid}
	for _, s := range harness.Survivors(p.Mark) {
		if strings.HasSuffix(strings.TrimSpace(s.Command), " guard") {
			stops = append(stops, s.PID)
		}
	}
	if len(stops) < 2 {
		t.Fatal("there is no guard")
	}
	slices.Reverse(stops) // the guards first, which would do their work
	for _, pid := range stops {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	<-worker.Ended
	worker = p.Worker("only", "--slots", "4", "--spool", "kept")
	p.Until("what was left is gone", func() bool { return len(p.left()) <= 2 })
	p.put("mounted/go", "")
	ended := p.ends(kept, task.Error)
	lines := strings.Split(strings.TrimSpace(p.printed(kept)), "\n")
	if ended.Attempt != 1 || ended.Exit == nil || *ended.Exit != 3 {
		t.Errorf("it ended in attempt %d as %s: %s", ended.Attempt, ended.Reason, ended.Message)
	}
	for i, line := range lines {
		if want := "out " + strconv.Itoa(i+1); line != want {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
	p.Until("the other one runs once more", func() bool { t := p.State(p.c, again); return t.Attempt > 2 && t.State == task.Running })
	p.Run("task", "cancel", string(again))
	p.ends(again, task.Cancelled)
	p.wantNoneLeft()
	wantNothingKept(p.Place)
	worker.Stop()
}

// A task of an image waits for a node with a runtime, and says so.
func TestImagesNeedARuntime(t *testing.T) {
	t.Parallel()
	p := newImaged(t)
	p.Let("MILLRACE_RUNTIMES", "none")
	without := p.Worker("without")
	id := p.task(nil, "exit")
	named := p.task(func(s *job.Spec) { s.Place.Nodes = []string{"without", "with"} }, "exit")
	p.Until("it is said what is missing", func() bool { return strings.Contains(p.Run("task", "why", string(id)), "runs images") })
	p.Let("MILLRACE_RUNTIMES", "podman")
	with := p.Worker("with")
	for _, id := range []task.ID{id, named} {
		if ended := p.ends(id, task.Error); ended.Node != "with" || ended.Attempt != 1 {
			t.Errorf("it ran on %s, attempt %d", ended.Node, ended.Attempt)
		}
	}
	without.Stop()
	with.Stop()
}
