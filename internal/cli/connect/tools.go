package connect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"millrace/internal/cli/term"
)

// Tool is a program that is no part of the product: `millrace` starts it in its own place where it is
// installed.
type Tool struct{ Name, Short string }

// The tools.
var (
	Bench = Tool{"bench", "Measure Millrace on this machine, beside bare NATS messages and processes"}
	Chaos = Tool{"chaos", "Start a Millrace, break it on purpose, and check what became of its tasks"}
)

// file is the name of its program.
func (t Tool) file() string { return "millrace-" + t.Name }

// Main runs the tool. commands makes its own command, whose name may be left out, and those of the
// processes of which it is made, whose names begin with the tool's.
func (t Tool) Main(commands func(a *App) []*cobra.Command) {
	args := os.Args[1:]
	if len(args) == 0 || args[0] != t.Name && !strings.HasPrefix(args[0], t.Name+"-") && !completes(args[0]) {
		args = append([]string{t.Name}, args...)
	}
	t.Program(commands).Main(args)
}

// Program is the tool with its commands.
func (t Tool) Program(commands func(a *App) []*cobra.Command) Program {
	return Program{Commands: func(a *App, root *cobra.Command, _ []string) { root.AddCommand(commands(a)...) }}
}

// Command is the command by which millrace starts the tool, with all that is typed behind its name.
func (t Tool) Command(a *App) *cobra.Command {
	return &cobra.Command{
		Use: t.Name, Short: t.Short, DisableFlagParsing: true, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			if a.Inside != nil {
				return term.Misuse(c, "an incident file is only looked at, and %s looks at nothing", t.Name)
			}
			return t.become(append([]string{t.Name}, args...))
		},
	}
}

// Complete has the tool complete a command line of its own, if args are one and it is installed.
func Complete(args []string) {
	for _, t := range []Tool{Bench, Chaos} {
		if len(args) > 2 && completes(args[0]) && args[1] == t.Name {
			_ = t.become(args) // without it there is nothing to complete
		}
	}
}

// ProductEnv names the path of the millrace by which a tool was started.
const ProductEnv = "MILLRACE_BIN"

// become replaces this process by the tool: streams, signals and exit code are the tool's.
func (t Tool) become(args []string) error {
	path, err := find(t.file())
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Setenv(ProductEnv, self)
	}
	if err == nil {
		err = syscall.Exec(path, append([]string{t.file()}, args...), os.Environ())
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// Product returns the path of the millrace that a tool measures or breaks: the one that started it,
// else the one beside it, else the first in PATH.
func Product() (string, error) {
	path := os.Getenv(ProductEnv)
	if path == "" {
		return find("millrace")
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("$%s: %w", ProductEnv, err)}
	}
	return path, nil
}

// find finds a program beside this one, or in PATH.
func find(name string) (path string, err error) {
	self, err := os.Executable()
	if err == nil {
		path, err = exec.LookPath(filepath.Join(filepath.Dir(self), name))
	}
	if err != nil {
		path, err = exec.LookPath(name)
	}
	if err != nil {
		return "", &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("%s is not installed: it is neither beside this program nor in PATH", name),
			Hint: term.Hint("build it from a checkout with `go build -o DIR ./cmd/%s`, where DIR is the folder of this program or one of PATH", name)}
	}
	return path, nil
}
