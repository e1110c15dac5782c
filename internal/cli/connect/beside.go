package connect

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// besideGrace is how long a program may take to end after SIGTERM.
const besideGrace = 5 * time.Second

// Beside starts a program beside the command, with the terminal as its own, so that it may be a debugger. What it
// prints goes where the command's errors go. It is asked to end when ctx does. wait returns when it has ended.
func (a *App) Beside(ctx context.Context, words []string, env ...string) (wait func() error, err error) {
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Env = append(os.Environ(), env...)
	c.Stdin, c.Stdout, c.Stderr = a.In, a.Errs, a.Errs
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = besideGrace
	return c.Wait, c.Start()
}

// Ran is how a program ended that ran in place of the command.
type Ran struct {
	// Code is its exit code, or that of a shell that cannot start it or whose signal ends it.
	Code int
	// Last returns the last bytes that it has printed, and Rest returns when nobody holds its streams any more.
	Last func() string
	Rest func()
}

// Through runs a program in place of the command, whose streams it has. It is asked to end when ctx does. most is
// how many of the last bytes are kept.
func (a *App) Through(ctx context.Context, words []string, most int) Ran {
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdin = a.In
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	kept, printed := &lastBytes{most: most}, sync.WaitGroup{}
	var ends []*os.File
	var err error
	for _, of := range []struct {
		stream *io.Writer
		to     io.Writer
	}{{&c.Stdout, a.Out}, {&c.Stderr, a.Errs}} {
		from, into, piped := os.Pipe()
		if err = errors.Join(err, piped); piped != nil {
			continue
		}
		*of.stream, ends = into, append(ends, into)
		printed.Go(func() {
			defer from.Close()
			_, _ = io.Copy(io.MultiWriter(of.to, kept), from) // whoever reads no more loses it alone
			_, _ = io.Copy(kept, from)
		})
	}
	if err == nil {
		err = c.Start()
	}
	for _, end := range ends {
		_ = end.Close()
	}
	ran := Ran{Last: kept.text, Rest: printed.Wait}
	if err != nil {
		if ran.Code = 126; errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			ran.Code = 127
		}
		a.Note("%v", err)
		return ran
	}
	_ = c.Wait() // its state says it
	if ran.Code = c.ProcessState.ExitCode(); ran.Code < 0 {
		if by, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok {
			ran.Code = 128 + int(by.Signal())
		}
	}
	// What it has printed is in the pipes; who it has left behind may keep them open for ever.
	all := make(chan struct{})
	go func() { printed.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(lastLines):
	}
	return ran
}

// lastLines is how long the last lines of a program that has ended are waited for.
const lastLines = time.Second

// lastBytes keeps the last bytes that are written.
type lastBytes struct {
	most int
	mu   sync.Mutex
	all  []byte // guarded by mu
}

func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, b...)
	l.all = l.all[max(0, len(l.all)-l.most):]
	return len(b), nil
}

func (l *lastBytes) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.all)
}
