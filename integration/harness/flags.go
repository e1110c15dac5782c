package harness

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each calls see with a command and every one below it.
func Each(c *cobra.Command, see func(*cobra.Command)) {
	see(c)
	for _, below := range c.Commands() {
		Each(below, see)
	}
}

// Flags checks that the help of a command, and of every one below it, can show all of its flags. Their
// annotation note says in which of the groups each stands.
func Flags(t *testing.T, root *cobra.Command, note string, groups []string) {
	t.Helper()
	Each(root, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			// The word between backquotes is what the help calls the value: exactly one word.
			if n := strings.Count(f.Usage, "`"); n != 0 && n != 2 {
				t.Errorf("%s --%s: %d backquotes: %s", c.CommandPath(), f.Name, n, f.Usage)
			}
			if name, _ := pflag.UnquoteUsage(f); strings.ContainsAny(name, " \t") {
				t.Errorf("%s --%s: its value is called %q", c.CommandPath(), f.Name, name)
			}
			for _, group := range f.Annotations[note] {
				if !slices.Contains(groups, group) {
					t.Errorf("%s --%s: nobody prints the group %q", c.CommandPath(), f.Name, group)
				}
			}
		})
	})
}
