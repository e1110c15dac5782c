package connect

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/internal/cli/settings"
	"millrace/service/client"
)

// shared are the completions of flags of more than one program.
var shared = map[string]Completer{
	"context": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return client.Contexts(), cobra.ShellCompDirectiveDefault
	},
	"profile": cobra.FixedCompletions([]string{settings.Dev, settings.Prod}, cobra.ShellCompDirectiveNoFileComp),
}

// completeFlags gives all flags below a command their completion, by their names: of known, else of
// shared, else by what they take.
func completeFlags(root *cobra.Command, known map[string]Completer) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, there := c.GetFlagCompletionFunc(f.Name); there {
				return
			}
			complete := known[f.Name]
			if complete == nil {
				complete = shared[f.Name]
			}
			if one, is := f.Value.(*settings.Choice); is {
				complete = cobra.FixedCompletions(one.Of, cobra.ShellCompDirectiveNoFileComp)
			}
			if complete == nil && !takesFile(f) {
				complete = cobra.NoFileCompletions
			}
			if complete != nil {
				_ = c.RegisterFlagCompletionFunc(f.Name, complete) // it has none yet
			}
		})
		for _, below := range c.Commands() {
			visit(below)
		}
	}
	visit(root)
}

// takesFile tells whether the value of a flag is a file or a folder, by the name in its help.
func takesFile(f *pflag.Flag) bool {
	name, _ := pflag.UnquoteUsage(f)
	return slices.ContainsFunc([]string{"file", "folder", "directory"}, func(word string) bool { return strings.Contains(name, word) })
}
