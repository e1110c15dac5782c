package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/cmd/millrace/act"
	"millrace/cmd/millrace/bench"
	"millrace/cmd/millrace/bundles"
	"millrace/cmd/millrace/certify"
	"millrace/cmd/millrace/debug"
	"millrace/cmd/millrace/definitions"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/history"
	"millrace/cmd/millrace/incident"
	"millrace/cmd/millrace/look"
	"millrace/cmd/millrace/nodes"
	"millrace/cmd/millrace/queues"
	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/records"
	"millrace/cmd/millrace/serve"
	"millrace/cmd/millrace/submit"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/typed"
)

// Groups of commands in the help.
const (
	groupWork  = "work"
	groupServe = "serve"
	groupAbout = "about"
)

// entry is a command right below the root, which is built when it is asked for.
type entry struct {
	group, name string // no group: the help does not list it
	make        func() *cobra.Command
}

// entries lists them, in the order of the help.
func (a *app) entries() []entry {
	return []entry{
		{groupWork, "run", submit.Of(a.App).Run},
		{groupWork, "plan", submit.Of(a.App).Plan},
		{groupWork, "job", definitions.Of(a.App).Jobs},
		{groupWork, "schedule", definitions.Of(a.App).Schedules},
		{groupWork, "calendar", definitions.Of(a.App).Calendars},
		{groupWork, "files", bundles.Of(a.App).Command},
		{groupWork, "task", a.taskCommand},
		{groupWork, "data", records.Of(a.App).Command},
		{groupWork, "dlq", act.Of(a.App).Letters},
		{groupWork, "limit", queues.Of(a.App).Limits},
		{groupWork, "node", nodes.Of(a.App).Command},
		{groupWork, "queue", queues.Of(a.App).Command},
		{groupWork, "events", history.Of(a.App).Command},
		{groupWork, "diff", look.Of(a.App).DiffAll},
		{groupWork, "verify", certify.Of(a.App).Command},
		{groupWork, "replay", debug.Of(a.App).Command},
		{groupWork, "whatif", debug.Of(a.App).WhatIf},
		{groupWork, "incident", incident.Of(a.App, a.inside).Command},
		{groupWork, "ipc", a.ipcCommand},
		{groupServe, "dev", serve.Of(a.App).Dev},
		{groupServe, "server", serve.Of(a.App).Server},
		{groupServe, "worker", serve.Of(a.App).Worker},
		{groupServe, "demo", a.demoCommand},
		{groupServe, "bench", a.benchCommand},
		{groupServe, "chaos", a.chaosCommand},
		{groupAbout, "config", a.configCommand},
		{groupAbout, "token", definitions.Of(a.App).Tokens},
		{groupAbout, "nats", a.natsCommand},
		{groupAbout, "api", a.apiCommand},
		{groupAbout, "version", a.versionCommand},
		{"", "guard", serve.GuardCommand},
		{"", "shim", serve.ShimCommand},
		{"", crawlName, crawlCommand},
		{"", "chaos-log", a.chaosLogCommand},
		{"", "chaos-push", a.chaosPushCommand},
		{"", bench.MemberCommand, a.benchMemberCommand},
	}
}

// root builds the tree of commands for a command line. If its first word is the name of a command,
// no other one is built: all of them together take longer than most commands.
func (a *app) root(args ...string) *cobra.Command {
	root := typed.Noun(&cobra.Command{
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
	cobra.AddTemplateFunc("flags", func(c *cobra.Command) string { return typed.FlagsHelp(c, a.Out) })
	cobra.AddTemplateFunc("wrap", func(text string) string { return typed.Wrapped(text, term.Width(a.Out)) })
	root.SetHelpTemplate(typed.HelpTemplate)
	root.SetUsageTemplate(typed.UsageTemplate)
	root.SetFlagErrorFunc(typed.FlagError)
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if c.Name() != cobra.ShellCompRequestCmd && c.Name() != cobra.ShellCompNoDescRequestCmd {
			_, a.Typed, _ = strings.Cut(c.CommandPath(), " ")
		}
		return typed.NoBlanks(c, args)
	}
	a.Conn.Flags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&a.Config, "config", "", "settings `file` ($MILLRACE_CONFIG)")
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Tasks and nodes:"},
		&cobra.Group{ID: groupServe, Title: "Processes:"},
		&cobra.Group{ID: groupAbout, Title: "Millrace itself:"})
	all := a.entries()
	if len(args) > 0 {
		if at := slices.IndexFunc(all, func(e entry) bool { return e.name == args[0] }); at >= 0 {
			all = all[at : at+1]
		}
	}
	for _, e := range all {
		c := e.make()
		c.GroupID = e.group
		root.AddCommand(c)
	}
	root.SetHelpCommand(typed.Help(root))
	if len(args) > 0 && args[0] == "completion" {
		root.InitDefaultCompletionCmd()
		for _, c := range root.Commands() {
			if c.Name() == args[0] {
				typed.Noun(c) // it would answer an unknown shell with its help
			}
		}
	}
	root.SetHelpCommandGroupID(groupAbout)
	root.SetCompletionCommandGroupID(groupAbout)
	root.AddCommand(
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exit.Page},
		&cobra.Command{Use: "connection", Short: "How the NATS server is found", Long: reach.Page(root.PersistentFlags(), term.Width(a.Out))})
	return root
}
