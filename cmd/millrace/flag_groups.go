package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of flags in the help of commands that have many.
const (
	groupWhat     = "What it runs"
	groupWhen     = "When it starts"
	groupWhere    = "Where it waits and runs"
	groupLong     = "How long, and how often again"
	groupLimits   = "How many at once"
	groupFound    = "What it is found by"
	groupTicks    = "When the schedule fires"
	groupEmbedded = "The NATS server in this process"
	groupWorker   = "The worker"
	groupSettings = "Settings"
)

// flagGroups lists them in the order of the help.
var flagGroups = []string{groupTicks, groupWhat, groupWhen, groupWhere, groupLong, groupLimits, groupFound, groupEmbedded, groupWorker, groupSettings}

// groupNote is under which annotation a flag has its group.
const groupNote = "millrace_group"

// inGroup puts the flags that add defines into a group of the help.
func inGroup(fs *pflag.FlagSet, group string, add func()) {
	before := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add()
	fs.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			_ = fs.SetAnnotation(f.Name, groupNote, []string{group}) // the flag is there
		}
	})
}

// flagsHelp lists the flags of a command, by group if they have any; what has none is about the command itself
// and comes first. Lines are no longer than a terminal's.
func flagsHelp(c *cobra.Command, out io.Writer) string {
	grouped := map[string]*pflag.FlagSet{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		group := ""
		if noted := f.Annotations[groupNote]; len(noted) > 0 {
			group = noted[0]
		}
		if grouped[group] == nil {
			grouped[group] = pflag.NewFlagSet(group, pflag.ContinueOnError)
		}
		grouped[group].AddFlag(f)
	})
	var b strings.Builder
	for _, group := range append([]string{""}, flagGroups...) {
		fs := grouped[group]
		if fs == nil || !fs.HasAvailableFlags() {
			continue
		}
		title := "Flags"
		if group != "" {
			title = group
		}
		b.WriteString("\n" + title + ":\n" + fs.FlagUsagesWrapped(width(out)))
	}
	return strings.TrimRight(b.String(), "\n")
}
