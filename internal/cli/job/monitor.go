package job

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// defaultGrace is how late a ping may be if nobody says.
const defaultGrace = 10 * time.Minute

// Monitors is millrace monitor.
func (a *Commands) Monitors() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "monitor", Aliases: []string{"monitors"}, Short: "Monitors: programs that run elsewhere, and their silence",
		Example: `  millrace monitor add backup --cron "30 2 * * *" --timezone Europe/Berlin --grace 10m
  millrace ping backup -- /usr/local/bin/backup.sh
  millrace schedule grid`,
	})
	c.AddCommand(a.monitorAdd())
	return c
}

// graceFlags are the flags of how long a monitor waits.
type graceFlags struct{ grace, most settings.Span }

func (f *graceFlags) flags(c *cobra.Command, most string) {
	f.grace, f.most = settings.Span{D: defaultGrace, Least: schedule.MinGrace}, settings.Span{Least: schedule.MinGrace}
	c.Flags().Var(&f.grace, "grace", "how late a ping may be (default 10m)")
	c.Flags().Var(&f.most, "max", "how long it may take from start to ok or fail (default "+most+")")
}

func (a *Commands) monitorAdd() *cobra.Command {
	var o settings.Output
	var w whenFlags
	var g graceFlags
	c := &cobra.Command{
		Use: "add NAME --cron EXPR|--every D", Aliases: []string{"create", "set"},
		Short: "Watch a program that another scheduler runs",
		Long: `Stores a monitor: a job whose planned runs wait for a ping of the program that they watch. A run ends as the ping
says; without one it ends as error/silent. With --every a ping may come at any time until the next planned run, and the
grace. A monitor is listed, shown, paused and removed as any job with a schedule: "millrace job ls", "millrace schedule
pause NAME", "millrace job rm NAME".`,
		Example: `  millrace monitor add backup --cron "30 2 * * *" --timezone Europe/Berlin --grace 10m --max 2h
  millrace monitor add sync --every 1h --grace 5m`,
		Args: settings.Takes(1, 1, "name"), DisableFlagsInUseLine: true,
	}
	fs := c.Flags()
	fs.StringVar(&w.Cron, "cron", "", "`expression` of 5 fields, of 6 with seconds first, or a descriptor such as @daily")
	w.every.Least = job.MinEvery
	fs.Var(&w.every, "every", "at a fixed interval")
	fs.StringVar(&w.Timezone, "timezone", "", "IANA `name` of the zone of the expression (default UTC)")
	g.flags(c, "as long as --grace")
	o.Flags(c, "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		m := schedule.Monitor{Name: args[0], When: w.when(), Grace: g.grace.D, Max: g.most.D}
		if err := m.Check(); err != nil {
			return term.Misuse(c, "monitor %s: %w", m.Name, err)
		}
		return a.Brief(func(ctx context.Context, cl *client.Client, _ []string) error {
			is, err := cl.Job(ctx, m.Name)
			switch {
			case err == nil && !is.Monitors():
				return &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("there is a job %s, which is no monitor", m.Name), Hint: term.Hint("choose another name, or remove it with `millrace job rm %s`", m.Name)}
			case err != nil && !errors.Is(err, definitions.ErrNoJob):
				return err
			}
			j := m.Job()
			revision, changed, err := cl.Apply(ctx, j, is.Revision)
			if err != nil {
				return err
			}
			a.remarks(&j)
			if o.JSON() {
				return a.WriteJSON(map[string]any{"name": m.Name, "revision": revision, "changed": changed})
			}
			stored := map[bool]string{true: "stored", false: "unchanged"}[changed]
			when := map[bool]string{true: m.When.Cron + "  ", false: ""}[m.When.Cron != ""]
			_, err = fmt.Fprintf(a.Out, `monitor %s %s: %s, %v of grace

with this program:    %smillrace ping %[1]s -- COMMAND
with curl, at its end: curl -fsS -m 60 --retry 5 --retry-connrefused -o /dev/null -H "Authorization: Bearer TOKEN" ADDRESS/ping/%[1]s/$?
a TOKEN that may ping: millrace token add NAME --role pinger
`, m.Name, stored, wording.When(&m.When), value.Duration(m.Grace), when)
			return err
		})(c, nil)
	}
	return c
}

