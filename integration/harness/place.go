package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millrace/events/jet/embed"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Patience bounds every single wait. It is far more than anything takes, for
// the machine may be busy with something else.
const Patience = 3 * time.Minute

// Place holds what one test has: its folders, the environment of its processes and the processes
// themselves. All of it is removed after the test.
type Place struct {
	testing.TB
	Dir string
	Env []string
	// Program is the binary that commands and processes run.
	Program string
	Mark    string              // a variable that all its processes have in their environment
	URL     string              // of the NATS server that commands use; "" lets them look for it
	As      *syscall.Credential // of the processes that start; nil for that of the tests
	Files   []*os.File          // what commands and processes inherit, from descriptor 3 on

	started    []*Process
	background []*exec.Cmd // of a script; it waits for them, and may be read when it has passed
	repairs    string      // why a sweep may have to repair something; "" if it must not
}

var places atomic.Int64

// PlaceTTL is long enough for a busy machine not to make workers doubt that they are heard.
const PlaceTTL = 2 * time.Second

// New makes a place in which leases run out after ackWait and everything
// else is as quick as it can be. All processes get their settings from the
// environment, so they agree.
func New(t testing.TB, ackWait time.Duration) *Place {
	t.Helper()
	p := NewAt(t, t.TempDir())
	t.Cleanup(p.leave)
	p.Let("MILLRACE_PROFILE", "dev")
	p.Let("MILLRACE_ACK_WAIT", ackWait.String())
	p.Let("MILLRACE_BEAT", "300ms")
	p.Let("MILLRACE_NODE_TTL", PlaceTTL.String())
	p.Let("MILLRACE_SWEEP", "300ms")
	return p
}

