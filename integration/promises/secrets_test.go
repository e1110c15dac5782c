//go:build linux

package promises

import (
	"millrace/integration/harness"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unprivileged makes the processes that start from now on run without privileges: if root runs the
// tests, as the user nobody, to whom the place's own folders then belong.
func unprivileged(p *harness.Place) {
	p.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	p.As = &syscall.Credential{Uid: nobody, Gid: nobody}
	for dir, mode := range map[string]os.FileMode{filepath.Dir(p.Dir): 0o711, p.Dir: 0o777, filepath.Dir(harness.Binary(p)): 0o711} {
		if err := os.Chmod(dir, mode); err != nil {
			p.Fatal(err)
		}
	}
	for _, own := range []string{"home", "running", "tmp"} {
		err := filepath.WalkDir(p.Path(own), func(path string, _ os.DirEntry, err error) error {
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

// TestWorkersSecrets checks that the token in a worker's environment stays there. Its child
// processes do not get it and cannot read it in /proc, though they run as the same user: tasks,
// setup lines, and tasks whose parent is a shim, each looking at all processes of their user.
func TestWorkersSecrets(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Write("token", "s3cret-token\n")
	p.Server("--auth-token-file", "token")
	p.Let("NATS_TOKEN_FILE", p.Path("token"))
	told := len(p.Env)
	unprivileged(p)
	file := p.Env[told-1]
	p.Env[told-1] = "NATS_USER=s3cret-token"
	p.Worker("only")
	p.Env[told-1] = file // commands of the same user that run meanwhile do not hold it
	// Brackets and quotes keep the search from finding its own text.
	const search = `exec 2>&1; { env | grep '^NATS_'; for f in environ cmdline; do cat /proc/$PPID/$f | tr '\0' '\n' | grep 's3cre[t]'; grep -ls 's3cre[t]' /proc/[0-9]*/$f; done; } 2>/dev/null | sed 's/^/fo''und /'; echo "sear""ched"`
	for name, more := range map[string]string{
		"task": "run: |\n  " + search, "clean": "run:\n  env_clear: true\n  shell: |\n    " + search,
		"kept": "on_restart: adopt\nrun: |\n  " + search, "setup": "setup:\n  - |\n    " + search + "\nrun: 'true'",
	} {
		p.Write(name+".yaml", "name: "+name+"\n"+more+"\n")
		p.Run("job", "apply", "-f", name+".yaml")
		id := p.Run("run", name)
		p.Try("task", "wait", id)
		out := p.Run("task", "logs", id)
		if strings.Contains(out, "found ") || !strings.Contains(out, "searched") {
			t.Errorf("%s: it found\n%s", name, out)
		}
	}
}
