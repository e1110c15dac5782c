package incident

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/settings"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/events"
	"millrace/incident"
	"millrace/jet/outputs"
	"millrace/view"
)

// exportFlags are what `millrace incident export` was told.
type exportFlags struct {
	around string
	window time.Duration
	logs   bool
	raw    bool
}

func (a *Commands) export() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use: "export [FILE]", Aliases: []string{"write", "save"},
		Short: "Write what happened around a task or a time into one file",
		Long: `Writes a span of the log into a compressed file: all facts of everything that lived in the span,
from its beginning on, so that whoever has the file alone can look at any moment of the span.

Parameters, environments, commands, messages, results, keys and names of people are replaced by hashes, with a
key that nobody keeps: within the file, equal values are equal. "millrace incident show FILE" lists the rules.
--keep-params writes everything as it is. - for FILE is stdout.`,
		Example: `  millrace incident export --around ID
  millrace incident export --around -10m --window 5m crash.mri
  millrace incident export --around ID --logs --keep-params mine.mri`,
		Args: typed.Takes(0, 1, "file"),
	}
	fs := c.Flags()
	fs.StringVar(&f.around, "around", "", "a task's `id`, or a moment: a sequence of the log, or a time: -10m, 12:00, 2026-03-01")
	fs.DurationVar(&f.window, "window", 10*time.Minute, "so `long` before and after it")
	fs.BoolVar(&f.logs, "logs", false, "also what the tasks have printed, without values that are hashed elsewhere in the file")
	fs.BoolVar(&f.raw, "keep-params", false, "hash nothing: the file has all parameters, environments and messages")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case f.around == "":
			return exit.Misuse(c, "--around is missing: a task's id, or a moment")
		case f.window < 0:
			return exit.Misuse(c, "--window is %v, want a time of at least 0", f.window)
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

// span is what is asked for: the times between which facts are wanted.
func (a *Commands) span(ctx context.Context, cl *client.Client, f *exportFlags) (from, to time.Time, around string, err error) {
	m, bad := reach.ParseMoment(f.around, a.Now())
	switch {
	case bad == nil && m.Seq == 0: // it may lie before the log, and the span reach into it
		return m.At.Add(-f.window), m.At.Add(f.window), m.At.UTC().Format(time.RFC3339), nil
	case bad == nil:
		p, err := a.PointAt(ctx, cl, m)
		return p.At.Add(-f.window), p.At.Add(f.window), fmt.Sprintf("#%d", p.Seq), err
	}
	if err := reach.PlausibleID(f.around); err != nil {
		return from, to, "", &exit.Fault{Code: exit.Usage, Err: fmt.Errorf("--around: %q is no task's id, and no moment: %w", f.around, bad)}
	}
	id, err := a.TaskID(ctx, cl, f.around)
	if err != nil {
		return from, to, "", err
	}
	asking, cancel := a.Asking(ctx)
	defer cancel()
	facts, err := cl.History(asking, id)
	if err != nil {
		return from, to, "", err
	}
	to = facts[len(facts)-1].Stored
	if k := events.FoldTask(id, facts); !k.State.Terminal() {
		to = a.Now()
	}
	return facts[0].Stored.Add(-f.window), to.Add(f.window), "task " + string(id), nil
}

// write writes the file, or nothing.
func (a *Commands) write(ctx context.Context, cl *client.Client, f *exportFlags, name string) error {
	begin, end, around, err := a.span(ctx, cl, f)
	if err != nil {
		return err
	}
	asking, cancel := a.Asking(ctx)
	before, _, err := cl.PointAt(asking, view.Moment{At: begin})
	if err != nil {
		cancel()
		return err
	}
	to, found, err := cl.PointAt(asking, view.Moment{At: end})
	cancel()
	if err == nil && !found {
		err = &exit.Fault{Code: exit.NotFound, Err: errors.New("the log begins later")}
	}
	if err != nil {
		return err
	}
	choice := incident.NewChoice(before.Seq+1, to.Seq)
	m, err := a.manifest(cl, f, around)
	if err != nil {
		return err
	}
	m.To = incident.Point{Seq: to.Seq, Stored: to.At}
	err = a.Span(ctx, cl, 1, to.Seq, func(r *events.Record) error {
		if m.From.Seq == 0 && r.Seq > before.Seq {
			m.From = incident.Point{Seq: r.Seq, Stored: r.Stored}
		}
		choice.See(r)
		return nil
	})
	if err != nil {
		return err
	}
	if m.From.Seq == 0 {
		m.From = m.To
	}
	if name == "" {
		name = fmt.Sprintf("incident-%d.mri", to.Seq)
	}
	out := &fresh{name: name, stdout: a.Out}
	done, err := a.writeTo(ctx, cl, f, choice, m, out)
	if err = out.close(err); err != nil {
		return err
	}
	if name != "-" {
		a.Note("%s: %s", name, said(&done))
	}
	return nil
}

