package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
	"millrace/worker/process/child"
)

// GuardName is the hidden command that outlives a killed worker.
const GuardName = "guard"

func (w *WorkerConfig) flags(fs *pflag.FlagSet) {
	settings.InGroup(fs, settings.GroupWorker, func() { w.groupFlags(fs) })
}

func (w *WorkerConfig) groupFlags(fs *pflag.FlagSet) {
	fs.StringVar(&w.name, "name", "", "`name` of the node, the same at each start (default: the host's, with a number if that is taken)")
	fs.StringSliceVarP(&w.queues, "queue", "q", []string{placement.DefaultQueue}, "`queues` to serve, each with a weight if you like: crawl=3,default=1 takes three of crawl for each of default")
	queue := fs.Lookup("queue")
	queue.DefValue = placement.DefaultQueue
	fs.AddFlag(&pflag.Flag{Name: "queues", Value: queue.Value, DefValue: queue.DefValue, Usage: "the same as --queue", Hidden: true}) // one list
	fs.IntVar(&w.slots, "slots", 0, "`number` of tasks to run at once (default: twice the processors, at least 4)")
	fs.StringArrayVarP(&w.labels, "label", "l", nil, "label of the node, `name=value`, by which tasks choose it (repeat it, or write commas between; run --labels)")
	fs.IntVar(&w.spawning.Children, "spawn-children", birth.DefaultSpawned, "`number` of children that an attempt may ask for (SPAWN); 0 for none")
	fs.IntVar(&w.spawning.Depth, "spawn-depth", birth.DefaultSpawnDepth, "`number` of ancestors that a child may have: its parent, the parent's parent and so on; 0 for no children")
	fs.BoolVar(&w.spawning.Anywhere, "spawn-anywhere", false, "let children ask for another queue and user than their parent has, and for nodes")
	w.messages.Of = job.MessageRules
	fs.Var(&w.messages, "messages", "the most that counts here of what a task prints without its attempt's key, whatever its job says: `rule`, one of "+strings.Join(job.MessageRules, ", ")+" (default open)")
	fs.StringArrayVar(&w.watch, "watch", nil, "`folder` in which jobs may have this worker look for files (on.file): each makes a task here (repeat it; default: none)")
	w.files.flags(fs)
	w.programs.flags(fs)
}

// check refuses invalid flags of a worker, before anything is started for it.
func (w *WorkerConfig) check(c *cobra.Command) error {
	if w.name != "" {
		if err := node.ID(w.name).Validate(); err != nil {
			return term.Misuse(c, "--name: %w", err)
		}
	}
	labels, err := settings.Labels(w.labels)
	if err == nil {
		err = node.ValidLabels(labels)
	}
	if err != nil {
		return term.Misuse(c, "%w", err)
	}
	queues, _, err := settings.Weights(w.queues)
	for _, q := range queues {
		if err == nil {
			err = value.ValidName("queue", q)
		}
	}
	for _, folder := range w.watch {
		if !filepath.IsAbs(folder) || filepath.Clean(folder) != folder {
			return term.Misuse(c, "--watch is %q, want an absolute path", folder)
		}
	}
	switch {
	case err != nil:
		return term.Misuse(c, "--queue: %w", err)
	case c.Flags().Changed("slots") && w.slots < 1:
		return term.Misuse(c, "--slots is %d, want 1 or more", w.slots)
	}
	for name, bound := range map[string]*int{"spawn-children": &w.spawning.Children, "spawn-depth": &w.spawning.Depth} {
		switch {
		case *bound < 0:
			return term.Misuse(c, "--%s is %d, want 0 or more", name, *bound)
		case *bound == 0:
			*bound = birth.NoChildren
		}
	}
	return w.programs.check(c)
}

// Worker is millrace worker.
func (a *Commands) Worker() *cobra.Command {
	var w WorkerConfig
	c := &cobra.Command{
		Use:   "worker",
		Short: "Run tasks on this machine",
		Long: `Pulls tasks from its queues and runs them as child processes. On SIGTERM or Ctrl-C it
takes no more tasks, lets running ones end within the grace time, gives back the rest,
and ends; a second signal ends it at once. If it is killed, its child processes are
killed too, and another worker takes its tasks over. Tasks with on_restart: adopt go on
without it, if the next worker of this node starts in time.`,
		Example: `  millrace worker
  millrace worker --server nats://nats.example:4222 --name crawler-7 --queue crawl --slots 16`,
		Args: settings.Takes(0, 0, ""),
	}
	w.flags(c.Flags())
	flags := settings.AddFlags(c.Flags(), settings.Prod, settings.Working)
	c.RunE = untilTold(func(c *cobra.Command) error {
		conceal()
		if err := w.check(c); err != nil {
			return err
		}
		s, _, err := a.LoadSettings(flags, settings.Prod)
		if err != nil {
			return err
		}
		if err := w.makeFolders(&s); err != nil {
			return err
		}
		t, err := a.Resolve()
		if err != nil {
			return err
		}
		if !t.Chosen() && s.Profile == settings.Prod {
			return whichServer(t)
		}
		p := a.newParts(c.Context(), a.dialTo(t, s.Ping), s, settings.Briskly, a.ProcessLogger())
		defer p.close()
		if err := p.listen("worker"); err != nil {
			return err
		}
		if err := p.work(w); err != nil {
			return a.unusable(t, err)
		}
		p.serveFigures()
		if !p.ready() {
			return p.wait()
		}
		fmt.Fprintf(a.Errs, "Worker on %s. Ctrl-C ends it; tasks that run get %v to end.\n", t.Name, s.Grace)
		tellManager(started)
		return p.wait()
	})
	return c
}

// whichServer makes the operator name a worker's server. A worker runs whatever its server tells it
// to, so it must not use one that it only happens to find: an empty variable is enough for that to
// happen.
func whichServer(t client.Target) error {
	if t.By != client.Running {
		return &term.Fault{Code: term.ExitUsage, Err: errors.New("which server? a worker with the profile prod joins only a server that you name"),
			Hint: term.Hint("say it with --server or $NATS_URL, or --context or $NATS_CONTEXT; `millrace worker --profile dev` looks on this machine")}
	}
	return &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("which server? %s runs here, but a worker with the profile prod joins only a server that you name", t.Name),
		Hint: term.Hint("if it is that: NATS_URL=$(cat %s) millrace worker …", filepath.Join(t.Running.Data, "nats.url"))}
}

// GuardCommand is the command that this program starts of itself, to guard the processes of tasks.
func GuardCommand() *cobra.Command {
	return &cobra.Command{
		Use: GuardName, Hidden: true, Args: settings.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if err := child.GuardMain(os.Stdin, os.Stdout); err != nil {
				return errors.Join(errors.New("the guard of child processes"), err)
			}
			return nil
		},
	}
}

// submitter submits the children of running tasks, on behalf of their node.
func submitter(c *client.Client) func(context.Context, birth.Submission) error {
	return func(ctx context.Context, s birth.Submission) error { return c.Spawn(ctx, s) }
}
