package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/task/job"
	"millrace/worker/process/child"
)

func TestArguments(t *testing.T) {
	const plain = "--security-opt no-new-privileges --cap-drop ALL"
	const marks = "--env MILLRACE_WORKER --env MILLRACE_RUN"
	run := job.Run{Image: "alpine:3.22"}
	for what, c := range map[string]struct {
		runtime string
		box     box
		want    string
	}{
		"the image's own command": {"docker", box{run: &run}, "--rm --pull=never --log-driver=none " + plain + " " + marks + " alpine:3.22"},
		"podman":                  {"podman", box{run: &run}, "--rm --pull=never --log-driver=none --http-proxy=false " + plain + " " + marks + " alpine:3.22"},
		"nerdctl":                 {"nerdctl", box{run: &run}, "--rm --pull=never --log-driver=json-file --log-opt=max-size=1m " + plain + " " + marks + " alpine:3.22"},
		"a command": {"docker", box{run: &run, argv: []string{"/bin/sh", "-c", "echo --rm"}, dir: "/w", folders: []string{"/w", "/x"}, shared: "/cache"},
			"--rm --pull=never --log-driver=none " + plain + " --mount type=bind,source=/w,target=/w --mount type=bind,source=/x,target=/x --mount type=bind,source=/cache,target=/cache,readonly --workdir /w " + marks + " --entrypoint /bin/sh alpine:3.22 -c echo --rm"},
		"input, network, mounts": {"docker", box{run: &job.Run{Image: "a", Stdin: job.StdinOpen, Network: "none"}, mounts: []job.Mount{{From: "/a", To: "/b"}, {From: "/c", To: "/d", ReadOnly: true}}},
			"--rm --pull=never --log-driver=none --interactive --network none " + plain + " --mount type=bind,source=/a,target=/b --mount type=bind,source=/c,target=/d,readonly " + marks + " a"},
		"bounds": {"docker", box{run: &run, resources: job.Resources{Memory: 1 << 20, CPU: 0.5, PIDs: 9, FileSize: 7}},
			"--rm --pull=never --log-driver=none " + plain + " --memory 1048576b --memory-swap 1048576b --cpus 0.5 --pids-limit 9 --ulimit fsize=7:7 " + marks + " alpine:3.22"},
		"a user": {"docker", box{run: &run, as: &account{uid: 3, gid: 4, credential: &syscall.Credential{Groups: []uint32{4, 5}}}},
			"--rm --pull=never --log-driver=none --user 3:4 --group-add 4 --group-add 5 " + plain + " " + marks + " alpine:3.22"},
		"rights": {"docker", box{run: &run, elevate: true, confine: child.Confinement{Capabilities: []int{0, 1}}},
			"--rm --pull=never --log-driver=none --cap-drop ALL --cap-add CHOWN --cap-add DAC_OVERRIDE " + marks + " alpine:3.22"},
		"all rights": {"docker", box{run: &run, elevate: true, confine: child.Confinement{AllCapabilities: true}}, "--rm --pull=never --log-driver=none " + marks + " alpine:3.22"},
		// No value that may be a secret is an argument, which all users of the machine can read. What the
		// runtime would heed itself is one.
		"variables": {"docker", box{run: &run, env: []string{"API_KEY=hunter2", "PATH=/bin", "LD_PRELOAD=x", "https_proxy=p", "GOOD=1"}},
			"--rm --pull=never --log-driver=none " + plain + " --env API_KEY --env PATH=/bin --env LD_PRELOAD=x --env https_proxy=p --env GOOD=1 " + marks + " alpine:3.22"},
	} {
		if got := strings.Join(c.box.arguments(c.runtime), " "); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", what, got, c.want)
		}
	}
}

func TestBoundsInWords(t *testing.T) {
	b := box{resources: job.Resources{Memory: 1 << 20, CPU: 0.5}}
	if got := b.bounds("podman"); got != "memory 1MiB (podman), cpu 0.5 (podman)" {
		t.Error(got)
	}
}

// A container sees none of the worker's folders and no socket of a runtime, whichever way a mount names
// them.
func TestMountable(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spool/kept", "data", "own", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("own", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("spool/kept", filepath.Join(dir, "way")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(dir, "run", "docker.sock"))
	r, err := child.NewRunner(child.Config{Confine: child.Confinement{Hide: []string{filepath.Join(dir, "data")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tasks := &Tasks{Runner: r, Folder: filepath.Join(dir, "spool")}
	for from, real := range map[string]string{"own": "own", "link": "own", "spool": "", "spool/kept": "", "way": "", "data": "", "run": "", "": "", "missing": ""} {
		got, err := tasks.mountable(filepath.Join(dir, from))
		if (err == nil) != (real != "") || err == nil && got != filepath.Join(dir, real) {
			t.Errorf("%q: %q, %v", from, got, err)
		}
	}
	for _, from := range []string{"/", "/run", "/var/run"} {
		if got, err := tasks.mountable(from); err == nil {
			t.Errorf("%s: %s", from, got)
		}
	}
}
