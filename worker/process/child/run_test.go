//go:build linux

package child

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/ipc"
	"millrace/task/job"
	"millrace/task/value"
)

func TestRunEnds(t *testing.T) {
	for _, c := range []struct {
		line    string
		exit    int // -1: none
		signal  string
		class   string
		message string
	}{
		{"exit 0", 0, "", "", ""},
		{"exit 3", 3, "", value.Exit, "/bin/sh exited with code 3: see its last output"},
		{"no-such-program", 127, "", value.Exit, "cannot find"},
		{"exit 126", 126, "", value.Exit, "chmod +x"},
		{"sh -c 'kill -SEGV $$'; exit $?", 139, "", value.Exit, "ended by SIGSEGV"},
		{"exit 255", 255, "", value.Exit, "code 255"},
		{"kill -KILL $$", -1, "SIGKILL", value.Killed, "not by Millrace"},
		{"kill -TERM $$", -1, "SIGTERM", value.Killed, "ended by SIGTERM"},
		{"kill -TERM 0", -1, "SIGTERM", value.Killed, "ended by SIGTERM"},
	} {
		res, _ := run(t, c.line)
		exit := -1
		if res.Exit != nil {
			exit = *res.Exit
		}
		if exit != c.exit || res.Signal != c.signal || res.Class != c.class || res.Stopped || res.Survivors != 0 {
			t.Errorf("%s: exit %d, %+v", c.line, exit, res)
		}
		if !strings.Contains(res.Message, c.message) || (c.message == "") != (res.Message == "") {
			t.Errorf("%s: message %q, want %q", c.line, res.Message, c.message)
		}
	}
}

