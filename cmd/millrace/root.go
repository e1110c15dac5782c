package main

import (
	"github.com/spf13/cobra"

	"millrace/cmd/millrace/act"
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
	"millrace/cmd/millrace/typed"
)

// Groups of commands in the help.
const (
	groupWork  = "work"
	groupServe = "serve"
	groupAbout = "about"
)

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
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
	root.SetUsageTemplate(typed.UsageTemplate)
	root.SetFlagErrorFunc(typed.FlagError)
	a.Conn.Flags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&a.Config, "config", "", "settings `file` ($MILLRACE_CONFIG)")
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
	add(groupWork, submit.Of(a.App).Run(), submit.Of(a.App).Plan(), definitions.Of(a.App).Jobs(), definitions.Of(a.App).Schedules(), definitions.Of(a.App).Calendars(), bundles.Of(a.App).Command(), a.taskCommand(), records.Of(a.App).Command(), act.Of(a.App).Letters(), queues.Of(a.App).Limits(), nodes.Of(a.App).Command(), queues.Of(a.App).Command(), history.Of(a.App).Command(), look.Of(a.App).DiffAll(), certify.Of(a.App).Command(), debug.Of(a.App).Command(), debug.Of(a.App).WhatIf(), incident.Of(a.App, a.inside).Command(), a.ipcCommand())
	add(groupServe, serve.Of(a.App).Dev(), serve.Of(a.App).Server(), serve.Of(a.App).Worker(), a.demoCommand(), a.benchCommand(), a.chaosCommand())
	add(groupAbout, a.configCommand(), definitions.Of(a.App).Tokens(), a.natsCommand(), a.apiCommand(), a.versionCommand())
	root.SetHelpCommand(typed.Help(root))
	root.SetHelpCommandGroupID(groupAbout)
	root.SetCompletionCommandGroupID(groupAbout)
	root.AddCommand(serve.GuardCommand(), serve.ShimCommand(), crawlCommand(), a.chaosLogCommand(), a.chaosPushCommand(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exit.Page},
		&cobra.Command{Use: "connection", Short: "How the NATS server is found", Long: reach.Page(root.PersistentFlags())})
	return root
}