// Ping is millrace ping.
func (a *Commands) Ping() *cobra.Command {
	var p schedule.Ping
	code := -1
	patience := settings.Span{D: time.Minute}
	c := &cobra.Command{
		Use:   "ping NAME [start|ok|fail | -- COMMAND ARG...]",
		Short: "Tell a monitor how the program is that it watches",
		Long: `Tells a monitor that its program has started, is done (ok, the default) or has failed. With a command it runs that, tells
its start, its exit code and the last lines that it prints, and ends with its exit code: put it before the command of a crontab.
What goes wrong with telling never keeps the command from running: it stands on stderr, and the monitor's silence says the rest.`,
		Example: `  30 2 * * *  millrace ping backup -- /usr/local/bin/backup.sh --full
  millrace ping backup fail --exit 3`,
		DisableFlagsInUseLine: true, ValidArgsFunction: a.CompleteSchedules,
	}
	c.Flags().IntVar(&code, "exit", -1, "exit `code` of the program, 0 to 255; another than 0 is fail")
	c.Flags().Var(&patience, "patience", "how long to try while no server answers (default 1m)")
	c.RunE = func(c *cobra.Command, args []string) error {
		names, argv, err := settings.SplitCommand(c, args, 2)
		if err == nil && names[0] == "" {
			err = term.Misuse(c, "the monitor's name is missing")
		}
		if err == nil && len(argv) > 0 && (names[1] != "" || code >= 0) {
			err = term.Misuse(c, "the command's end says how it is: leave out %s", strings.TrimSpace(names[1]+" --exit"))
		}
		if err != nil {
			return err
		}
		if p.Word = names[1]; code >= 0 {
			p.Exit = &code
		}
		if err := p.Complete(time.Time{}); err != nil {
			return term.Misuse(c, "%w", err)
		}
		if len(argv) > 0 {
			return a.pingAround(c.Context(), names[0], argv, patience.D)
		}
		nothing, err := a.tell(c.Context(), names[0], p, patience.D)
		if err == nil && nothing != "" {
			a.Note("%s", nothing)
		}
		return err
	}
	return c
}

// tell tells a ping, and tries for a while if no server answers. nothing says why it has changed nothing.
func (a *Commands) tell(ctx context.Context, name string, p schedule.Ping, patience time.Duration) (nothing string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.ID = rand.Text()
	for pause := time.Second / 2; ; pause = min(2*pause, 5*time.Second) {
		if nothing, err = a.tellOnce(ctx, name, p); err == nil || !tryAgain(err) {
			return nothing, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", err
		}
	}
}

func (a *Commands) tellOnce(ctx context.Context, name string, p schedule.Ping) (string, error) {
	cl, err := a.Connect(ctx)
	if err != nil {
		return "", err
	}
	defer cl.Close()
	asking, cancel := a.Asking(ctx)
	defer cancel()
	return cl.PingMonitor(asking, name, p)
}

// tryAgain tells whether the same may go well later.
func tryAgain(err error) bool {
	if errors.As(err, new(*rights.Lacking)) || client.Denied(err) {
		return false
	}
	if refused, ok := errors.AsType[*jet.ServiceError](err); ok {
		code, _ := strconv.Atoi(refused.Code)
		return code/100 != 4 || code == 429
	}
	fault, ok := errors.AsType[*term.Fault](err)
	return !ok || fault.Code == term.ExitNoServer || fault.Code == term.ExitMute || fault.Code == term.ExitError
}

// pingAround runs a command, and tells its start and its end.
func (a *Commands) pingAround(ctx context.Context, name string, argv []string, patience time.Duration) error {
	// The signal that ends the command must not keep its end from being told.
	telling := context.WithoutCancel(ctx)
	starting, enough := context.WithCancel(telling)
	defer enough()
	started := make(chan error, 1)
	go func() {
		_, err := a.tell(starting, name, schedule.Ping{Word: schedule.PingStart}, 24*time.Hour)
		started <- err
	}()
	ran := a.Through(ctx, argv, schedule.MaxPingLines)
	wait := time.AfterFunc(min(patience, a.Conn.Timeout), enough)
	err := <-started
	wait.Stop()
	if err != nil {
		a.Note("the start of %s was not told: %v", name, err)
	}
	if _, err := a.tell(telling, name, schedule.Ping{Word: schedule.PingOK, Exit: &ran.Code, Lines: ran.Last()}, patience); err != nil {
		a.Note("that %s ended with exit code %d was not told: %v", name, ran.Code, err)
	}
	ran.Rest()
	return term.ExitWith(ran.Code)
}