func TestRunDeliversEverything(t *testing.T) {
	res, s := run(t, `echo out; echo err >&2; echo '{"type":"STATUS","payload":"half"}'; printf '{"type":"NEWS"}\r\n'; echo '{"type":"STATUS","payload":"no"}' >&2; printf end; printf '\0\377\n' >&2`)
	if res.Class != "" {
		t.Fatalf("%+v", res)
	}
	if got, want := s.stdout(), "out\n{\"type\":\"NEWS\"}\r\nend\n"; got != want {
		t.Errorf("stdout %q, want %q", got, want)
	}
	if got, want := s.stderr(), "err\n{\"type\":\"STATUS\",\"payload\":\"no\"}\n\uFFFD\uFFFD\n"; got != want || !s.replaced {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if len(s.messages) != 1 || s.messages[0].Type != ipc.TypeStatus {
		t.Errorf("messages %v", s.messages)
	}
}

// TestEncoding: lines and messages are converted before anything is made of them.
func TestEncoding(t *testing.T) {
	for _, c := range []struct {
		encoding, line, want string
		replaced             bool
	}{
		{"gbk", `printf '\310\316\316\361\315\352\263\311\n\310'; sleep .01; printf '\316\r\n'`, "任务完成\n任\r\n", false},
		{"gbk", `printf 'a\377b\n\310\316\n'`, "a\uFFFDb\n任\n", true},
		{"latin1", `printf 'caf\351\n'`, "café\n", false},
		{"utf-16", `printf '\377\376h\0i\0\n\0\033N'`, "hi\n丛\n", false},
		{"", `printf '\310\316\316\361\315\352\263\311\n'`, "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\n", true},
		{"gbk", `printf '{"type":"STATUS","payload":"\310\316"}\n'`, "", false},
	} {
		var s record
		command := shell(c.line)
		command.Encoding = c.encoding
		runner(t).Run(t.Context(), command, &s)
		if got := s.stdout(); got != c.want || s.replaced != c.replaced {
			t.Errorf("%s %s: %q, %v, want %q", c.encoding, c.line, got, s.replaced, c.want)
		}
		if c.want == "" && (len(s.messages) != 1 || string(s.messages[0].Payload) != `"任"`) {
			t.Errorf("messages %v", s.messages)
		}
	}
}

func TestRunGivesWhatWasAsked(t *testing.T) {
	r, dir := runner(t), t.TempDir()
	var s record
	res := r.Run(context.Background(), Command{
		Argv: []string{"sh", "-c", `pwd; echo "$1|$A|$HOME|$MILLRACE_WORKER"`, "x", "an argument"},
		Dir:  dir, Env: []string{"PATH=.:/no/such/dir:/bin:/usr/bin", "A=b c", MarkerVar + "=another"},
	}, &s)
	marker := strings.TrimPrefix(r.marker, MarkerVar+"=")
	if want := dir + "\nan argument|b c||" + marker + "\n"; s.stdout() != want || res.Class != "" {
		t.Errorf("%q, want %q; %+v", s.stdout(), want, res)
	}
}

func TestRunLeadsItsGroup(t *testing.T) {
	_, s := run(t, `echo $$; cut -d' ' -f5 /proc/$$/stat`)
	pid, group, _ := strings.Cut(strings.TrimSpace(s.stdout()), "\n")
	if pid != group {
		t.Errorf("process %s is in group %s", pid, group)
	}
}

func TestRunCannotStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o644)
	windows := file("windows", "#!/bin/sh\r\necho hi\r\n", 0o755)
	orphan := file("orphan", "#!/no/such/interpreter\n", 0o755)
	naked := file("naked", "echo hello\n", 0o755)
	env := []string{"PATH=" + dir}
	for _, c := range []struct {
		name string
		Command
		want string
		exit int // 0 for none
	}{
		{"nothing", Command{}, "no program", 0},
		{"empty name", Command{Argv: []string{""}}, "no program", 0},
		{"both", Command{Argv: []string{"/bin/true"}, Shell: "true"}, "choose one", 0},
		{"no such name", Command{Argv: []string{"nope"}, Env: env}, "cannot start nope: no such file or directory: install it", 127},
		{"no such file", Command{Argv: []string{"/no/such/file"}}, "cannot start /no/such/file: no such file or directory: install it", 127},
		{"no path", Command{Argv: []string{"true"}}, "install it", 127},
		{"not executable", Command{Argv: []string{plain}}, "permission denied: it may not be executed", 126},
		{"not executable, in path", Command{Argv: []string{"plain"}, Env: env}, "permission denied: it may not be executed", 126},
		{"directory", Command{Argv: []string{dir}}, "it is a directory", 126},
		{"no interpreter", Command{Argv: []string{orphan}}, "/no/such/interpreter, the interpreter that its first line names, is not", 127},
		{"windows", Command{Argv: []string{windows}}, "its first line ends in CR: save it with Unix line ends", 127},
		{"not in a fresh folder", Command{Argv: []string{"./s.sh"}, Dir: dir, Fresh: true}, "an empty folder of its own: give the whole path, name a folder with --dir (run.dir), or bring the file along with --files", 127},
		{"not in a given folder", Command{Argv: []string{"./s.sh"}, Dir: dir}, "it is not in " + dir, 127},
		{"no such path", Command{Argv: []string{"/no/such/program"}}, "or correct its path", 127},
		{"no program", Command{Argv: []string{naked}}, "#!/bin/sh", 126},
		{"no dir", Command{Argv: []string{"/bin/true"}, Dir: dir + "/none"}, "working directory", 0},
		{"dir is a file", Command{Argv: []string{"/bin/true"}, Dir: plain}, "is not a directory", 0},
		{"relative to dir", Command{Argv: []string{"./orphan"}, Dir: dir}, "the interpreter that its first line names", 127},
		{"zero byte", Command{Argv: []string{"/bin/echo", "a\x00b"}}, "zero byte", 0},
		{"too large", Command{Argv: []string{"/bin/echo", strings.Repeat("x", 4<<20)}}, "pass the data in a file", 0},
	} {
		res := runner(t).Run(context.Background(), c.Command, &count{})
		exit := 0
		if res.Exit != nil {
			exit = *res.Exit
		}
		if res.Class != value.System || exit != c.exit || res.Stopped || !strings.Contains(res.Message, c.want) {
			t.Errorf("%s: exit code %d, %+v, want %d and %q", c.name, exit, res, c.exit, c.want)
		}
	}
}

