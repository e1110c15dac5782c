package integration

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

	"millrace/jet/embed"
)

// patience bounds every single wait. It is far more than anything takes, for
// the machine may be busy with something else.
const patience = 40 * time.Second

// place is where one test happens: its folders, the environment of its
// processes and the processes themselves. Nothing of it is left after the test.
type place struct {
	testing.TB
	dir string
	env []string
	// program is what commands and processes run.
	program string
	mark    string              // a variable that all its processes have in their environment
	url     string              // of the NATS server that commands use; "" lets them look for it
	as      *syscall.Credential // of the processes that start; nil for that of the tests

	started    []*process
	background []*exec.Cmd // of a script; it waits for them, and may be read when it has passed
	repairs    string      // why a sweep may have to repair something; "" if it must not
}

var places atomic.Int64

// placeTTL is long enough for a busy machine not to make workers doubt that they are heard.
const placeTTL = 2 * time.Second

// newPlace makes a place in which leases run out after ackWait and everything
// else is as quick as it can be. All processes get their settings from the
// environment, so they agree.
func newPlace(t testing.TB, ackWait time.Duration) *place {
	t.Helper()
	p := newPlaceAt(t, t.TempDir())
	t.Cleanup(p.leave)
	p.setenv("MILLRACE_PROFILE", "dev")
	p.setenv("MILLRACE_ACK_WAIT", ackWait.String())
	p.setenv("MILLRACE_BEAT", "300ms")
	p.setenv("MILLRACE_NODE_TTL", placeTTL.String())
	p.setenv("MILLRACE_SWEEP", "300ms")
	return p
}

// newPlaceAt makes a place in a folder, with the settings that the program has
// by itself. Who calls it leaves it.
func newPlaceAt(t testing.TB, dir string) *place {
	t.Helper()
	p := &place{TB: t, dir: dir, program: binary(t)}
	// Not MILLRACE_…: a worker keeps those from its tasks.
	p.mark = fmt.Sprintf("INTEGRATION_TEST=%d-%d", os.Getpid(), places.Add(1))
	name, value, _ := strings.Cut(p.mark, "=")
	p.setenv(name, value)
	p.setenv("PATH", filepath.Dir(binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	p.setenv("TZ", "UTC")
	for name, folder := range map[string]string{
		"HOME": "home", "XDG_CONFIG_HOME": "home/config", "XDG_CACHE_HOME": "home/cache", "XDG_DATA_HOME": "home/data",
		"MILLRACE_DEV_DIR": "running", "TMPDIR": "tmp",
	} {
		p.setenv(name, p.path(folder))
		if err := os.MkdirAll(p.path(folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

// nats starts a NATS server in this process, which all programs here find.
func (p *place) nats() *embed.Server {
	p.Helper()
	server, err := embed.Start(embed.Config{Dir: p.path("nats")})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(server.Stop)
	p.url = server.URL()
	return server
}

func (p *place) setenv(name, value string) { p.env = append(p.env, name+"="+value) }

// result is how a command ended.
type result struct {
	code      int
	out, errs string
}

// try runs a command of millrace to its end.
func (p *place) try(args ...string) result {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.program, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.commandEnv(), &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		p.Fatalf("millrace %s: no end after %v\n%s%s", strings.Join(args, " "), patience, out.String(), errs.String())
	}
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		p.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), strings.TrimSpace(out.String()), strings.TrimSpace(errs.String())}
}

func (p *place) commandEnv() []string {
	if p.url == "" {
		return p.env
	}
	return append(p.env[:len(p.env):len(p.env)], "NATS_URL="+p.url)
}

// run runs a command of millrace, which must succeed, and returns what it prints.
func (p *place) run(args ...string) string {
	p.Helper()
	r := p.try(args...)
	if r.code != 0 {
		p.Fatalf("millrace %s: exit code %d\n%s\n%s", strings.Join(args, " "), r.code, r.out, r.errs)
	}
	return r.out
}

// until waits for something to become true; what says what, in a few words.
func (p *place) until(what string, holds func() bool) {
	p.Helper()
	if !poll(patience, holds) {
		p.Fatalf("waited %v in vain: %s", patience, what)
	}
}

// poll asks again and again whether something holds, for a while. What takes long to find out, as
// a command of millrace does, is asked for less often: else asking would take the processors from
// what it waits for.
func poll(d time.Duration, holds func() bool) bool {
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
		pause := min(max(4*time.Since(began), 10*time.Millisecond), time.Second)
		if again == nil {
			again = time.NewTimer(pause)
			defer again.Stop()
		} else {
			again.Reset(pause)
		}
		<-again.C
	}
}

// exists tells whether a file is there.
func (p *place) exists(name string) bool {
	_, err := os.Stat(p.path(name))
	return err == nil
}

func (p *place) write(name, text string) {
	p.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

// mayRepair says why a sweep may have to do what somebody else should have: the
// test injects just that. Of any other test a repair is a failure.
func (p *place) mayRepair(why string) { p.repairs = why }

// unrepaired fails the test if a scheduler had to repair something.
func (p *place) unrepaired() {
	if p.repairs != "" {
		return
	}
	for _, s := range p.started {
		p.unrepairedBy(s.cmd, s.said.String())
	}
	if p.Failed() {
		return // a script that failed has not waited for its processes
	}
	for _, cmd := range p.background {
		p.unrepairedBy(cmd, fmt.Sprint(cmd.Stderr))
	}
}

func (p *place) unrepairedBy(cmd *exec.Cmd, said string) {
	for line := range strings.Lines(said) {
		if strings.Contains(line, `"repair":`) {
			p.Errorf("%s repaired what nobody had broken: %s", strings.Join(cmd.Args, " "), line)
		}
	}
}

// leave ends the processes that are still there, and fails the test if it finds
// one that nobody has started here, or a temporary folder.
func (p *place) leave() {
	p.unrepaired()
	for _, s := range p.started {
		if p.Failed() {
			p.Logf("millrace %s said:\n%s", strings.Join(s.cmd.Args[1:], " "), s.said.String())
		}
		s.kill()
	}
	// The guard of a worker that was killed ends when it has swept.
	if !p.Failed() {
		poll(patience/4, func() bool { return len(survivors(p.mark)) == 0 })
	}
	for _, s := range survivors(p.mark) {
		p.Errorf("process %d is left: %s", s.pid, s.command)
		if proc, err := os.FindProcess(s.pid); err == nil {
			_ = proc.Kill()
		}
	}
	if p.Failed() {
		return // who failed may have left anything
	}
	left, err := filepath.Glob(filepath.Join(p.path("tmp"), "millrace-*"))
	if err != nil {
		p.Error(err)
	}
	for _, folder := range left {
		// The next worker removes what a killed one could not.
		killed := slices.ContainsFunc(p.started, func(s *process) bool {
			return s.cmd.ProcessState.ExitCode() == -1 && strings.HasPrefix(filepath.Base(folder), fmt.Sprintf("millrace-work-%d-", s.cmd.Process.Pid))
		})
		if !killed {
			p.Errorf("the temporary folder %s is left", folder)
		}
	}
}

// survivor is a process that outlives its test.
type survivor struct {
	pid     int
	command string
}
