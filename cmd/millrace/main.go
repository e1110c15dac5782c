// Command millrace runs Millrace and is how people use it: it submits tasks, shows their fate, and
// starts Millrace's processes.
//
// Each folder beside it holds one group of commands, or what they share; this package wires them
// and holds the remaining commands. All else is done by other packages.
package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/logclock"
	"millrace/service/client"
)

func main() {
	settings.Spare()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command: arguments and streams in, exit code out.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	a := newApp(in, out, errs)
	ctx, stop := a.Hurry.Listen(context.Background())
	defer stop()
	return a.do(ctx, args)
}

// do runs one command.
func (a *app) do(ctx context.Context, args []string) int {
	root := a.root(args...)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // with descriptions, or without
		a.completeFlags(root)
	}
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Errs)
	return a.Report(a.Inside.Explain(a.Suggest(ctx, a.Blame(ctx, settings.Together(root.ExecuteContext(ctx))))))
}

// inside is another run, against an incident file.
func (a *app) inside(ctx context.Context, inside *connect.Inside, args []string, in io.Reader, out, errs io.Writer) int {
	other := newApp(in, out, errs)
	other.Inside, other.Hurry = inside, a.Hurry
	return other.do(ctx, args)
}

// app is one run of the command.
type app struct{ *connect.App }

// usualServer is the server that is tried if nothing names one. Only tests change it.
var usualServer = client.UsualServer

func newApp(in io.Reader, out, errs io.Writer) *app {
	a := &app{connect.New(in, out, errs, logclock.New(machineClock()))}
	a.Conn.Usual = usualServer
	return a
}

// machineClock returns the clock of this machine, or a shifted one if `millrace chaos`, which must
// not change the real clock, asks for it.
func machineClock() func() time.Time {
	return logclock.Shifted(os.Getenv(logclock.ShiftEnv))
}
