//go:build linux

package child

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGuardEndsOrphansItWasToldOf: the guard ends those without a mark, with all their descendants,
// and spares a process that has only got the number of one.
func TestGuardEndsOrphansItWasToldOf(t *testing.T) {
	start := func() (top, below process) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", `setsid /bin/sh -c 'echo $$; exec sleep 1000' & echo $$; wait`)
		cmd.Env, cmd.SysProcAttr = []string{}, &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		r, pids := bufio.NewReader(out), [2]int{}
		for i := range pids {
			if _, err := fmt.Fscanln(r, &pids[i]); err != nil {
				t.Fatal(err)
			}
		}
		if pids[0] != cmd.Process.Pid {
			pids[0], pids[1] = pids[1], pids[0]
		}
		return hold(t, pids[0]), hold(t, pids[1])
	}
	mine, mineToo := start()
	other, otherToo := start()
	var told strings.Builder
	w := &watch{guard: &guard{in: nopCloser{&told}}}
	w.tellOrphans([]int{mine.pid})
	w.tellOrphans([]int{mine.pid}) // nothing new
	if n := strings.Count(told.String(), "\n"); n != 1 {
		t.Errorf("the guard was told %q", told.String())
	}
	endOrphans(fmt.Sprintf("%s %d:1 nonsense 0:0\n", strings.TrimSpace(told.String()), other.pid))
	if !mine.ends(10*time.Second) || !mineToo.ends(10*time.Second) {
		t.Error("an orphan outlives the worker")
	}
	if other.ends(0) || otherToo.ends(0) {
		t.Error("somebody was killed who has only got the number")
	}
}

type nopCloser struct{ *strings.Builder }

func (nopCloser) Close() error { return nil }
