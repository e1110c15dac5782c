package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a process of millrace that stays until it is ended.
type process struct {
	place *place
	cmd   *exec.Cmd
	said  buffer // its stderr
	ended chan struct{}
}

// start starts a process of millrace in a group of its own and returns at once.
// If it is still there at the end of the test it is killed.
func (p *place) start(args ...string) *process {
	p.Helper()
	cmd := exec.Command(p.program, args...)
	s := &process{place: p, cmd: cmd, ended: make(chan struct{})}
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, p.commandEnv(), &s.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.as} // a signal for us is none for it
	cmd.WaitDelay = time.Second                                             // its guard holds stderr a moment longer
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.started = append(p.started, s)
	go func() {
		defer close(s.ended)
		_ = cmd.Wait() // ProcessState has it
	}()
	return s
}

// data is the folder of the place's server.
const data = "data"

// dev starts `millrace dev` and waits until it is ready.
func (p *place) dev(args ...string) *process { return p.serving("dev", args...) }

// server starts `millrace server` with a NATS server in it and waits until it is ready.
func (p *place) server(args ...string) *process { return p.serving("server", args...) }

func (p *place) serving(command string, args ...string) *process {
	p.Helper()
	url := filepath.Join(data, "nats.url")
	if err := os.Remove(p.path(url)); err != nil && !os.IsNotExist(err) {
		p.Fatal(err)
	}
	p.url = "" // this one brings its own
	s := p.start(append([]string{command, "--data", data, "--port", "0"}, args...)...)
	s.until(url+" is written", func() bool {
		text, err := os.ReadFile(p.path(url))
		p.url = strings.TrimSpace(string(text))
		return err == nil
	})
	return s
}

// worker starts `millrace worker` and waits until it is ready.
func (p *place) worker(name string, args ...string) *process {
	p.Helper()
	s := p.start(append([]string{"worker", "--name", name}, args...)...)
	s.until("worker "+name+" has started", func() bool { return strings.Contains(s.said.String(), "Worker on ") })
	return s
}

// until is place.until for something that the process must live for.
func (s *process) until(what string, holds func() bool) {
	s.place.Helper()
	s.place.until(what, func() bool {
		if holds() {
			return true
		}
		select {
		case <-s.ended:
			s.place.Fatalf("%s ended with %v before: %s", s.cmd.Args[1], s.cmd.ProcessState, what)
		default:
		}
		return false
	})
}

func (s *process) signal(sig syscall.Signal) {
	s.place.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.place.Fatalf("%v to %s: %v", sig, s.cmd.Args[1], err)
	}
}

// wait waits for the end of the process and returns its exit code, -1 if a
// signal ended it.
func (s *process) wait() int {
	s.place.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.place.Fatalf("%s has not ended after %v", s.cmd.Args[1], patience)
	}
	return s.cmd.ProcessState.ExitCode()
}

// stop asks the process to end, which must succeed.
func (s *process) stop() {
	s.place.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		s.place.Fatalf("%s ended with exit code %d", s.cmd.Args[1], code)
	}
}

// kill ends the process as the kernel does when memory runs out, if it is there.
func (s *process) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
