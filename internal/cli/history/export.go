package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/history/incident"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/service/inspect"
	"millrace/task"
)

// exportFlags are the flags of `millrace incident export`.
type exportFlags struct {
	around string
	window time.Duration
	logs   bool
	raw    bool
}

func (a *IncidentCommands) export() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use: "export [FILE]", Aliases: []string{"write", "save"},
		Short: "Write what happened around a task or a moment into one file",
		Long: `Writes a span of the log into a compressed file: everything that existed in the span, with all its
events from its beginning on. So the file alone shows any moment of the span.

Hashes replace parameters, environments, commands, messages, results, keys and names of people. Their
key is not stored: within the file, equal values have equal hashes. "millrace incident show FILE" lists the rules.
--keep-params hashes nothing, and adds the results of steps that the log keeps apart. - for FILE is stdout.`,
		Example: `  millrace incident export --around ID
  millrace incident export --around -10m --window 5m crash.mri
  millrace incident export --around ID --logs --keep-params mine.mri`,
		Args: settings.Takes(0, 1, "file"),
	}
	fs := c.Flags()
	fs.StringVar(&f.around, "around", "", "a task's `id`, or a moment: a sequence of the log, or a time: -10m, 12:00, 2026-03-01")
	f.window = 10 * time.Minute
	settings.Period(fs, &f.window, "window", "so `long` before and after it")
	fs.BoolVar(&f.logs, "logs", false, "also the output of the tasks, without values that are hashed elsewhere in the file")
	fs.BoolVar(&f.raw, "keep-params", false, "hash nothing: the file has all parameters, environments and messages")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case f.around == "":
			return term.Misuse(c, "--around is missing: a task's id, or a moment")
		case f.window < 0:
			return term.Misuse(c, "--window is %v, want a time of at least 0", f.window)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		return a.write(c.Context(), cl, &f, strings.Join(args, ""))
	}
	return c
}

// center returns the task or the moment that the flags ask for.
func (a *IncidentCommands) center(ctx context.Context, cl *client.Client, f *exportFlags) (id task.ID, m view.Moment, err error) {
	m, bad := view.ParseMoment(f.around, a.Now().Local())
	if bad == nil && view.Twofold(f.around) {
		return a.either(ctx, cl, f.around, m)
	}
	if bad == nil {
		return "", m, nil
	}
	if err := connect.PlausibleID(f.around); err != nil {
		return "", m, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("--around: %q is no task's id, and no moment: %w", f.around, bad)}
	}
	id, err = a.TaskID(ctx, cl, f.around)
	return id, view.Moment{}, err
}

// either returns what a text of digits alone means: a task, if it is a part of its id, or a sequence.
func (a *IncidentCommands) either(ctx context.Context, cl *client.Client, text string, m view.Moment) (task.ID, view.Moment, error) {
	id, err := a.TaskID(ctx, cl, text)
	if err != nil { // no task has it, or no service can tell
		return "", m, nil
	}
	asking, cancel := a.Asking(ctx)
	defer cancel()
	last, err := cl.Last(asking)
	if err != nil {
		return "", m, err
	}
	if err = view.Unclear(text, id, m.Seq <= last); err != nil {
		return "", m, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("--around: %w", err)}
	}
	return id, view.Moment{}, nil
}

// log is the log that a command reads.
type log struct {
	*IncidentCommands
	client *client.Client
}

// History implements [inspect.Log].
func (l log) History(ctx context.Context, id task.ID) ([]events.Record, error) {
	ctx, cancel := l.Asking(ctx)
	defer cancel()
	return l.client.History(ctx, id)
}

// PointAt implements [inspect.Log].
func (l log) PointAt(ctx context.Context, m view.Moment) (view.Point, bool, error) {
	ctx, cancel := l.Asking(ctx)
	defer cancel()
	return l.client.PointAt(ctx, m)
}

// Until implements [inspect.Log].
func (l log) Until(ctx context.Context, seq uint64, each func(*events.Record) error) error {
	return l.Span(ctx, l.client, 1, seq, each)
}

// Printed implements [inspect.Log].
func (l log) Printed(ctx context.Context, ids []task.ID, each func(seq uint64, stored time.Time, subject string, body []byte) error) error {
	return l.client.Store().PrintedAs(ctx, ids, each)
}

// StepResult implements [inspect.Log].
func (l log) StepResult(ctx context.Context, id task.ID, digest string, size int) ([]byte, error) {
	return l.client.Store().StepResult(ctx, id, digest, size)
}

// write writes the file, or nothing.
func (a *IncidentCommands) write(ctx context.Context, cl *client.Client, f *exportFlags, name string) error {
	rules, err := a.InForce(ctx, cl)
	if err != nil {
		return err
	}
	wish := inspect.Wish{Window: f.window, Logs: f.logs, Raw: f.raw, Results: incident.MaxResults, AckWait: rules.AckWait, Settings: rules.Judging(), Now: a.Now()}
	if wish.Import, err = cl.Import(ctx); err != nil {
		return err
	}
	if wish.Task, wish.Moment, err = a.center(ctx, cl, f); err != nil {
		return err
	}
	out := &fresh{name: name, stdout: a.Out}
	done, err := inspect.Write(ctx, log{a, cl}, wish, out)
	if errors.Is(err, inspect.ErrBefore) || errors.Is(err, view.ErrNotYet) {
		err = &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("--around: %w", err)}
	}
	if out.name == "" {
		out.name = inspect.FileName(&done)
	}
	if err = out.close(err); err != nil {
		return err
	}
	if name != "-" {
		a.Note("%s: %s", out.name, said(&done))
	}
	return nil
}

// said describes what a file holds.
func said(m *incident.Manifest) string {
	text := fmt.Sprintf("%s, #%d to #%d, %d of %s that the log has until then", wording.Plural(m.Facts, "event"), m.From.Seq, m.To.Seq, m.Tasks, wording.Plural(m.AllOf, "task"))
	if m.Outputs {
		text += ", " + fmt.Sprintf("%d batches of output", m.Output)
	}
	if m.Results+m.ResultsLeft > 0 {
		text += fmt.Sprintf(", %d of %s that the log keeps apart", m.Results, wording.Plural(m.Results+m.ResultsLeft, "result"))
	}
	if m.Raw {
		return text + "; nothing is redacted"
	}
	return text + "; redacted"
}

// fresh is a file that appears completely or not at all; - is stdout. Its name may be set at the
// end.
type fresh struct {
	name   string
	stdout io.Writer
	file   *os.File
}

func (f *fresh) Write(b []byte) (int, error) {
	if f.name == "-" {
		return f.stdout.Write(b)
	}
	if f.file == nil {
		if _, err := os.Lstat(f.name); err == nil {
			return 0, f.taken()
		}
		file, err := os.CreateTemp(filepath.Dir(f.name), "."+filepath.Base(f.name)+"-")
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	return f.file.Write(b)
}

func (f *fresh) taken() error {
	return &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("%s is there already", f.name), Hint: term.Hint("name another file")}
}

// close puts the file in its place, unless there is an error.
func (f *fresh) close(err error) error {
	if f.file == nil {
		return err
	}
	err = errors.Join(err, f.file.Sync(), f.file.Close())
	if err == nil {
		// Unlike a rename, it replaces no file.
		if err = os.Link(f.file.Name(), f.name); errors.Is(err, os.ErrExist) {
			err = f.taken()
		}
	}
	return errors.Join(err, os.Remove(f.file.Name()))
}