// NewAt makes a place in a folder, with the default settings of the program. The caller leaves it.
func NewAt(t testing.TB, dir string) *Place {
	t.Helper()
	p := &Place{TB: t, Dir: dir, Program: Binary(t)}
	// Not MILLRACE_…: a worker keeps those from its tasks.
	p.Mark = fmt.Sprintf("INTEGRATION_TEST=%d-%d", os.Getpid(), places.Add(1))
	name, value, _ := strings.Cut(p.Mark, "=")
	p.Let(name, value)
	p.Let("PATH", filepath.Dir(Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	p.Let("TZ", "UTC")
	p.Let("MILLRACE_HTTP", "127.0.0.1:0")
	p.Let("MILLRACE_RUNTIMES", "none") // asking those of this machine costs more than most tests
	for name, folder := range map[string]string{
		"HOME": "home", "XDG_CONFIG_HOME": "home/config", "XDG_CACHE_HOME": "home/cache", "XDG_DATA_HOME": "home/data",
		"MILLRACE_DEV_DIR": "running", "TMPDIR": "tmp",
	} {
		p.Let(name, p.Path(folder))
		if err := os.MkdirAll(p.Path(folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *Place) Path(name string) string { return filepath.Join(p.Dir, filepath.FromSlash(name)) }

// NATS starts a NATS server in this process, which all programs here find.
func (p *Place) NATS() *embed.Server {
	p.Helper()
	server, err := embed.Start(embed.Config{Dir: p.Path("nats")})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(server.Stop)
	p.URL = server.URL()
	return server
}

func (p *Place) Let(name, value string) { p.Env = append(p.Env, name+"="+value) }

// result is how a command ended.
type result struct {
	Code      int
	Out, Errs string
}

// Try runs a command of millrace to its end.
func (p *Place) Try(args ...string) result {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Program, args...)
	var out, errs bytes.Buffer
	// On a busy machine a server may take longer to answer than the five seconds that people wait.
	env := append(p.CommandEnv(), "NATS_TIMEOUT=20s")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = p.Dir, env, &out, &errs, p.Files
	err := cmd.Run()
	if ctx.Err() != nil {
		p.Fatalf("millrace %s: no end after %v\n%s%s", strings.Join(args, " "), Patience, out.String(), errs.String())
	}
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		p.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), strings.TrimSpace(out.String()), strings.TrimSpace(errs.String())}
}

func (p *Place) CommandEnv() []string {
	if p.URL == "" {
		return p.Env[:len(p.Env):len(p.Env)]
	}
	return append(p.Env[:len(p.Env):len(p.Env)], "NATS_URL="+p.URL)
}

// Run runs a command of millrace, which must succeed, and returns its output.
func (p *Place) Run(args ...string) string {
	p.Helper()
	r := p.Try(args...)
	if r.Code != 0 {
		p.Fatalf("millrace %s: exit code %d\n%s\n%s", strings.Join(args, " "), r.Code, r.Out, r.Errs)
	}
	return r.Out
}

// Until waits until something holds; what describes it in a few words.
func (p *Place) Until(what string, holds func() bool) {
	p.Helper()
	if !Poll(Patience, holds) {
		p.Fatalf("waited %v in vain: %s", Patience, what)
	}
}

// Poll asks again and again whether something holds, for at most d. It asks less often where an
// answer takes long, as that of a millrace command does: asking would otherwise take the processors
// from the processes under test.
func Poll(d time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(d)
	var again *time.Timer
	for {
		began := time.Now()
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		pause := min(max(9*time.Since(began), 10*time.Millisecond), time.Second)
		if again == nil {
			again = time.NewTimer(pause)
			defer again.Stop()
		} else {
			again.Reset(pause)
		}
		<-again.C
	}
}

// Exists tells whether a file is there.
func (p *Place) Exists(name string) bool {
	_, err := os.Stat(p.Path(name))
	return err == nil
}

func (p *Place) Write(name, text string) {
	p.Helper()
	if err := os.WriteFile(p.Path(name), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

// MayRepair says why a sweep may have to repair something: the test injects that very failure. In
// any other test a repair is a failure.
func (p *Place) MayRepair(why string) { p.repairs = why }

// unrepaired fails the test if a scheduler had to repair something.
func (p *Place) unrepaired() {
	if p.repairs != "" {
		return
	}
	for _, s := range p.started {
		p.unrepairedBy(s.Cmd, s.Said.String())
	}
	if p.Failed() {
		return // a script that failed has not waited for its processes
	}
	for _, cmd := range p.background {
		p.unrepairedBy(cmd, fmt.Sprint(cmd.Stderr))
	}
}

func (p *Place) unrepairedBy(cmd *exec.Cmd, said string) {
	for line := range strings.Lines(said) {
		if strings.Contains(line, `"repair":`) {
			p.Errorf("%s repaired what nobody had broken: %s", strings.Join(cmd.Args, " "), line)
		}
	}
}

// leave ends the processes that are still running. It fails the test if it finds a process that the
// test has not started, or a temporary folder.
func (p *Place) leave() {
	p.unrepaired()
	for _, s := range p.started {
		if p.Failed() {
			p.Logf("millrace %s said:\n%s", strings.Join(s.Cmd.Args[1:], " "), s.Said.String())
		}
		s.Kill()
	}
	// The guard of a worker that was killed ends when it has swept.
	if !p.Failed() {
		Poll(Patience/4, func() bool { return len(Survivors(p.Mark)) == 0 })
	}
	for _, s := range Survivors(p.Mark) {
		p.Errorf("process %d is left: %s", s.PID, s.Command)
		if proc, err := os.FindProcess(s.PID); err == nil {
			_ = proc.Kill()
		}
	}
	if p.Failed() {
		return // a failed test may have left anything
	}
	left, err := filepath.Glob(filepath.Join(p.Path("tmp"), "millrace-*"))
	if err != nil {
		p.Error(err)
	}
	for _, folder := range left {
		// The next worker removes the folder that a killed one left.
		killed := slices.ContainsFunc(p.started, func(s *Process) bool {
			return s.Cmd.ProcessState.ExitCode() == -1 && strings.HasPrefix(filepath.Base(folder), fmt.Sprintf("millrace-work-%d-", s.Cmd.Process.Pid))
		})
		if !killed {
			p.Errorf("the temporary folder %s is left", folder)
		}
	}
}

// Survivor is a process that outlives its test.
type Survivor struct {
	PID     int
	Command string
}

// Dial connects to the place's NATS server as any program may.
func (p *Place) Dial() *nats.Conn {
	p.Helper()
	nc, err := nats.Connect(p.URL)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(nc.Close)
	return nc
}

// JetStream is [Place.Dial] for programs that use streams.
func (p *Place) JetStream() jetstream.JetStream {
	p.Helper()
	js, err := jetstream.New(p.Dial())
	if err != nil {
		p.Fatal(err)
	}
	return js
}