// said says in words what a file holds.
func said(m *incident.Manifest) string {
	text := fmt.Sprintf("%s, #%d to #%d, %d of %s that the log has until then", told.Plural(m.Facts, "fact"), m.From.Seq, m.To.Seq, m.Tasks, told.Plural(m.AllOf, "task"))
	if m.Outputs {
		text += ", " + fmt.Sprintf("%d batches of output", m.Output)
	}
	if m.Raw {
		return text + "; nothing is redacted"
	}
	return text + "; redacted"
}

// manifest is what is known of the file before the log is read.
func (a *Commands) manifest(cl *client.Client, f *exportFlags, around string) (incident.Manifest, error) {
	s, err := a.Settings()
	m := incident.Manifest{Millrace: told.ThisBuild().Version, Made: a.Now().UTC(), Around: around, Outputs: f.logs, Raw: f.raw,
		AckWait: cl.Store().AckWait().String(), Settings: map[string]string{}}
	for _, d := range settings.All {
		if judges[d.Name] {
			m.Settings[d.Name] = d.Text(&s)
		}
	}
	if !f.raw {
		m.Rules = incident.Rules
	}
	return m, err
}

// judges are the settings by which duties are judged.
var judges = map[string]bool{"start_deadline": true, "node_ttl": true, "beat": true, "sweep": true, "grace": true}

// writeTo writes what was chosen, and returns the manifest as it stands at the end.
func (a *Commands) writeTo(ctx context.Context, cl *client.Client, f *exportFlags, choice *incident.Choice, m incident.Manifest, out io.Writer) (incident.Manifest, error) {
	m.Tasks, m.AllOf = choice.Tasks()
	w, err := incident.NewWriter(out, m)
	if err != nil {
		return m, err
	}
	var redactor *incident.Redactor
	if !f.raw {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		redactor = incident.NewRedactor(key)
	}
	facts := 0
	err = a.Span(ctx, cl, 1, m.To.Seq, func(r *events.Record) error {
		if !choice.Keeps(r) {
			return nil
		}
		if r.IsFact() {
			facts++
		}
		if redactor == nil {
			return w.Fact(r)
		}
		is, err := redactor.Fact(r)
		if err != nil {
			return fmt.Errorf("redact #%d: %w", r.Seq, err)
		}
		return w.Fact(&is)
	})
	if err == nil && f.logs {
		err = writeOutput(ctx, cl, choice, redactor, w)
	}
	if err != nil {
		return m, err
	}
	err = w.Close(func(end *incident.Manifest) {
		end.Left = choice.Seen() - facts
		m = *end
	})
	return m, err
}

// writeOutput writes what the tasks that are there have printed.
func writeOutput(ctx context.Context, cl *client.Client, choice *incident.Choice, redactor *incident.Redactor, w *incident.Writer) error {
	hide := func(*incident.Lines) {}
	if redactor != nil {
		hide = redactor.Output()
	}
	for ids := range slices.Chunk(choice.Living(), outputs.MaxTogether) {
		err := cl.Store().PrintedAs(ctx, ids, func(seq uint64, stored time.Time, subject string, body []byte) error {
			l := incident.Lines{Seq: seq, Stored: stored, Subject: subject, Body: body}
			hide(&l)
			return w.Output(&l)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fresh is a file that is there when all of it is written, or not at all; - is stdout.
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
			return 0, &exit.Fault{Code: exit.Refused, Err: fmt.Errorf("%s is there already", f.name), Hint: exit.Hint("name another file")}
		}
		file, err := os.CreateTemp(filepath.Dir(f.name), "."+filepath.Base(f.name)+"-")
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	return f.file.Write(b)
}

// close puts the file in its place, unless there is an error.
func (f *fresh) close(err error) error {
	if f.file == nil {
		return err
	}
	err = errors.Join(err, f.file.Sync(), f.file.Close())
	if err == nil {
		err = os.Link(f.file.Name(), f.name) // unlike a rename, it takes nobody's place
	}
	return errors.Join(err, os.Remove(f.file.Name()))
}
