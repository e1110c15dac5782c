package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/near"
)

// Groups of commands in the help.
const (
	groupWork  = "work"
	groupServe = "serve"
	groupAbout = "about"
)

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := noun(&cobra.Command{
		Use:   "millrace",
		Short: "A task scheduler whose whole state is a log",
		Long: `Millrace runs tasks on any number of machines and can show, to the message, why anything happened.
Its whole state is a log in NATS JetStream.`,
		Example: `  millrace dev                           start everything on this machine
  millrace run --follow -- echo hello    run a command and see its output
  millrace job apply -f hello.yaml       store a job
  millrace run hello -p name=World       run it
  millrace task ls --state error         what failed
  millrace task why ID                   why it has not ended, and who must act`,
	})
	root.SilenceErrors, root.SilenceUsage = true, true
	cobra.AddTemplateFunc("flags", func(c *cobra.Command) string { return flagsHelp(c, a.out) })
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(flagError)
	a.conn.flags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&a.config, "config", "", "settings `file` ($MILLRACE_CONFIG)")
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Tasks and nodes:"},
		&cobra.Group{ID: groupServe, Title: "Processes:"},
		&cobra.Group{ID: groupAbout, Title: "Millrace itself:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupWork, a.runCommand(), a.planCommand(), a.jobCommand(), a.scheduleCommand(), a.calendarCommand(), a.filesCommand(), a.taskCommand(), a.dataCommand(), a.dlqCommand(), a.limitCommand(), a.nodeCommand(), a.queueCommand(), a.eventsCommand(), a.verifyCommand(), a.ipcCommand())
	add(groupServe, a.devCommand(), a.serverCommand(), a.workerCommand(), a.demoCommand(), a.benchCommand(), a.chaosCommand())
	add(groupAbout, a.configCommand(), a.natsCommand(), a.versionCommand())
	root.SetHelpCommand(helpCommand(root))
	root.SetHelpCommandGroupID(groupAbout)
	root.SetCompletionCommandGroupID(groupAbout)
	root.AddCommand(guardCommand(), shimCommand(), crawlCommand(), a.chaosLogCommand(), a.chaosPushCommand(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesPage},
		&cobra.Command{Use: "connection", Short: "How the NATS server is found", Long: connectionPage(root.PersistentFlags())})
	a.completeFlags(root)
	return root
}

// noun makes a command that only holds others: alone it prints its help.
func noun(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return misuse(c, "there is no command %q%s", c.CommandPath()+" "+args[0], didYouMean(nearCommand(c, args[0])))
	}
	return c
}

// helpCommand differs from cobra's in that it refuses what there is no help about.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Say more about a command or a page",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return misuse(c, "there is no help about %q; `millrace help` lists what there is", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag() // so that it is shown
			return about.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if about, rest, err := root.Find(args); err == nil && len(rest) == 0 {
				for _, c := range about.Commands() {
					if !c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
						continue
					}
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// takes checks the number of arguments; what names one, max < 0 is no bound.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return misuse(c, "%s is missing", what)
		case most == 0 && len(args) > 0:
			return misuse(c, "%q is too much: %s takes no arguments", args[0], c.CommandPath())
		case most >= 0 && len(args) > most:
			return misuse(c, "%q is too much: %s takes one %s", args[most], c.CommandPath(), what)
		}
		return nil
	}
}

// flagError turns a flag that cannot be understood into a usage error.
func flagError(c *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		return misuse(c, "unknown flag --%s%s", name, didYouMean(nearFlag(c, name)))
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return misuse(c, "--%s: %w", bad.GetFlag().Name, badValue(bad))
	}
	return misuse(c, "%w", err)
}

// badValue says what is wrong with the value of a flag, in words of ours where Go's are about itself.
func badValue(bad *pflag.InvalidValueError) error {
	want := map[string]string{
		"int": "a whole number", "intSlice": "whole numbers, with commas", "uint64": "a whole number of 0 or more", "uint": "a whole number of 0 or more",
		"float64": "a number", "bool": "true or false", "duration": "a duration such as 90s or 2h30m",
	}[bad.GetFlag().Value.Type()]
	cause := bad.Unwrap()
	switch {
	case errors.As(cause, new(*strconv.NumError)), strings.HasPrefix(cause.Error(), "time: "):
		return fmt.Errorf("%q is not %s", bad.GetValue(), want)
	case strings.Contains(cause.Error(), strconv.Quote(bad.GetValue())):
		return cause
	}
	return fmt.Errorf("%q: %w", bad.GetValue(), cause)
}

// nearFlag is the flag that name is most likely a misspelling of, or "".
func nearFlag(c *cobra.Command, name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if meant := near.Word(name, names); meant != "" {
		return "--" + meant
	}
	return ""
}

// nearCommand is the command below c that name is most likely a misspelling of, or the beginning of, or "".
func nearCommand(c *cobra.Command, name string) string {
	var names []string
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			names = append(append(names, below.Name()), below.Aliases...)
		}
	}
	if meant := near.Word(name, names); meant != "" {
		return meant
	}
	for _, whole := range names {
		if strings.HasPrefix(whole, strings.ToLower(name)) {
			return whole
		}
	}
	return ""
}

// didYouMean ends what is said of a word that nobody knows; "" if there is none that could be meant.
func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", word)
}

func usageLine(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		return c.CommandPath() + " COMMAND; `" + c.CommandPath() + " --help` lists them"
	}
	return c.UseLine()
}

// usageTemplate differs from cobra's in that the flags which all commands have
// in common are shown once, by "millrace help connection".
const usageTemplate = `{{if .HasAvailableSubCommands}}Usage:
  {{.CommandPath}} COMMAND{{else if .Runnable}}Usage:
  {{.UseLine}}{{end}}{{if gt (len .Aliases) 0}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if and .HasAvailableLocalFlags .HasParent}}
{{flags .}}{{end}}{{if .HasHelpSubCommands}}

Pages:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  help {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" says more about a command.{{else if .Runnable}}

"{{.Root.Name}} help connection" lists the flags that say where the server is.{{end}}
`
