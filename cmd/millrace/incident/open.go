package incident

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/serve"
	"millrace/cmd/millrace/settings"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/incident"
	"millrace/jet/embed"
	"millrace/jet/reading"
	"millrace/view"
)

func (a *Commands) open() *cobra.Command {
	c := &cobra.Command{
		Use:   "open FILE [-- COMMAND...]",
		Short: "Look into an incident file with any reading command, without a server",
		Long: `Lays the file out in a temporary directory and runs any reading command on it as on the log:
with --at as of any moment of the span, without it as of its end. Nothing is written, and no task runs.
Without a command it reads commands from stdin, line by line, until q or the end.

"millrace replay FILE" steps through the file.`,
		Example: `  millrace incident open crash.mri -- task ls
  millrace incident open crash.mri -- task why ID --at 1048211
  millrace incident open crash.mri`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Misuse(c, "file is missing")
			}
			if len(args) > 1 && c.ArgsLenAtDash() != 1 {
				return exit.Misuse(c, "%q is too much: write -- before the command", args[1])
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		f, err := read(args[0])
		if err != nil {
			return err
		}
		a.sayMissing(f)
		code := 0
		err = a.inside(c.Context(), args[0], f, func(ctx context.Context, inside *reach.Inside) error {
			if len(args) > 1 {
				code = a.run(ctx, inside, args[1:], a.In, a.Out, a.Errs)
				return nil
			}
			return a.prompt(ctx, inside)
		})
		if err == nil && code != 0 {
			return exit.With(code)
		}
		return err
	}
	return c
}

// sayMissing prints what is missing in a file, and which things are therefore left out.
func (a *Commands) sayMissing(f *incident.File) {
	for _, m := range f.Missing {
		a.Note("damaged: %s", told.Missing(m))
	}
	if n := len(f.Incomplete); n > 0 {
		a.Note("nothing is said of what facts are missing of: %s", term.Cut(strings.Join(f.Incomplete, ", "), 400))
	}
	if until, bounded := f.Until(); bounded {
		a.Note("nothing is said of what is behind #%d", until)
	}
}

// inside loads a file into a server, and calls look with it.
func (a *Commands) inside(ctx context.Context, name string, f *incident.File, look func(context.Context, *reach.Inside) error) error {
	s, _, err := a.LoadSettings(nil, settings.Dev)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "millrace-incident-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	from, to, err := lay(dir, &s, f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return serve.Of(a.App).Exhibit(ctx, dir, s, func(ctx context.Context, url string) error {
		return look(ctx, &reach.Inside{File: name, URL: url, From: from, To: to, Settings: f.Manifest.Settings})
	})
}

// lay writes the facts of a file into a data directory, and returns the span that it covers: up to
// the first missing fact.
func lay(dir string, s *settings.Values, f *incident.File) (from, to view.Point, err error) {
	if d, err := time.ParseDuration(f.Manifest.AckWait); err == nil && d > 0 {
		s.AckWait = d
	}
	layout := s.Layout()
	layout.Import = f.Import()
	output, err := printed(f)
	if err != nil {
		return from, to, err
	}
	from = view.Point{Seq: f.Manifest.From.Seq, At: f.Manifest.From.Stored}
	facts := func(yield func(embed.Message, error) bool) {
		for r, err := range f.Whole() {
			if err == nil {
				to = view.Point{Seq: r.Seq, At: r.Stored}
			}
			if !yield(embed.Message{Seq: r.Seq, At: r.Stored, Subject: reading.SubjectOf(&r), Header: reading.HeaderOf(&r), Body: r.Raw}, err) {
				return
			}
		}
	}
	err = serve.Lay(dir, layout, embed.Stream{Messages: facts, Created: f.Manifest.Made}, embed.Stream{Messages: output, Created: f.Manifest.Made})
	if err == nil && to.Seq == 0 {
		err = errors.New("none of its facts is whole")
	}
	return from, to, err
}

// printed returns the messages of the output, in their order.
func printed(f *incident.File) (iter.Seq2[embed.Message, error], error) {
	var all []embed.Message
	for l, err := range f.Output() {
		if err != nil {
			return nil, err
		}
		all = append(all, embed.Message{Seq: l.Seq, At: l.Stored, Subject: l.Subject, Body: l.Body})
	}
	slices.SortFunc(all, func(a, b embed.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return func(yield func(embed.Message, error) bool) {
		for i := range all {
			if !yield(all[i], nil) {
				return
			}
		}
	}, nil
}

// prompt runs the commands that are typed, line by line.
func (a *Commands) prompt(ctx context.Context, inside *reach.Inside) error {
	person := term.Terminal(a.In)
	ask := func() {
		if person {
			fmt.Fprint(a.Out, "(incident) ")
		}
	}
	code := 0
	lines := bufio.NewScanner(a.In)
	for ask(); lines.Scan(); ask() {
		args, err := typed.Words(lines.Text())
		switch {
		case err != nil:
			return err
		case len(args) == 0:
			continue
		case len(args) == 1 && slices.Contains([]string{"q", "quit", "exit"}, args[0]):
			return nil
		case args[0] == "millrace":
			args = args[1:]
		}
		code = a.run(ctx, inside, args, strings.NewReader(""), a.Out, a.Errs)
	}
	if code != 0 {
		return exit.With(code)
	}
	return lines.Err()
}
