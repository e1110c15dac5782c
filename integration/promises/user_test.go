//go:build linux

package promises

import (
	"millrace/integration/harness"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTaskOfAnotherUser checks that a task that runs as the user nobody gets files of its own, that
// its setup runs as nobody too, and that it gets nothing that this user may not read. Where root
// does not run the tests, a task can only run as the worker's own user.
func TestTaskOfAnotherUser(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	own, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	other, root := own.Username, own.Uid == "0"
	if root {
		other = "nobody"
		// For the user nobody to pass through.
		for _, dir := range []string{filepath.Dir(p.Dir), p.Dir, p.Path("tmp")} {
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { // sealed folders could not be removed otherwise
		_ = filepath.WalkDir(p.Path("cache"), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(path, 0o755)
			}
			return err
		})
	})
	p.Write("key", "topsecret-content\n")
	for _, dir := range []string{"app", "taken"} {
		if err := os.Mkdir(p.Path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.Write("app/a", "first\n")
	p.Write("taken/key", "topsecret-content\n")
	p.Dev("--files-cache", "cache")
	p.Run("files", "push", "app", "--name", "app")
	end := func(name, more string) (state, all string) {
		t.Helper()
		p.Write(name+".yaml", "name: "+name+"\n"+more)
		p.Run("job", "apply", "-f", name+".yaml")
		id := p.Run("run", name)
		p.Try("task", "wait", id)
		return p.Run("task", "show", id), strings.Join([]string{p.Run("task", "logs", id), p.Run("task", "events", id), p.Try("task", "artifacts", id, "--cat", "key").Out}, "\n")
	}

	work := "files: app\nsetup: id -un > who; id -un\nartifacts: [a]\nrun:\n  user: " + other + "\n  shell: id -un; cat who; echo more >> a && chmod 600 a && mkdir d && rm who && stat -c %U a .\n"
	if shown, all := end("work", work); strings.Count(all, other+"\n") != 5 || strings.Contains(shown, "error/") {
		t.Errorf("its setup and its files are not those of %s:\n%s\n%s", other, all, shown)
	}
	if got := p.Run("files", "verify", "app"); !strings.Contains(got, "is whole") {
		t.Error(got)
	}

	for name, more := range map[string]string{
		"secret":    "run:\n  user: " + other + "\n  shell: echo \"$S\" | rev\n  secrets: {S: {file: " + p.Path("key") + "}}\n",
		"env":       "run:\n  user: " + other + "\n  shell: env\n  env_files: [" + p.Path("key") + "]\n",
		"artifacts": "artifacts: {paths: [key], when: always}\nrun: {user: " + other + ", dir: " + p.Path("taken") + ", shell: 'true'}\n",
	} {
		shown, all := end(name, more)
		if !root {
			continue // it may read its own
		}
		if strings.Contains(all, "topsecret") || strings.Contains(all, "tnetnoc") || !strings.Contains(shown, "permission denied") {
			t.Errorf("%s: nobody is given a file of root:\n%s\n%s", name, shown, all)
		}
	}
}

// TestSecretsOfSetupAndArtifacts checks that secrets are hidden in the output of setup lines as in
// that of the task, and that no artifact may have one in its name.
func TestSecretsOfSetupAndArtifacts(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Write("key", "abracadabra\n")
	p.Dev()
	p.Write("job.yaml", `name: tells
setup:
  - cat `+p.Path("key")+`
  - printf '{"type":"STATUS","payload":"%s"}\n' "$(cat `+p.Path("key")+`)"
artifacts: ["*.txt"]
run:
  shell: touch "$S.txt"; echo "$S"
  secrets: {S: {file: `+p.Path("key")+`}}
`)
	p.Run("job", "apply", "-f", "job.yaml")
	id := p.Run("run", "tells")
	p.Try("task", "wait", id)
	all := p.Run("task", "logs", id) + p.Run("task", "events", id) + p.Run("task", "show", id) + p.Try("task", "artifacts", id).Out
	if strings.Contains(all, "abracadabra") || strings.Count(all, "[secret]") < 4 || !strings.Contains(all, "a secret of the task stands in the name") {
		t.Errorf("the secret is shown, or not replaced:\n%s", all)
	}
}
