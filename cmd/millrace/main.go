// Command millrace runs Millrace and is how people use it: it submits tasks, shows their fate, and
// starts Millrace's processes.
//
// Each folder of internal/cli holds one group of commands, or what they share; this package wires
// them and holds the remaining commands. All else is done by other packages.
package main

import (
	"context"
	"io"
	"os"

	"millrace/internal/cli/connect"
)

func main() {
	connect.Complete(os.Args[1:])
	product().Main(os.Args[1:])
}

// product is the whole program.
func product() connect.Program {
	return connect.Program{Commands: addCommands, Completions: func(a *connect.App) map[string]connect.Completer {
		return (&app{a}).completions()
	}}
}

// inside is another run, against an incident file.
func (a *app) inside(ctx context.Context, inside *connect.Inside, args []string, in io.Reader, out, errs io.Writer) int {
	other := connect.NewProgram(in, out, errs)
	other.Inside, other.Hurry = inside, a.Hurry
	return product().Do(ctx, other, args)
}

// app is one run of the command.
type app struct{ *connect.App }
