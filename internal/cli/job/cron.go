package job

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/jobfile"
)

// Cron is millrace cron.
func (a *Commands) Cron() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "cron", Aliases: []string{"crontab"}, Short: "Crontabs: what cron does, as jobs with schedules",
		Example: `  millrace cron import --dry-run /etc/crontab
  crontab -l | millrace cron import - --timezone Europe/Berlin`,
	})
	c.AddCommand(a.cronImport())
	return c
}

func (a *Commands) cronImport() *cobra.Command {
	var o settings.Output
	var r jobfile.CronOptions
	var dry, file, watch bool
	var g graceFlags
	c := &cobra.Command{
		Use: "import FILE|-", Short: "Make jobs with schedules of the lines of a crontab",
		Long: `Makes a job with a schedule of each line of a crontab, and says of each what differs from what cron does. A line that cannot be
taken is named with the reason; the others are stored, and the exit code is 1. Import the same file again to follow its
changes. A job of that name that came from elsewhere is left as it is. The crontab itself stays as it is: remove its lines
when you have seen the jobs run, or both run them.

With --monitors cron runs them on, and each line gets a monitor instead: a notice comes if it fails, or does not run. This
prints the crontab whose lines ping them (millrace ping); comments in it say which lines are not watched.`,
		Example: `  millrace cron import --dry-run /etc/cron.d/backup
  millrace cron import --print /etc/crontab > jobs.yaml
  crontab -l | millrace cron import - --timezone Europe/Berlin
  crontab -l | millrace cron import - --monitors > crontab.new`,
		Args: settings.Takes(1, 1, "file"),
	}
	fs := c.Flags()
	fs.StringVar(&r.Zone, "timezone", "", "IANA `name` of the zone of the crontab (default that of this machine)")
	fs.BoolVar(&r.System, "system", false, "its lines name a user before the command (default for /etc/crontab and /etc/cron.d)")
	fs.StringVar(&r.Prefix, "prefix", "", "`text` with which the names of jobs begin")
	fs.BoolVar(&dry, "dry-run", false, "say what each line becomes, and store nothing")
	fs.BoolVar(&file, "print", false, "print a job file, and store nothing")
	fs.BoolVar(&watch, "monitors", false, "make monitors, for jobs that cron runs on, and print the crontab that pings them")
	g.flags(c, "24h")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		text, source, err := a.crontab(args[0])
		if err != nil {
			return err
		}
		r.System = r.System || !c.Flags().Changed("system") && (source == "/etc/crontab" || strings.HasPrefix(source, "/etc/cron.d/"))
		if r.Zone == "" {
			if r.Zone = localZone(); r.Zone == "" {
				return term.Misuse(c, "the zone of this machine has no name here: say it with --timezone, as Europe/Berlin")
			}
		}
		if _, err := time.LoadLocation(r.Zone); err != nil || r.Zone == "Local" {
			return term.Misuse(c, "--timezone is %q, want an IANA name such as Europe/Berlin", r.Zone)
		}
		if !watch && (g.grace.Given || g.most.Given) {
			return term.Misuse(c, "--grace and --max are of --monitors")
		}
		lines, pings := jobfile.ReadCrontab(text, r), ""
		if watch {
			pings = jobfile.Watch(text, lines, r, g.grace.D, cmp.Or(g.most.D, longestRun))
		}
		switch {
		case file:
			return a.printJobs(lines)
		case !dry:
			if err := a.storeLines(c, lines, source); err != nil {
				return err
			}
		}
		switch {
		case o.JSON() && watch:
			err = a.WriteJSON(map[string]any{"zone": r.Zone, "lines": lines, "crontab": pings})
		case o.JSON():
			err = a.WriteJSON(map[string]any{"zone": r.Zone, "lines": lines, "differs": jobfile.CronDiffers()})
		case watch:
			_, err = io.WriteString(a.Out, pings)
		default:
			err = a.Print(cronTable(lines, dry))
		}
		return errors.Join(err, untaken(lines))
	}
	return c
}

// longestRun is how long what a crontab starts may take if nobody says.
const longestRun = 24 * time.Hour

// crontab reads a crontab, and says where it comes from; "" for stdin.
func (a *Commands) crontab(file string) (text []byte, source string, err error) {
	if file == "-" {
		text, err = io.ReadAll(io.LimitReader(a.In, settings.MaxFile))
		return text, "crontab", err
	}
	if source, err = filepath.Abs(file); err == nil {
		text, err = settings.ReadFile(file)
	}
	return text, source, err
}

