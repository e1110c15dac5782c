package promises

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/integration/harness"
)

// The disk of a NATS server runs full that no process of Millrace started. Health and commands say
// so, and what to restart. They go on saying it when there is room again, until an operator restarts
// that server; then everything goes on by itself.
func TestFullDiskOfAnotherServer(t *testing.T) {
	t.Parallel()
	anotherServersDisk(t, func(n *otherNATS) func() { return fillDisk(n.p, n.cmd.Process.Pid) }, t.TempDir())
}

// The same, with another cause: with -long, where the user may mount a small disk.
func TestSmallDiskOfAnotherServer(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if !*harness.Long || syscall.Mount("millrace-test", disk, "tmpfs", 0, "size=64m") != nil {
		return
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	anotherServersDisk(t, func(n *otherNATS) func() { return fillUp(n.p, filepath.Join(disk, "ballast")) }, filepath.Join(disk, "nats"))
}

// No server of Millrace runs that could say why there is no answer. A command finds out by itself
// that the only NATS server answers questions but no write, and says so.
func TestFullDiskFoundByACommand(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("a step that met the full disk between two writes")
	n := &otherNATS{p: p, store: t.TempDir()}
	n.start("-1")
	t.Cleanup(n.stop)
	server := p.Start("server", "--data", "data")
	p.Until("tasks are taken", func() bool { return p.Try("run", "--", "true").Code == 0 })
	server.Stop()
	room := fillDisk(p, n.cmd.Process.Pid)
	defer room()
	p.Until("a submission is refused, and what to do is said", func() bool {
		r := p.Try("run", "--", "true")
		return r.Code == 7 && strings.Contains(r.Errs, "the log takes no messages: the NATS server does not answer to a write, as if its disk had been full") &&
			strings.Contains(r.Errs, "may or may not be recorded")
	})
}

func anotherServersDisk(t *testing.T, fill func(*otherNATS) (room func()), store string) {
	p := harness.New(t, 2*time.Second)
	p.MayRepair("a step that met the full disk between two writes")
	n := &otherNATS{p: p, store: store}
	n.start("-1")
	t.Cleanup(func() {
		n.stop()
		if t.Failed() {
			t.Logf("the NATS server said:\n%s", n.said.String())
		}
	})
	ready := map[string]string{} // the addresses of each process's health
	for what, process := range map[string]*harness.Process{
		"server": p.Start("server", "--data", "data", "--metrics", "127.0.0.1:0"),
		"worker": p.Start("worker", "--name", "w1", "--metrics", "127.0.0.1:0"),
	} {
		process.Until("the "+what+" has said where its metrics are", func() bool {
			ready[what] = regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(process.Said.String())
			return ready[what] != ""
		})
		ready[what] = strings.TrimSuffix(ready[what], "/metrics") + "/readyz"
	}
	all := func(wanted int, words string) func() bool {
		return func() bool {
			for _, url := range ready {
				if code, said := look(t, url); code != wanted || !strings.Contains(said, words) {
					return false
				}
			}
			return true
		}
	}
	p.Until("server and worker are ready", all(http.StatusOK, ""))
	p.Run("run", "--wait", "--", "true")

	refused := func() bool {
		r := p.Try("run", "--", "true")
		return r.Code == 7 && strings.Contains(r.Errs, "the log takes no messages: ") && strings.Contains(r.Errs, "nats-server has to be restarted")
	}
	room := fill(n)
	p.Until("a submission is refused, and what to restart is said", refused)
	p.Until("health says so, too", all(http.StatusServiceUnavailable, "nats-server has to be restarted"))
	room()
	p.Until("room alone does not help, and is not said to", refused)

	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(at.Host)
	if err != nil {
		t.Fatal(err)
	}
	n.stop()
	n.start(port)
	p.Until("tasks run again", func() bool { return p.Try("run", "--wait", "--", "true").Code == 0 })
	p.Until("server and worker are ready again", all(http.StatusOK, ""))
}

// fillUp leaves no room on the disk of a file, until room is made.
func fillUp(p *harness.Place, ballast string) (room func()) {
	p.Helper()
	f, err := os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.Fatal(err)
	}
	for block := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(block)
	}
	if closed := f.Close(); !errors.Is(err, syscall.ENOSPC) || closed != nil {
		p.Fatal(err, closed)
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			p.Fatal(err)
		}
	}
}
