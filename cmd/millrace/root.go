package main

import (
	"slices"

	"github.com/spf13/cobra"

	"millrace/events/jet/rights"
	"millrace/examples"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/history"
	"millrace/internal/cli/job"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/internal/cli/verb"
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
	started := func(t connect.Tool) func() *cobra.Command {
		return func() *cobra.Command { return t.Command(a.App) }
	}
	return []entry{
		{groupWork, "attention", task.Of(a.App).Attention},
		{groupWork, "run", verb.Of(a.App).Run},
		{groupWork, "plan", verb.Of(a.App).Plan},
		{groupWork, "job", job.Of(a.App).Jobs},
		{groupWork, "schedule", job.Of(a.App).Schedules},
		{groupWork, "cron", job.Of(a.App).Cron},
		{groupWork, "monitor", job.Of(a.App).Monitors},
		{groupWork, "ping", job.Of(a.App).Ping},
		{groupWork, "calendar", job.Of(a.App).Calendars},
		{groupWork, "files", job.Of(a.App).Files},
		{groupWork, "task", a.taskCommand},
		{groupWork, "data", task.Of(a.App).Command},
		{groupWork, "dlq", verb.Of(a.App).Letters},
		{groupWork, "limit", job.Of(a.App).Limits},
		{groupWork, "node", job.Of(a.App).Nodes},
		{groupWork, "queue", job.Of(a.App).Queues},
		{groupWork, "notify", verb.Of(a.App).Notify},
		{groupWork, "events", history.Of(a.App).Command},
		{groupWork, "diff", task.Of(a.App).DiffAll},
		{groupWork, "horizon", history.Of(a.App).Horizon},
		{groupWork, "verify", history.Of(a.App).VerifyCommand},
		{groupWork, "replay", history.Of(a.App).ReplayCommand},
		{groupWork, "whatif", history.Of(a.App).WhatIf},
		{groupWork, "incident", history.OfIncident(a.App, a.inside).IncidentCommand},
		{groupWork, "ipc", a.ipcCommand},
		{groupServe, "dev", serve.Of(a.App).Dev},
		{groupServe, "server", serve.Of(a.App).Server},
		{groupServe, "worker", serve.Of(a.App).Worker},
		{groupServe, "demo", examples.Of(a.App).Command},
		{groupServe, connect.Bench.Name, started(connect.Bench)},
		{groupServe, connect.Chaos.Name, started(connect.Chaos)},
		{groupAbout, "backup", history.Of(a.App).Backup},
		{groupAbout, "restore", history.Of(a.App).Restore},
		{groupAbout, "archive", history.Of(a.App).Archive},
		{groupAbout, "config", a.configCommand},
		{groupAbout, "token", job.Of(a.App).Tokens},
		{groupAbout, "nats", a.natsCommand},
		{groupAbout, "api", a.apiCommand},
		{groupAbout, "mcp", a.mcpCommand},
		{groupAbout, "version", a.versionCommand},
		{groupAbout, "upgrade", history.Of(a.App).Upgrade},
		{"", "guard", serve.GuardCommand},
		{"", "shim", serve.ShimCommand},
		{"", examples.CrawlName, examples.CrawlCommand},
	}
}

// addCommands adds the commands for a command line. If its first word is the name of a command, no
// other one is built: all of them together take longer than most commands.
func addCommands(run *connect.App, root *cobra.Command, args []string) {
	a := &app{run}
	root.Short = "A task scheduler whose whole state is a log"
	root.Long = `Millrace runs tasks on any number of machines and can show, to the message, why anything happened.
Its whole state is a log in NATS JetStream.`
	root.Example = `  millrace dev                           start everything on this machine
  millrace run --follow -- echo hello    run a command and see its output
  millrace job apply -f hello.yaml       store a job
  millrace run hello -p name=World       run it
  millrace task ls --state error         what failed
  millrace task why ID                   why it has not ended, and the next step`
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
	verb.Add(run, root, map[rights.Verb]verb.Own{rights.NodeDrain: job.Of(run).Drain})
	history.OfIncident(run, a.inside).Archived(root, args)
	root.SetHelpCommand(settings.Help(root))
	if len(args) > 0 && args[0] == "completion" {
		root.InitDefaultCompletionCmd()
		for _, c := range root.Commands() {
			if c.Name() == args[0] {
				settings.Noun(c) // it would answer an unknown shell with its help
			}
		}
	}
	root.SetHelpCommandGroupID(groupAbout)
	root.SetCompletionCommandGroupID(groupAbout)
	root.AddCommand(
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: term.ExitPage},
		&cobra.Command{Use: "connection", Short: "How the NATS server is found", Long: connect.Page(root.PersistentFlags(), term.Width(a.Out))})
}
