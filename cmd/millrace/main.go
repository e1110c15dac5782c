// Command millrace runs Millrace and is how people use it: it submits tasks,
// shows what becomes of them, and starts the processes that see to that.
//
// The package holds flags, settings, signals, exit codes and the form of what
// is printed. Whatever else it does, another package does for it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"millrace/client"
	"millrace/logclock"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command: arguments and streams in, exit code out.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	a := newApp(in, out, errs)
	ctx, stop := a.hurry.listen(context.Background())
	defer stop()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	return a.report(a.suggest(ctx, a.blame(ctx, root.ExecuteContext(ctx))))
}

// app is one run of the command: its streams and what the flags of all commands say.
type app struct {
	in   io.Reader
	out  io.Writer
	errs io.Writer
	// clock is this process's, and now the time by it: the log's, once the command is connected.
	clock *logclock.Clock
	now   func() time.Time
	// hurry is what a second signal asks for.
	hurry *hurry

	conn   connection // --server and the like
	config string     // --config
	// demonstrating is whether progress is worth lines even where no terminal is.
	demonstrating bool
	dev           bool // what was connected to is a `millrace dev` of this machine
	// reached is what was connected to; nil if nothing was.
	reached *client.Target
}

func newApp(in io.Reader, out, errs io.Writer) *app {
	clock := logclock.New(machineClock())
	return &app{in: in, out: onScreen(out), errs: onScreen(errs), clock: clock, now: clock.Now, hurry: &hurry{now: make(chan struct{})}}
}

// report prints an error for people and returns the exit code it stands for.
func (a *app) report(err error) int {
	f := faultOf(err)
	if f == nil {
		return exitOK
	}
	if f.err != nil {
		fmt.Fprintf(a.errs, "millrace: %v\n", f.err)
	}
	if f.hint != "" {
		fmt.Fprintln(a.errs, f.hint)
	}
	return f.code
}

// note tells a person something beside the result; it never goes to stdout.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.errs, "millrace: "+format+"\n", args...)
}
