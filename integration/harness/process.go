package harness

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"millrace/internal/testkit"
)

// Process is a process of millrace that stays until it is ended.
type Process struct {
	Place *Place
	Cmd   *exec.Cmd
	Said  Buffer // its stderr
	Ended chan struct{}
}

// Start starts a process of millrace in a group of its own and returns at once. A process that
// still runs at the end of the test is killed.
func (p *Place) Start(args ...string) *Process {
	p.Helper()
	cmd := exec.Command(p.Program, args...)
	s := &Process{Place: p, Cmd: cmd, Ended: make(chan struct{})}
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.ExtraFiles = p.Dir, p.CommandEnv(), &s.Said, p.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.As} // a signal for us is none for it
	cmd.WaitDelay = time.Second                                             // its guard holds stderr a moment longer
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.started = append(p.started, s)
	go func() {
		defer close(s.Ended)
		_ = cmd.Wait() // ProcessState has the result
	}()
	return s
}

// Data is the folder of the place's server.
const Data = "data"

// Dev starts `millrace dev` and waits until it is ready.
func (p *Place) Dev(args ...string) *Process { return p.serving("dev", args...) }

// Server starts `millrace server` with a NATS server in it and waits until it is ready.
func (p *Place) Server(args ...string) *Process { return p.serving("server", args...) }

func (p *Place) serving(command string, args ...string) *Process {
	p.Helper()
	url := filepath.Join(Data, "nats.url")
	if err := os.Remove(p.Path(url)); err != nil && !os.IsNotExist(err) {
		p.Fatal(err)
	}
	p.URL = "" // this one brings its own
	s := p.Start(append([]string{command, "--data", Data, "--port", strconv.Itoa(testkit.Port(p))}, args...)...)
	s.Until(url+" is written", func() bool {
		text, err := os.ReadFile(p.Path(url))
		p.URL = strings.TrimSpace(string(text))
		return err == nil
	})
	return s
}

// Worker starts `millrace worker` and waits until it is ready.
func (p *Place) Worker(name string, args ...string) *Process {
	p.Helper()
	s := p.Start(append([]string{"worker", "--name", name}, args...)...)
	s.Until("worker "+name+" has started", func() bool { return strings.Contains(s.Said.String(), "Worker on ") })
	return s
}

// Until is place.until for something that the process must live for.
func (s *Process) Until(what string, holds func() bool) {
	s.Place.Helper()
	s.Place.Until(what, func() bool {
		if holds() {
			return true
		}
		select {
		case <-s.Ended:
			s.Place.Fatalf("%s ended with %v before: %s", s.Cmd.Args[1], s.Cmd.ProcessState, what)
		default:
		}
		return false
	})
}

func (s *Process) Signal(sig syscall.Signal) {
	s.Place.Helper()
	if err := s.Cmd.Process.Signal(sig); err != nil {
		s.Place.Fatalf("%v to %s: %v", sig, s.Cmd.Args[1], err)
	}
}

// Wait waits for the end of the process and returns its exit code, -1 if a
// signal ended it.
func (s *Process) Wait() int {
	s.Place.Helper()
	select {
	case <-s.Ended:
	case <-time.After(Patience):
		s.Place.Fatalf("%s has not ended after %v", s.Cmd.Args[1], Patience)
	}
	return s.Cmd.ProcessState.ExitCode()
}

// Stop asks the process to end, which must succeed.
func (s *Process) Stop() {
	s.Place.Helper()
	s.Signal(syscall.SIGTERM)
	if code := s.Wait(); code != 0 {
		s.Place.Fatalf("%s ended with exit code %d", s.Cmd.Args[1], code)
	}
}

// Kill ends the process as the kernel does when memory runs out, if it is there.
func (s *Process) Kill() {
	_ = s.Cmd.Process.Kill() // it may have ended
	<-s.Ended
}

// Buffer is a bytes.Buffer that may be read while it is written.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
