//go:build linux

package integration

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTaskOfAnotherUser: a task that runs as nobody gets files of its own, its setup runs as nobody,
// and it is given nothing that nobody may not read. Where root does not run the tests, a
// task can only be the worker's own user.
func TestTaskOfAnotherUser(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 20*time.Second)
	own, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	other, root := own.Username, own.Uid == "0"
	if root {
		other = "nobody"
		for _, dir := range []string{filepath.Dir(p.dir), p.dir, p.path("tmp")} { // for nobody to pass through
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { // else what is sealed could not be removed
		_ = filepath.WalkDir(p.path("cache"), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(path, 0o755)
			}
			return err
		})
	})
	p.write("key", "topsecret-content\n")
	for _, dir := range []string{"app", "taken"} {
		if err := os.Mkdir(p.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.write("app/a", "first\n")
	p.write("taken/key", "topsecret-content\n")
	p.dev("--files-cache", "cache")
	p.run("files", "push", "app", "--name", "app")
	end := func(name, more string) (state, all string) {
		t.Helper()
		p.write(name+".yaml", "name: "+name+"\n"+more)
		p.run("job", "apply", "-f", name+".yaml")
		id := p.run("run", name)
		p.try("task", "wait", id)
		return p.run("task", "show", id), strings.Join([]string{p.run("task", "logs", id), p.run("task", "events", id), p.try("task", "artifacts", id, "--cat", "key").out}, "\n")
	}

	work := "files: app\nsetup: id -un > who; id -un\nartifacts: [a]\nrun:\n  user: " + other + "\n  shell: id -un; cat who; echo more >> a && chmod 600 a && mkdir d && rm who && stat -c %U a .\n"
	if shown, all := end("work", work); strings.Count(all, other+"\n") != 5 || strings.Contains(shown, "error/") {
		t.Errorf("its setup and its files are not those of %s:\n%s\n%s", other, all, shown)
	}
	if got := p.run("files", "verify", "app"); !strings.Contains(got, "is whole") {
		t.Error(got)
	}

	for name, more := range map[string]string{
		"secret":    "run:\n  user: " + other + "\n  shell: echo \"$S\" | rev\n  secrets: {S: {file: " + p.path("key") + "}}\n",
		"env":       "run:\n  user: " + other + "\n  shell: env\n  env_files: [" + p.path("key") + "]\n",
		"artifacts": "artifacts: {paths: [key], when: always}\nrun: {user: " + other + ", dir: " + p.path("taken") + ", shell: 'true'}\n",
	} {
		shown, all := end(name, more)
		if !root {
			continue // it may read what is its own
		}
		if strings.Contains(all, "topsecret") || strings.Contains(all, "tnetnoc") || !strings.Contains(shown, "permission denied") {
			t.Errorf("%s: nobody is given a file of root:\n%s\n%s", name, shown, all)
		}
	}
}

// TestSecretsOfSetupAndArtifacts: what setup lines print of a secret is hidden as what the task prints, and
// no artifact may bear it in its name.
func TestSecretsOfSetupAndArtifacts(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 20*time.Second)
	p.write("key", "abracadabra\n")
	p.dev()
	p.write("job.yaml", `name: tells
setup:
  - cat `+p.path("key")+`
  - printf '{"type":"STATUS","payload":"%s"}\n' "$(cat `+p.path("key")+`)"
artifacts: ["*.txt"]
run:
  shell: touch "$S.txt"; echo "$S"
  secrets: {S: {file: `+p.path("key")+`}}
`)
	p.run("job", "apply", "-f", "job.yaml")
	id := p.run("run", "tells")
	p.try("task", "wait", id)
	all := p.run("task", "logs", id) + p.run("task", "events", id) + p.run("task", "show", id) + p.try("task", "artifacts", id).out
	if strings.Contains(all, "abracadabra") || strings.Count(all, "[secret]") < 4 || !strings.Contains(all, "a secret of the task stands in the name") {
		t.Errorf("the secret is shown, or not replaced:\n%s", all)
	}
}
