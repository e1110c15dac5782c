package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/task"
	"millrace/worker/process"
)

// guardName is the hidden command that outlives a killed worker.
const guardName = "guard"

func (w *workerConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&w.name, "name", "", "`name` of the node, the same at each start (default: the host's, with a number if that is taken)")
	fs.StringSliceVarP(&w.queues, "queue", "q", []string{task.DefaultQueue}, "`queues` to serve, each perhaps with a weight: crawl=3,default=1 takes three of crawl for each of default")
	fs.StringSliceVar(&w.queues, "queues", []string{task.DefaultQueue}, "the same as --queue")
	fs.Lookup("queues").Hidden = true
	fs.IntVar(&w.slots, "slots", 0, "`number` of tasks to run at once (default: twice the processors, at least 4)")
	fs.StringToStringVarP(&w.labels, "label", "l", nil, "labels of the node, `key=value`")
	w.files.flags(fs)
}

func (a *app) workerCommand() *cobra.Command {
	var w workerConfig
	c := &cobra.Command{
		Use:   "worker",
		Short: "Run tasks on this machine",
		Long: `Pulls tasks from the queues that it serves and runs them as child processes. On SIGTERM or
Ctrl-C it takes no more, lets those that run end within the grace time, gives
back the rest, and ends; a second signal ends it at once. If it is killed, its
child processes are killed too, and another worker takes its tasks over. Tasks with
on_restart: adopt go on without it, if the next worker of this node comes in time.`,
		Example: `  millrace worker
  millrace worker --server nats://nats.example:4222 --name crawler-7 --queue crawl --slots 16`,
		Args: takes(0, 0, ""),
	}
	w.flags(c.Flags())
	flags := addSettingFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, _, err := a.loadSettings(flags, profileProd)
		if err != nil {
			return err
		}
		t, err := a.resolve()
		if err != nil {
			return err
		}
		p := a.newParts(c.Context(), a.dialTo(t), s, a.processLogger())
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
		fmt.Fprintf(a.errs, "Worker on %s. Ctrl-C ends it; tasks that run get %v to end.\n", t.name, s.Grace)
		return p.wait()
	}
	return c
}

func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: guardName, Hidden: true, Args: takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if err := process.GuardMain(os.Stdin, os.Stdout); err != nil {
				return errors.Join(errors.New("the guard of child processes"), err)
			}
			return nil
		},
	}
}