// TestHints: what began, and failed because of a file that it names, says so, too.
func TestHints(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"env": "#!/usr/bin/env bash\r\necho hi\r\n", "option": "#!/bin/sh -e\r\necho hi\r\n", "good": "#!/bin/sh\nexit 127\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const crlf, lonely = "; its first line ends in CR: save it with Unix line ends (LF)", "; a task begins in an empty folder of its own"
	for _, c := range []struct {
		Command
		want string
	}{
		{Command{Argv: []string{filepath.Join(dir, "env")}}, crlf},
		{Command{Argv: []string{"./option"}, Dir: dir}, crlf},
		{Command{Argv: []string{"./option"}, Dir: dir, Resources: job.Resources{FileSize: 1 << 20}}, crlf},
		{Command{Shell: "./s.sh", Dir: dir, Fresh: true}, lonely},
		{Command{Argv: []string{"sh", "-c", "exec ../s.sh x"}, Fresh: true}, ""},
		{Command{Argv: []string{"sh", "./s.sh"}, Dir: dir, Fresh: true}, lonely},
		{Command{Shell: "./s.sh"}, ""},
		{Command{Argv: []string{"./good"}, Dir: dir}, ""},
	} {
		c.Env = os.Environ()
		res := runner(t).Run(t.Context(), c.Command, &count{})
		if _, hint, _ := strings.Cut(res.Message, ": "); res.Class != value.Exit || !strings.Contains(hint, c.want) || c.want == "" && (strings.Contains(hint, crlf) || strings.Contains(hint, lonely)) {
			t.Errorf("%q %s: %+v, want %q", c.Argv, c.Shell, res, c.want)
		}
	}
}

// TestRunWaitsForAWriter: a file that is open for writing cannot be executed,
// and another process may hold it open for the moment between its fork and exec.
func TestRunWaitsForAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(program); err != nil {
		t.Fatal(err)
	}
	r := runner(t)
	if res := r.Run(context.Background(), Command{Argv: []string{path}}, &count{}); !strings.Contains(res.Message, "still writes") {
		t.Errorf("while it is written: %+v", res)
	}
	done := make(chan Result)
	go func() { done <- r.Run(context.Background(), Command{Argv: []string{path}}, &count{}) }()
	f.Close()
	if res := <-done; res.Class != "" {
		t.Errorf("when it has been written: %+v", res)
	}
}

func TestRunFloods(t *testing.T) {
	for _, c := range []struct {
		line  string
		bytes int
	}{
		{"yes $(printf %099d 0) | head -c 200000000", 198_000_000}, // the ends of lines do not count
		{"yes | head -c 4000000", 2_000_000},
		{"head -c 20000000 /dev/zero | tr '\\0' x", 20_000_000},
		{"head -c 20000000 /dev/zero | tr '\\0' '{'", 20_000_000},
	} {
		var s count
		if res := runner(t).Run(context.Background(), shell(c.line), &s); res.Class != "" || s.bytes[Stdout] != c.bytes {
			t.Errorf("%s: %d bytes, want %d; %+v", c.line, s.bytes[Stdout], c.bytes, res)
		}
	}
	if res, s := run(t, "head -c 3000000 /dev/urandom; head -c 3000000 /dev/urandom >&2"); res.Class != "" || !s.replaced {
		t.Errorf("binary: %+v", res)
	}
}

func TestRunWithStreamsClosedEarly(t *testing.T) {
	res, s := run(t, `echo a; exec 1>&-; echo b >&2; exec 2>&-; exec 0<&-; cat /proc/self/stat | cut -c1 | wc -l | grep -q 1; exit 4`)
	if res.Exit == nil || *res.Exit != 4 || s.stdout() != "a\n" || s.stderr() != "b\n" {
		t.Errorf("%+v, %q, %q", res, s.stdout(), s.stderr())
	}
}

