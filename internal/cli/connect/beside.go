package connect

import (
	"context"
	"os"
	"os/exec"
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
