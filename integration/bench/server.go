package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Server is a `millrace server` in a process of its own.
type Server struct {
	cmd  *exec.Cmd
	dir  string
	kept bool // the directory stays
	// under are the NATS servers that it works on; nil if it has one of its own.
	under *Cluster
	// URL is where clients connect.
	URL string
}

// StartServer starts the millrace at product as a server in a temporary directory and returns when it
// is ready. It serves metrics at an address, or not if that is "off". more are flags.
func StartServer(ctx context.Context, product, sync, metrics string, more ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return nil, err
	}
	return (&Server{dir: dir}).start(ctx, product, sync, metrics, more...)
}

// StartServerIn starts a server in a directory that stays.
func StartServerIn(ctx context.Context, dir, product, sync, metrics string, more ...string) (*Server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return (&Server{dir: dir, kept: true}).start(ctx, product, sync, metrics, more...)
}

// StartServerOn starts a server on a number of NATS servers that each hold everything, which it
// starts, too. They flush to disk as NATS does by default.
func StartServerOn(ctx context.Context, n int, product, metrics string, more ...string) (*Server, error) {
	under, err := StartCluster(ctx, n)
	if err != nil {
		return nil, err
	}
	s := &Server{under: under, URL: under.URL}
	if s.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
		under.Stop()
		return nil, err
	}
	return s.startWith(ctx, product, append([]string{"--server", under.URL, "--replicas", strconv.Itoa(n), "--metrics", metrics}, more...))
}

// Again stops the server and starts it on the same data, with other flags.
func (s *Server) Again(ctx context.Context, product, sync, metrics string, more ...string) error {
	stop(s.cmd)
	_, err := s.start(ctx, product, sync, metrics, more...)
	return err
}

func (s *Server) start(ctx context.Context, product, sync, metrics string, more ...string) (*Server, error) {
	return s.startWith(ctx, product, append([]string{"--port", "0", "--sync", sync, "--metrics", metrics, "--max-connections", "65536"}, more...))
}

func (s *Server) startWith(ctx context.Context, product string, flags []string) (*Server, error) {
	dir := s.dir
	// Not bound to ctx: Stop ends it in order.
	s.cmd = exec.Command(product, append([]string{"server", "--profile", "dev", "--data", dir, "--ack-wait", "30s"}, flags...)...)
	// No other program may find it.
	s.cmd.Env = append(cleanEnv(), "GODEBUG=madvdontneed=1", "MILLRACE_DEV_DIR="+filepath.Join(dir, "local"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	words, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.end()
		return nil, err
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(words)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "Millrace ") { // is ready, or serves
				ready <- true
			}
		}
		close(ready)
	}()
	select {
	case ok := <-ready:
		if ok && s.under != nil {
			return s, nil
		}
		var url []byte
		if ok {
			url, err = os.ReadFile(filepath.Join(dir, "nats.url")) // it contains the password
		}
		if ok && err == nil {
			s.URL = strings.TrimSpace(string(url))
			return s, nil
		}
		err = errors.New("the server under test ended at once: run `millrace server` by hand to see why")
	case <-time.After(30 * time.Second):
		err = errors.New("the server under test is not ready after 30s")
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.Stop()
	return nil, err
}

// cleanEnv returns the environment without variables that would change the server's behaviour,
// except its memory limit.
func cleanEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NATS_") && !strings.HasPrefix(e, "MILLRACE_") || strings.HasPrefix(e, "MILLRACE_MEMORY=") {
			env = append(env, e)
		}
	}
	return env
}

// Stop ends the server and removes its data, unless they stay.
func (s *Server) Stop() {
	stop(s.cmd)
	s.end()
}

// end ends what is beneath the server, and removes its data, unless they stay.
func (s *Server) end() {
	if s.under != nil {
		s.under.Stop()
	}
	if !s.kept {
		_ = os.RemoveAll(s.dir) // what is left lies in the folder for temporary files
	}
}

// stop ends a process in order, or kills it if it does not end.
func stop(c *exec.Cmd) {
	_ = c.Process.Signal(syscall.SIGTERM) // it may have ended already
	timer := time.AfterFunc(10*time.Second, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	_ = c.Wait() // how it ended no longer matters
}

// Pages returns the address of its pages, if it serves them, and a token for them.
func (s *Server) Pages() (at, token string, err error) {
	url, err := os.ReadFile(filepath.Join(s.dir, "http.url"))
	if err != nil {
		return "", "", err
	}
	secret, err := os.ReadFile(filepath.Join(s.dir, "http.token"))
	return strings.TrimSpace(string(url)), strings.TrimSpace(string(secret)), err
}

// Disk returns the size of its data, in bytes.
func (s *Server) Disk() (sum int64, err error) {
	err = filepath.WalkDir(s.dir, func(_ string, is fs.DirEntry, err error) error {
		if err != nil || is.IsDir() {
			return err
		}
		file, err := is.Info()
		if errors.Is(err, fs.ErrNotExist) { // it has just gone
			return nil
		}
		if err == nil {
			sum += file.Size()
		}
		return err
	})
	return sum, err
}

// Memory returns the resident memory of the server, and of the NATS servers that it works on, in
// bytes, without file pages.
func (s *Server) Memory() (sum int64, err error) {
	for _, c := range s.processes() {
		n, err := memoryOf(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Time returns the processor time that they have used.
func (s *Server) Time() (sum time.Duration, err error) {
	for _, c := range s.processes() {
		d, err := processorTime(strconv.Itoa(c.Process.Pid))
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

func (s *Server) processes() []*exec.Cmd {
	if s.under == nil {
		return []*exec.Cmd{s.cmd}
	}
	return append([]*exec.Cmd{s.cmd}, s.under.members...)
}
