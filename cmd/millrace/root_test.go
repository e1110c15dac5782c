package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/integration/harness"
	"millrace/internal/cli/connect"
)

// A command that is built alone is the same as among all others.
func TestACommandIsBuiltAlone(t *testing.T) {
	known := func(root *cobra.Command) (all []string) {
		harness.Each(root, func(c *cobra.Command) {
			line := c.CommandPath() + " " + strings.Join(c.Aliases, " ") + " " + c.GroupID
			c.InheritedFlags().VisitAll(func(f *pflag.Flag) { line += " --" + f.Name })
			c.LocalFlags().VisitAll(func(f *pflag.Flag) { line += " --" + f.Name + "=" + f.DefValue })
			all = append(all, line)
		})
		return all
	}
	a := app{connect.NewProgram(&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{})}
	whole := testRoot()
	for _, e := range a.entries() {
		among, _, err := whole.Find([]string{e.name})
		if err != nil || among.Name() != e.name {
			t.Fatalf("%s: found %s, %v", e.name, among.Name(), err)
		}
		root := product().Root(connect.NewProgram(&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}), e.name, "x")
		alone, _, err := root.Find([]string{e.name})
		if err != nil || alone.Name() != e.name {
			t.Fatalf("%s: found %s, %v", e.name, alone.Name(), err)
		}
		if got, want := known(alone), known(among); !slices.Equal(got, want) {
			t.Errorf("alone\n%q\nwant\n%q", got, want)
		}
	}
	for _, args := range [][]string{nil, {"tsak", "ls"}, {"--server", "x", "run"}, {"help", "run"}, {cobra.ShellCompRequestCmd, "ta"}} {
		if got, want := known(product().Root(a.App, args...)), known(whole); !slices.Equal(got, want) {
			t.Errorf("for %q not all are there", args)
		}
	}
}
