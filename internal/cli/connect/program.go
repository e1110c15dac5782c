package connect

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"millrace/events/jet/request"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/service/client"
)

// Program is one of them.
type Program struct {
	// Commands adds the commands for a command line to the root, which has the flags of all of them.
	Commands func(a *App, root *cobra.Command, args []string)
	// Completions returns how the values of flags are completed, by the flag's name, besides those
	// that say it themselves; nil for no more.
	Completions func(a *App) map[string]Completer
}

// Usual is the server that is tried if nothing names one. Only tests change it.
var Usual = client.UsualServer

// NewProgram returns a run of a program. Its clock is that of this machine, or a shifted one where a process
// is told so.
func NewProgram(in io.Reader, out, errs io.Writer) *App {
	a := New(in, out, errs, request.NewClock(request.Shifted(os.Getenv(request.ShiftEnv))))
	a.Conn.Usual = Usual
	return a
}

// Main runs the program with the arguments and streams of this process, and ends it.
func (p Program) Main(args []string) {
	settings.Spare()
	os.Exit(p.run(args))
}

func (p Program) run(args []string) int {
	a := NewProgram(os.Stdin, os.Stdout, os.Stderr)
	ctx, stop := a.Hurry.Listen(context.Background())
	defer stop()
	return p.Do(ctx, a, args)
}

// Do runs one command and returns its exit code.
func (p Program) Do(ctx context.Context, a *App, args []string) int {
	root := p.Root(a, args...)
	if len(args) > 0 && completes(args[0]) {
		var known map[string]Completer
		if p.Completions != nil {
			known = p.Completions(a)
		}
		completeFlags(root, known)
	}
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Errs)
	return a.Report(a.Inside.Explain(a.Suggest(ctx, a.Blame(ctx, settings.Together(root.ExecuteContext(ctx))))))
}

// completes tells whether a word asks for completions, with descriptions or without.
func completes(word string) bool { return strings.HasPrefix(word, cobra.ShellCompRequestCmd) }

// Root builds the tree of commands for a command line.
func (p Program) Root(a *App, args ...string) *cobra.Command {
	root := settings.Noun(&cobra.Command{Use: "millrace"})
	root.SilenceErrors, root.SilenceUsage = true, true
	cobra.AddTemplateFunc("flags", func(c *cobra.Command) string { return settings.FlagsHelp(c, a.Out) })
	cobra.AddTemplateFunc("wrap", func(text string) string { return settings.Wrapped(text, term.Width(a.Out)) })
	root.SetHelpTemplate(settings.HelpTemplate)
	root.SetUsageTemplate(settings.UsageTemplate)
	root.SetFlagErrorFunc(settings.FlagError)
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if c.Name() != cobra.ShellCompRequestCmd && c.Name() != cobra.ShellCompNoDescRequestCmd {
			_, a.Typed, _ = strings.Cut(c.CommandPath(), " ")
		}
		return settings.NoBlanks(c, args)
	}
	a.Conn.Flags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&a.Config, "config", "", "settings `file` ($MILLRACE_CONFIG)")
	p.Commands(a, root, args)
	return root
}
