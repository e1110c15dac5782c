//go:build linux

package child

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"millrace/ipc"
)

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// guarded returns a Runner with a guard that lives as long as the test.
func guarded(t testing.TB) *Runner {
	t.Helper()
	r, err := NewRunner(Config{Guard: []string{self(t), "guard"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// process is a foreign process, held by descriptor so that its number cannot mislead.
type process struct{ pid, fd int }

func hold(t *testing.T, pid int) process {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0)
		unix.Close(fd)
	})
	return process{pid, fd}
}

// ends tells whether the process ends within the bound.
func (p process) ends(bound time.Duration) bool {
	deadline := time.Now().Add(bound)
	for {
		poll := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(max(0, time.Until(deadline).Milliseconds())))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// workerMain is a worker that runs shell lines concurrently, for ever, and relays their output. Its
// first line is the number of its guard.
func workerMain(lines []string) {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	r, err := NewRunner(Config{Guard: []string{exe, "guard"}})
	if err != nil {
		panic(err)
	}
	fmt.Println("guard", r.guard.current().cmd.Process.Pid)
	for _, line := range lines {
		go r.Run(context.Background(), shell(line), relay{})
	}
	select {}
}

type relay struct{}

func (relay) Line(_ Stream, line ipc.Line) { fmt.Printf("%s\n", line.Text) }
func (relay) Message(ipc.Message)          {}
func (relay) Withheld(string)              {}

// TestKilledWorkerLeavesNothing kills a worker with -9 above all sorts of processes. Each prints
// "name pid" when it has reached its intended state.
func TestKilledWorkerLeavesNothing(t *testing.T) {
	const ready = `ready() { echo "$1 $(exec sh -c 'echo $PPID')"; }; `
	lines := []string{
		ready + `ready child; exec sleep 1000`,
		ready + `sh -c 'echo grandchild $$; exec sleep 1000' & wait`,
		ready + `trap "" TERM HUP INT; sh -c 'trap "" TERM HUP INT; echo deaf-grandchild $$; exec sleep 1000' & ready deaf; while :; do sleep 1000; done`,
		`setsid sh -c 'trap "" TERM HUP; echo daemon $$; exec sleep 1000' >/proc/self/fd/1 & wait`,
		`setsid sh -c 'setsid sh -c "echo daemons-daemon \$\$; exec sleep 1000" & echo middle $$; wait' & wait`,
		`setsid sh -c 'env -i sh -c "echo unmarked-in-marked-group \$\$; exec sleep 1000" & wait' & wait`,
		`sh -c 'kill -STOP $$; :' & sleep 0; sh -c "echo suspended $!; exec sleep 1000"`,
	}
	const processes = 10
	worker := exec.Command(self(t), append([]string{"worker"}, lines...)...)
	worker.Env = append(os.Environ(), MarkerVar+"=of-an-outer-worker")
	worker.Stderr = os.Stderr
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	held := map[string]process{}
	for said := bufio.NewScanner(out); len(held) < processes && said.Scan(); {
		name, number, _ := strings.Cut(said.Text(), " ")
		pid, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%q: %v", said.Text(), err)
		}
		held[name] = hold(t, pid)
	}
	if len(held) != processes {
		t.Fatalf("only these came up: %v", held)
	}
	if err := syscall.Kill(held["guard"].pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("sleep", "1000")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stranger.Env = []string{MarkerVar + "=of-an-outer-worker", "X" + MarkerVar + "=" + "x"}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	strange := hold(t, stranger.Process.Pid)

	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for name, p := range held {
		if !p.ends(20 * time.Second) {
			t.Errorf("%s outlives the worker", name)
		}
	}
	if strange.ends(0) {
		t.Error("the guard killed a stranger")
	}
	_ = stranger.Process.Kill()
	_ = stranger.Wait()
	_ = worker.Wait()
}

// TestChildDiesWithWorkerWithoutGuard: for the child itself the kernel is enough.
func TestChildDiesWithWorkerWithoutGuard(t *testing.T) {
	worker := exec.Command(self(t), "worker", `echo child $$; exec sleep 1000`)
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	var guard, child int
	if _, err := fmt.Fscanf(bufio.NewReader(out), "guard %d\nchild %d\n", &guard, &child); err != nil {
		t.Fatal(err)
	}
	g, c := hold(t, guard), hold(t, child)
	// Suspended, the guard can neither do its work nor be replaced.
	if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_ = worker.Process.Kill()
	if !c.ends(10 * time.Second) {
		t.Error("the child outlives the worker")
	}
	if err := syscall.Kill(guard, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !g.ends(10 * time.Second) {
		t.Error("the guard does not end")
	}
	_ = worker.Wait()
}

func TestCloseEndsEscapedAndGuard(t *testing.T) {
	r, err := NewRunner(Config{Guard: []string{self(t), "guard"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g := hold(t, r.guard.current().cmd.Process.Pid)
	var s record
	if res := r.Run(context.Background(), shell(`trap 'exit 0' USR1; setsid sh -c 'echo $$; kill -USR1 '$$'; exec sleep 1000' & wait`), &s); res.Class != "" {
		t.Fatalf("%+v", res)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(s.stdout()))
	if err != nil {
		t.Fatal(err)
	}
	escaped := hold(t, pid)
	if escaped.ends(0) {
		t.Error("it did not escape")
	}
	r.Close()
	if !escaped.ends(0) {
		t.Error("Close leaves an escaped process behind")
	}
	if !g.ends(0) {
		t.Error("Close leaves the guard behind")
	}
}

func TestGuardIsReplaced(t *testing.T) {
	r := guarded(t)
	for range 2 {
		old := r.guard.current()
		if err := syscall.Kill(old.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-old.gone
		deadline, tick := time.After(20*time.Second), time.NewTicker(5*time.Millisecond)
		for r.guard.current() == old {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatal("no new guard")
			}
		}
		tick.Stop()
	}
}

func TestGuardThatIsNone(t *testing.T) {
	for _, argv := range [][]string{{"/no/such/file"}, {"/bin/true"}, {"/bin/echo", "guard is a word of eleven letters"}} {
		r, err := NewRunner(Config{Guard: argv})
		if err == nil {
			r.Close()
			t.Errorf("%q is taken for a guard", argv)
		}
	}
}

func TestGuardMainRefusesOrdersByHand(t *testing.T) {
	for _, order := range []string{"", "\n", "x 1\n", MarkerVar + "= 1\n", MarkerVar + "=short 1\n", MarkerVar + "=0123456789abcdef0123\n"} {
		cmd := exec.Command(self(t), "guard")
		cmd.Stdin = strings.NewReader(order)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("started by a worker")) {
			t.Errorf("%q: %v, %s", order, err, out)
		}
	}
}

func TestHolds(t *testing.T) {
	for environ, want := range map[string]bool{
		"": false, "A=1\x00M=12\x00": true, "M=12\x00": true, "M=12": true, "M=123\x00": false, "XM=12\x00": false, "M=1\x00": false,
	} {
		if holds([]byte(environ), []byte("M=12")) != want {
			t.Errorf("holds(%q) is not %v", environ, want)
		}
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("12 (a) Z (b)) S 1 34 34 0 -1 4194560 99"))
	if err != nil || got != (stat{state: 'S', parent: 1, group: 34}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := parseStat([]byte("12 (a) R 1 34 34 0 -1 4194564 99")); err != nil || !got.exits {
		t.Errorf("of one that exits: %+v, %v", got, err)
	}
	if got, err := parseStat([]byte("2 (kthreadd) S 0 0 0 0 -1 2129984 0")); err != nil || !got.kernel {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "12", "12 (a) S", "12 (a) S 1 x 34 0 -1 0", "12 (a) S 1 34 34 0 -1 x"} {
		if _, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestParseHeeds(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\ta\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000010002\n": false,
		"SigCgt:\t0000000000004000\n": true,
		"SigIgn:\t0000000000005000\n": true,
		"SigBlk:\tffffffffffffffff\n": true,
		"SigCgt:\tx\n":                true,
	} {
		if parseHeeds([]byte(text), syscall.SIGTERM) != want {
			t.Errorf("%q: not %v", text, want)
		}
	}
}
