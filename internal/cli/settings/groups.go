package settings

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/internal/cli/term"
)

// Groups of flags in the help of commands that have many.
const (
	GroupWhat     = "What it runs"
	GroupWhen     = "When it starts"
	GroupWhere    = "Where it waits and runs"
	GroupLong     = "How long, and how often again"
	GroupLimits   = "How many at once"
	GroupFound    = "What it is found by"
	GroupTicks    = "When the schedule makes tasks"
	GroupEmbedded = "The NATS server in this process"
	GroupWorker   = "The worker"
	GroupSettings = "Settings"
)

// Groups lists them in the order of the help.
var Groups = []string{GroupTicks, GroupWhat, GroupWhen, GroupWhere, GroupLong, GroupLimits, GroupFound, GroupEmbedded, GroupWorker, GroupSettings}

// GroupNote is the annotation with a flag's group.
const GroupNote = "millrace_group"

// InGroup puts the flags that add defines into a group of the help.
func InGroup(fs *pflag.FlagSet, group string, add func()) {
	sorted := fs.SortFlags
	defer func() { fs.SortFlags = sorted }()
	fs.SortFlags = false // else each visit would sort all of them anew
	before := map[*pflag.Flag]bool{}
	fs.VisitAll(func(f *pflag.Flag) { before[f] = true })
	add()
	fs.VisitAll(func(f *pflag.Flag) {
		if !before[f] {
			_ = fs.SetAnnotation(f.Name, GroupNote, []string{group}) // the flag is there
		}
	})
}

// FlagsHelp lists the flags of a command, by group if they have any; flags without one are about
// the command itself and come first. Lines fit a terminal.
func FlagsHelp(c *cobra.Command, out io.Writer) string {
	grouped := map[string]*pflag.FlagSet{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		group := ""
		if noted := f.Annotations[GroupNote]; len(noted) > 0 {
			group = noted[0]
		}
		if grouped[group] == nil {
			grouped[group] = pflag.NewFlagSet(group, pflag.ContinueOnError)
		}
		grouped[group].AddFlag(f)
	})
	var b strings.Builder
	for _, group := range append([]string{""}, Groups...) {
		fs := grouped[group]
		if fs == nil || !fs.HasAvailableFlags() {
			continue
		}
		title := "Flags"
		if group != "" {
			title = group
		}
		b.WriteString("\n" + title + ":\n" + fs.FlagUsagesWrapped(term.Width(out)))
	}
	return strings.TrimRight(b.String(), "\n")
}
