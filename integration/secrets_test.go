//go:build linux

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unprivileged has the processes that start from now on run as a user who is nobody special: if
// root runs the tests, as nobody, who gets the place's own folders.
func (p *place) unprivileged() {
	p.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	p.as = &syscall.Credential{Uid: nobody, Gid: nobody}
	for dir, mode := range map[string]os.FileMode{filepath.Dir(p.dir): 0o711, p.dir: 0o777, filepath.Dir(binary(p)): 0o711} {
		if err := os.Chmod(dir, mode); err != nil {
			p.Fatal(err)
		}
	}
	for _, own := range []string{"home", "running", "tmp"} {
		err := filepath.WalkDir(p.path(own), func(path string, _ os.DirEntry, err error) error {
			if err == nil {
				err = os.Chown(path, nobody, nobody)
			}
			return err
		})
		if err != nil {
			p.Fatal(err)
		}
	}
}

// TestWorkersSecrets: a worker is told a token by its environment. What it starts is not, and
// cannot read it in /proc either, though it runs as the same user: tasks, setup lines, and tasks
// whose parent is a shim, looking at all processes of their user.
func TestWorkersSecrets(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 20*time.Second)
	p.write("token", "s3cret-token\n")
	p.server("--auth-token-file", "token")
	p.setenv("NATS_TOKEN_FILE", p.path("token"))
	told := len(p.env)
	p.unprivileged()
	file := p.env[told-1]
	p.env[told-1] = "NATS_USER=s3cret-token"
	p.worker("only")
	p.env[told-1] = file // commands of the same user that run meanwhile do not hold it
	// Brackets and quotes keep the search from finding its own text.
	const search = `exec 2>&1; { env | grep '^NATS_'; for f in environ cmdline; do cat /proc/$PPID/$f | tr '\0' '\n' | grep 's3cre[t]'; grep -ls 's3cre[t]' /proc/[0-9]*/$f; done; } 2>/dev/null | sed 's/^/fo''und /'; echo "sear""ched"`
	for name, more := range map[string]string{
		"task": "run: |\n  " + search, "clean": "run:\n  env_clear: true\n  shell: |\n    " + search,
		"kept": "on_restart: adopt\nrun: |\n  " + search, "setup": "setup:\n  - |\n    " + search + "\nrun: 'true'",
	} {
		p.write(name+".yaml", "name: "+name+"\n"+more+"\n")
		p.run("job", "apply", "-f", name+".yaml")
		id := p.run("run", name)
		p.try("task", "wait", id)
		out := p.run("task", "logs", id)
		if strings.Contains(out, "found ") || !strings.Contains(out, "searched") {
			t.Errorf("%s: it found\n%s", name, out)
		}
	}
}
