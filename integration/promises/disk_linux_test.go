package promises

import (
	"io"
	"millrace/integration/harness"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// measured starts a place with metrics, and returns where those are.
func measured(t *testing.T) (p *harness.Place, dev *harness.Process, url string) {
	t.Helper()
	p = harness.New(t, 2*time.Second)
	p.MayRepair("a step that met the full disk between two writes")
	dev = p.Dev("--metrics", "127.0.0.1:0", "--grace", "1s")
	p.Until("it has said where its metrics are", func() bool {
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(dev.Said.String())
		return url != ""
	})
	p.Run("run", "--wait", "--", "true")
	return p, dev, url
}

// Health, commands and metrics report a full disk. The trouble ends without a restart when there is
// room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	p, dev, url := measured(t)
	p.Until("it is ready", func() bool { code, _ := look(t, url+"/readyz"); return code == http.StatusOK })

	room := fillDisk(p, dev.Cmd.Process.Pid)
	p.Until("a submission is refused, and why is said", func() bool {
		r := p.Try("run", "--", "true")
		return r.Code == 7 && strings.Contains(r.Errs, "the log takes no messages: ") && strings.Contains(r.Errs, "may or may not be recorded") &&
			strings.Contains(r.Errs, "hint: make room on the disk")
	})
	code, said := look(t, url+"/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(said, "log: the log takes no messages: ") {
		t.Errorf("with a full disk /readyz says %d: %s", code, said)
	}
	if code, said := look(t, url+"/healthz"); code != http.StatusOK {
		t.Errorf("with a full disk /healthz says %d: %s; to end the process would make no room", code, said)
	}
	if _, said := look(t, url+"/metrics"); !strings.Contains(said, "\nmillrace_log_writable 0\n") {
		t.Error("with a full disk millrace_log_writable is not 0")
	}
	room()
	p.Until("tasks run again", func() bool { return p.Try("run", "--wait", "--", "true").Code == 0 })
	last := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("/readyz said last:\n%s", last)
		}
	})
	p.Until("it is ready again", func() (ready bool) {
		code, said := look(t, url+"/readyz")
		last = said
		return code == http.StatusOK
	})
}

// The goodbye of a worker whose log accepts nothing, while a task runs, has a bound.
func TestGoodbyeOnAFullDisk(t *testing.T) {
	t.Parallel()
	p, dev, url := measured(t)
	p.Submit("sleep 1000")
	fillDisk(p, dev.Cmd.Process.Pid)
	p.Until("the log takes nothing again", func() bool { code, _ := look(t, url+"/readyz"); return code != http.StatusOK })
	// Grace, timeout.stop, and the bound in docs.
	const bound = time.Second + 10*time.Second + 15*time.Second
	asked := time.Now()
	dev.Stop()
	t.Logf("it ended %v after SIGTERM", time.Since(asked))
	if took := time.Since(asked); took > bound {
		t.Errorf("it ended %v after SIGTERM, want %v at most", took, bound)
	}
}

// fillDisk has no file of a process grow any more, which is to it as if the disk were full, until
// room is made.
func fillDisk(p *harness.Place, pid int) (room func()) {
	p.Helper()
	var before unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &before)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: before.Max}, nil)
	}
	if err != nil {
		p.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
			p.Fatal(err)
		}
	}
}

func look(t *testing.T, url string) (code int, said string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}