// TestRunDoesNotWaitForAnEscapedWriter: it left the group, so it lives, but the pipe that it holds
// open delays nothing.
func TestRunDoesNotWaitForAnEscapedWriter(t *testing.T) {
	for _, line := range []string{
		`setsid sleep 1000 & echo $!; until [ "$(cut -d' ' -f5 /proc/$!/stat)" = $! ]; do :; done; head -c 60000 /dev/zero | tr '\0' x`,
		`setsid yes >&2 & echo $!; until [ "$(cut -d' ' -f5 /proc/$!/stat)" = $! ]; do :; done; head -c 60000 /dev/zero | tr '\0' x`,
	} {
		res, s := run(t, line)
		pid, rest, _ := strings.Cut(s.stdout(), "\n")
		var escaped int
		if _, err := fmt.Sscan(pid, &escaped); err != nil {
			t.Fatalf("%q: %v", s.stdout(), err)
		}
		if err := syscall.Kill(escaped, syscall.SIGKILL); err != nil {
			t.Errorf("the escaped process: %v", err)
		}
		if res.Class != "" || len(rest) != 60001 {
			t.Errorf("%d bytes; %+v", len(rest), res)
		}
	}
}

func TestRunEndsLeftovers(t *testing.T) {
	for name, line := range map[string]string{
		"one":            `sleep 1000 & echo $!`,
		"quiet":          `sleep 1000 >/dev/null 2>&1 </dev/null & echo $!`,
		"ignores TERM":   `(trap "" TERM; echo $(exec sh -c 'echo $PPID') >&2; exec sleep 1000) & wait_for() { until grep -q 'SigIgn:.*[4-7c-f]...$' /proc/$1/status; do :; done; }; wait_for $!; echo $!`,
		"suspended":      `sleep 1000 & kill -STOP $!; echo $!`,
		"nested":         `sh -c 'sh -c "sleep 1000 & sleep 1000" & sleep 1000' & echo $!`,
		"leader crashes": `sleep 1000 & echo $!; kill -SEGV $$`,
	} {
		t.Run(name, func(t *testing.T) {
			var s record
			c := shell(line)
			c.Grace = 50 * time.Millisecond
			res := runner(t).Run(context.Background(), c, &s)
			var pid int
			if _, err := fmt.Sscan(s.stdout(), &pid); err != nil {
				t.Fatalf("%q, %+v: %v", s.stdout(), res, err)
			}
			if state, err := readStat(pid); err == nil && !state.ended() {
				t.Errorf("process %d lives on; %+v", pid, res)
			}
			if res.Stopped || res.Survivors != 0 {
				t.Errorf("%+v", res)
			}
		})
	}
}

// TestRunLetsLeftoversTidyUp: they are asked before they are killed.
func TestRunLetsLeftoversTidyUp(t *testing.T) {
	var s record
	c := shell(`sh -c 'trap "echo tidy; exit" TERM; echo set; while :; do sleep 0.01; done' | while read -r l; do echo $l; [ $l = set ] && kill -USR1 $$; done & trap 'exit 0' USR1; wait`)
	c.Grace = time.Minute
	runner(t).Run(context.Background(), c, &s)
	if !strings.HasPrefix(s.stdout(), "set\n") {
		t.Errorf("%q", s.stdout())
	}
}

func TestRunHundredAtOnce(t *testing.T) {
	r := runner(t)
	var together, done sync.WaitGroup
	together.Add(100)
	for i := range 100 {
		done.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			s := record{said: make(chan string, 1)}
			go func() {
				<-s.said
				together.Done()
				together.Wait() // all 100 run now
				cancel()
			}()
			c := shell(fmt.Sprintf(`trap 'exit %d' TERM; echo %d; while :; do sleep 1000 & wait; done`, i, i))
			c.Grace = time.Minute
			res := r.Run(ctx, c, &s)
			if !res.Stopped || res.Exit == nil || *res.Exit != i || s.stdout() != fmt.Sprintf("%d\n", i) {
				t.Errorf("process %d said %q and ended so: %+v", i, s.stdout(), res)
			}
		})
	}
	done.Wait()
}