// localZone is the IANA name of the zone of this machine; "" if it is not known.
func localZone() string {
	if zone, set := os.LookupEnv("TZ"); set && zone != "" {
		return strings.TrimPrefix(zone, ":")
	}
	if to, err := os.Readlink("/etc/localtime"); err == nil {
		if _, zone, ok := strings.Cut(to, "zoneinfo/"); ok {
			return zone
		}
	}
	if text, err := os.ReadFile("/etc/timezone"); err == nil {
		return strings.TrimSpace(string(text))
	}
	if _, offset := time.Unix(0, 0).Local().Zone(); offset == 0 {
		return "UTC"
	}
	return ""
}

// storeLines stores the jobs of lines. One that is not stored has no job any more, and the reason.
func (a *Commands) storeLines(c *cobra.Command, lines []jobfile.CronLine, source string) error {
	cl, err := a.Connect(c.Context())
	if err != nil {
		return err
	}
	defer cl.Close()
	for i := range lines {
		if lines[i].Job == nil {
			continue
		}
		if err := a.storeLine(c.Context(), cl, &lines[i], source); err != nil {
			if client.Unreachable(err) {
				return err
			}
			lines[i].Job, lines[i].Refused = nil, err.Error()
		}
	}
	return nil
}

func (a *Commands) storeLine(ctx context.Context, cl *client.Client, l *jobfile.CronLine, source string) error {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	is, err := cl.Job(asking, l.Job.Name)
	switch {
	case errors.Is(err, definitions.ErrNoJob):
	case err != nil:
		return err
	case is.Source != source:
		return fmt.Errorf("there is a job %s that came from elsewhere: choose other names with --prefix", is.Name)
	}
	_, _, err = cl.ApplyFrom(asking, *l.Job, task.From{Source: source, Marks: true}, is.Revision)
	return err
}

// printJobs prints a job file, with what differs as comments.
func (a *Commands) printJobs(lines []jobfile.CronLine) error {
	var b bytes.Buffer
	for i := range lines {
		l := &lines[i]
		if b.Len() > 0 && l.Job != nil {
			b.WriteString("---\n")
		}
		for _, differs := range l.Differs {
			fmt.Fprintf(&b, "# %s\n", term.Printable(differs))
		}
		if l.Job == nil {
			fmt.Fprintf(&b, "# line %d is not taken: %s\n", l.Line, term.Printable(l.Refused))
			continue
		}
		text, err := jobfile.Marshal(*l.Job)
		if err != nil {
			return err
		}
		b.Write(text)
	}
	if _, err := a.Out.Write(b.Bytes()); err != nil {
		return err
	}
	return untaken(lines)
}

// cronTable says what became of each line.
func cronTable(lines []jobfile.CronLine, dry bool) term.Table {
	t := term.Table{Header: []string{"LINE", "JOB", "WHEN", "ZONE", "DIFFERS"}, Spare: []string{"ZONE"}}
	taken := 0
	for i := range lines {
		l := &lines[i]
		if l.Job == nil {
			t.Add(term.Plain(fmt.Sprint(l.Line)), term.Tinted("not taken", term.Red), term.Plain(""), term.Plain(""), term.Plain(l.Refused))
			continue
		}
		taken++
		zone := l.Job.Schedule.Timezone
		if zone == "" {
			zone = "UTC"
		}
		t.Add(term.Plain(fmt.Sprint(l.Line)), term.Plain(l.Job.Name), term.Plain(l.Job.Schedule.Cron), term.Plain(zone), term.Plain(strings.Join(l.Differs, "; ")))
	}
	stored := "stored"
	if dry {
		stored = "to store"
	}
	t.Foot = append(t.Foot, wording.Plural(taken, "job")+" "+stored+". Of all lines:")
	for _, differs := range jobfile.CronDiffers() {
		t.Foot = append(t.Foot, "- "+differs)
	}
	return t
}

// untaken is the error for lines that became no jobs.
func untaken(lines []jobfile.CronLine) error {
	var numbers []string
	for i := range lines {
		if lines[i].Job == nil {
			numbers = append(numbers, fmt.Sprint(lines[i].Line))
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	return fmt.Errorf("not taken: line %s", strings.Join(numbers, ", "))
}
