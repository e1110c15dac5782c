package history

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"millrace/events/jet/embed"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/service/inspect"
)

func (a *IncidentCommands) importCommand() *cobra.Command {
	var dir string
	var run bool
	var bound inspect.Bound
	c := &cobra.Command{
		Use: "import FILE", Aliases: []string{"load"},
		Short: "Put an incident file into a new data directory, to go on from there",
		Long: `Lays the file into a new data directory. "millrace dev --data DIR" then goes on from
the end of the span, as an experiment: sequences and times are those of the original log, and timers are set
again. Hashed values stay hashed, so a task whose command was hashed fails.

Nothing of it starts: all schedules and queues are paused and all nodes are drained, by events, until "schedule
resume", "queue resume" and "node undrain" say otherwise. --run leaves that out: schedules make tasks, and
waiting tasks run, with the commands of the file, on this machine.`,
		Example: `  millrace incident import crash.mri --data ./again
  millrace dev --data ./again --port 0`,
		Args: settings.Takes(1, 1, "file"),
	}
	c.Flags().StringVar(&dir, "data", "", "new `directory` for the data")
	bound.Flag(c.Flags())
	c.Flags().BoolVar(&run, "run", false, "pause nothing: schedules and waiting tasks go on as soon as a server and a worker do")
	c.RunE = func(c *cobra.Command, args []string) error {
		if dir == "" {
			return term.Misuse(c, "--data is missing: a directory that `millrace dev --data` is to go on with")
		}
		f, err := readIncident(args[0], bound)
		if err != nil {
			return err
		}
		if len(f.Missing) > 0 {
			a.sayMissing(f)
			return &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("something is missing in %s, and nothing can go on from there", args[0]), Hint: term.Hint("`millrace incident open` shows what is whole")}
		}
		s, _, err := a.LoadSettings(nil, settings.Dev)
		if err != nil {
			return err
		}
		to, still, err := serve.Of(a.App).Import(c.Context(), dir, s, "imported from "+filepath.Base(args[0]), run, func(dir string) (to view.Point, err error) {
			_, to, err = lay(dir, &s, f)
			return to, err
		})
		if errors.Is(err, embed.ErrFilled) || errors.Is(err, embed.ErrLocked) {
			return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("name a directory that is not there yet")}
		}
		if err != nil {
			return unfit(args[0], err)
		}
		a.Note("%s holds the log up to #%d; `millrace dev --data %s` goes on from there", dir, to.Seq, dir)
		if !run {
			a.Note("nothing starts until you say so: %s; `--run` imports without that", still.Words())
		}
		return nil
	}
	return c
}
