package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// restartPause is how long a process that ended by itself stays down, as with a service
	// manager.
	restartPause = 250 * time.Millisecond
	// stopPatience is how long a process may take to end in order, at the end of a run.
	stopPatience = 5 * time.Second
	// noServer is the exit code of a process that found no NATS server when it started.
	noServer = 4
)

// process is one process of the installation, restarted until it is stopped.
type process struct {
	name    Target
	argv    []string
	older   []string // argv of the older program; nil if there is none
	env     []string
	said    string // file that gets its stderr
	spawner *spawner

	mu      sync.Mutex
	cmd     *exec.Cmd     // guarded by mu; nil before the first start
	ended   chan struct{} // guarded by mu; closed when cmd has ended
	wanted  bool          // guarded by mu; whether it should run
	aged    bool          // guarded by mu; whether the next start is of the older program
	odd     []string      // guarded by mu; unexpected ends
	retries *time.Timer   // guarded by mu; starts it again
}

// start starts it, if it does not run.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
	return p.spawn()
}

// spawn is called with mu held.
func (p *process) spawn() error {
	if p.ended != nil {
		select {
		case <-p.ended:
		default:
			return nil
		}
	}
	file, err := os.OpenFile(p.said, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // the process has its own
	argv := p.argv
	if p.aged {
		argv = p.older
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stderr = p.env, file
	if err := p.spawner.start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // ProcessState has it
		p.over(cmd)
		close(ended)
	}()
	return nil
}

// age has the next start be of the older program, or of the newer one again. It tells whether the
// process runs and is not that yet.
func (p *process) age(older bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.older == nil || p.aged == older {
		return false
	}
	p.aged = older
	return p.wanted
}

// over records an unexpected end, and arranges a new start.
func (p *process) over(cmd *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted {
		return
	}
	if code := cmd.ProcessState.ExitCode(); code != noServer {
		p.odd = append(p.odd, fmt.Sprintf("%s ended by itself with %v: %s", p.name, cmd.ProcessState, lastLine(p.said)))
	}
	p.retries = time.AfterFunc(restartPause, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wanted {
			if err := p.spawn(); err != nil {
				p.odd = append(p.odd, err.Error())
			}
		}
	})
}

// end ends the process: with SIGKILL at once or, if polite, with SIGTERM and after patience with
// SIGKILL. It returns when the process has ended.
func (p *process) end(polite bool, patience time.Duration) {
	p.mu.Lock()
	p.wanted = false
	if p.retries != nil {
		p.retries.Stop()
	}
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	if polite {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-ended:
			return
		case <-timer.C:
		}
	}
	_ = cmd.Process.Kill() // the same
	<-ended
}

// signal sends a signal to the process, if it runs.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may have ended
	}
}

// pid returns the process's id; 0 if it was never started.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

func (p *process) oddities() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.odd
}

// await waits until ready returns true, and fails if the process ends before.
func (p *process) await(ctx context.Context, limit time.Duration, ready func() bool) error {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	late := time.NewTimer(limit)
	defer late.Stop()
	for !ready() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return fmt.Errorf("%s ended at once: %s", p.name, lastLine(p.said))
		case <-late.C:
			return fmt.Errorf("%s is not ready after %v: %s", p.name, limit, lastLine(p.said))
		case <-ticker.C:
		}
	}
	return nil
}

// lastLine returns the last line of a file, for messages.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	last := "it has said nothing"
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "hint: ") {
			last = line
		}
	}
	return last
}

// surroundings is the environment of the processes: this one's, without variables that would change
// their behaviour, and with a home in dir.
func surroundings(dir string) ([]string, error) {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "NATS_"), strings.HasPrefix(name, "MILLRACE_"), strings.HasPrefix(name, "XDG_"), name == "HOME", name == "TMPDIR":
		default:
			env = append(env, e)
		}
	}
	for name, folder := range map[string]string{"HOME": "home", "TMPDIR": "tmp", "MILLRACE_DEV_DIR": "dev"} {
		path := filepath.Join(dir, folder)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		env = append(env, name+"="+path)
	}
	return env, nil
}

// removeAll removes a folder in which a process may still be ending.
func removeAll(dir string) error {
	var err error
	for deadline := time.Now().Add(stopPatience); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if err = os.RemoveAll(dir); err == nil || errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return err
}

// spawner starts processes that die with this one, even if it is killed. The kernel ties them to
// the thread that started them, so one thread does nothing else and stays.
type spawner struct{ orders chan func() }

func newSpawner() *spawner {
	s := &spawner{orders: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for do := range s.orders {
			do()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes()
	failed := make(chan error)
	s.orders <- func() { failed <- cmd.Start() }
	return <-failed
}

// close is called when all processes have ended.
func (s *spawner) close() { close(s.orders) }