func TestUsage(t *testing.T) {
	res, _ := run(t, `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; head -c 300000000 /dev/zero | tail -c 250000000 >/dev/null`)
	if cpu := res.Usage.UserTime + res.Usage.SystemTime; cpu <= 0 || cpu > value.Duration(time.Minute) {
		t.Errorf("processor time %v", cpu)
	}
	if m := res.Usage.MaxMemory; m < 240_000_000 || m > 1_000_000_000 {
		t.Errorf("memory %d bytes, want more than the 250 MB that tail holds", m)
	}
	// The kernel would report as much memory for this process as for ours.
	if res, _ := run(t, "true"); res.Usage.MaxMemory != 0 {
		t.Errorf("memory of next to nothing: %d bytes", res.Usage.MaxMemory)
	}
}

func TestCloseRefusesAndWaits(t *testing.T) {
	r := runner(t)
	ctx, cancel := context.WithCancel(context.Background())
	s := record{said: make(chan string)}
	done := make(chan Result, 1)
	go func() { done <- r.Run(ctx, shell("echo up; exec sleep 1000"), &s) }()
	<-s.said
	closed := make(chan struct{})
	go func() { r.Close(); close(closed) }()
	for {
		if res := r.Run(context.Background(), shell("true"), &count{}); res.Class == value.System {
			break // Close has begun
		}
	}
	select {
	case <-closed:
		t.Error("Close did not wait for a process")
	default:
	}
	cancel()
	<-closed
	if res := <-done; !res.Stopped {
		t.Errorf("%+v", res)
	}
	r.Close()
}

// TestStdinEndsAtOnce: a program that reads its input to the end does not wait, unless the task
// asks for an open input.
func TestStdinEndsAtOnce(t *testing.T) {
	s := &record{}
	if res := runner(t).Run(t.Context(), shell(`cat; echo done`), s); res.Class != "" || s.stdout() != "done\n" {
		t.Errorf("said %q: %+v", s.stdout(), res)
	}
}

// TestNoNewRights: a process and its children gain no rights, unless the operator allows it.
func TestNoNewRights(t *testing.T) {
	for elevate, want := range map[bool]string{false: "1", true: "0"} {
		r, err := NewRunner(Config{Elevate: elevate})
		if err != nil {
			t.Fatal(err)
		}
		var s record
		r.Run(t.Context(), shell(`sed -n 's/^NoNewPrivs:[[:space:]]*//p' /proc/self/status`), &s)
		r.Close()
		own, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(own), "NoNewPrivs:\t1") {
			want = "1" // we were started so
		}
		if got := strings.TrimSpace(s.stdout()); got != want {
			t.Errorf("elevate %v: a process has NoNewPrivs %q, want %s", elevate, got, want)
		}
	}
}

// TestNoStrangeDescriptors: a process has its three standard streams and no descriptor that this
// program inherited.
func TestNoStrangeDescriptors(t *testing.T) {
	r := runner(t)
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil { // as if inherited: it stays open across exec
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	defer syscall.Close(fds[1])
	var s record
	r.Run(t.Context(), shell(fmt.Sprintf(`for fd in %d %d; do [ ! -e /proc/$$/fd/$fd ] || echo $fd; done; echo looked`, fds[0], fds[1])), &s)
	if got := s.stdout(); got != "looked\n" {
		t.Errorf("a process has our descriptors %q", got)
	}
}

func TestVariablesOnce(t *testing.T) {
	var s record
	res := runner(t).Run(t.Context(), Command{
		Argv: []string{"/usr/bin/env"}, Env: []string{"FOO=worker", "PATH=/usr/bin:/bin", "BAR=1", MarkerVar + "=outer", "FOO=job", "FOO=file"},
	}, &s)
	lines := strings.Fields(s.stdout())
	slices.Sort(lines)
	if res.Class != "" || len(lines) != 4 || lines[0] != "BAR=1" || lines[1] != "FOO=file" || strings.HasSuffix(lines[2], "=outer") {
		t.Errorf("%s: the program was told %q", res.Message, lines)
	}
}
