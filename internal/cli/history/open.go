package history

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/events/jet/embed"
	"millrace/history/incident"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/inspect"
)

func (a *IncidentCommands) open() *cobra.Command {
	var bound inspect.Bound
	c := &cobra.Command{
		Use:   "open FILE [-- COMMAND...]",
		Short: "Look into an incident file or an export with any reading command, without a server",
		Long: `Lays the file, or an export ("millrace events export"), out in a temporary directory and runs any reading command on it as on the log:
with --at as of any moment of the span, without it as of its end. Nothing is written, and no task runs.
Without a command it reads commands from stdin, line by line, until q or the end.

"millrace replay FILE" steps through the file. Ends with the code of the last command, and of a damaged file with 3 in
place of 0.`,
		Example: `  millrace incident open crash.mri -- task ls
  millrace incident open crash.mri -- task why ID --at 1048211
  millrace incident open crash.mri`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return term.Misuse(c, "file is missing")
			}
			if len(args) > 1 && c.ArgsLenAtDash() != 1 {
				return term.Misuse(c, "%q is too much: write -- before the command", args[1])
			}
			return nil
		},
	}
	bound.Flag(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error { return a.look(c.Context(), args[0], bound, args[1:]) }
	return c
}

// look runs a command on a file, or those that are typed if there is none.
func (a *IncidentCommands) look(ctx context.Context, name string, bound inspect.Bound, args []string) error {
	lay, of, err := a.laying(name, bound)
	if err != nil {
		return err
	}
	code := 0
	err = a.inside(ctx, name, lay, of, func(ctx context.Context, inside *connect.Inside) error {
		if len(args) > 0 {
			code = a.run(ctx, inside, args, a.In, a.Out, a.Errs)
			return nil
		}
		return a.prompt(ctx, inside)
	})
	if err == nil && code == term.ExitOK && of.Missing != nil {
		code = damaged // the answer may lack what the file lacks
	}
	return errors.Join(err, term.ExitWith(code))
}

// fileFlag is the name of the flag that names a file in place of a server.
const fileFlag = "file"

// OfFile gives a reading command the flag --file: the same as "incident open FILE -- COMMAND". path
// are its names below the root.
func (a *IncidentCommands) OfFile(c *cobra.Command, path ...string) *cobra.Command {
	var name string
	var bound inspect.Bound
	own := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if name == "" {
			return own(c, args)
		}
		all := slices.Clone(path)
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Changed && f.Name != fileFlag && f.Name != inspect.BoundFlag {
				all = append(all, "--"+f.Name+"="+f.Value.String())
			}
		})
		return a.look(c.Context(), name, bound, append(append(all, "--"), args...))
	}
	c.Flags().StringVar(&name, fileFlag, "", "ask this `file`, an export or an incident file, instead of a server")
	bound.Flag(c.Flags())
	return c
}

// sayMissing prints what is missing in a file, and which things are therefore left out.
func (a *IncidentCommands) sayMissing(f *incident.File) {
	for _, m := range f.Missing {
		a.Note("damaged: %s", wording.Missing(m))
	}
	if n := len(f.Incomplete); n > 0 {
		a.Note("nothing is said of what events are missing of: %s", term.Cut(strings.Join(f.Incomplete, ", "), 400))
	}
	if until, bounded := f.Until(); bounded {
		a.Note("nothing is said of what is behind #%d", until)
	}
}

// layer writes the facts of a file into a data directory, and returns the span that it covers.
type layer func(dir string, s *settings.Values) (from, to view.Point, err error)

// laying opens a file to be laid out: an incident file or an export, of which no more is known than
// its facts.
func (a *IncidentCommands) laying(name string, bound inspect.Bound) (layer, *incident.File, error) {
	if whether, err := isIncident(name); err != nil {
		return nil, nil, err
	} else if whether {
		f, err := readIncident(name, bound)
		if err != nil {
			return nil, nil, err
		}
		a.sayMissing(f)
		return func(dir string, s *settings.Values) (view.Point, view.Point, error) { return lay(dir, s, f) }, f, nil
	}
	x, err := OpenExport(name, a.In)
	if err != nil {
		return nil, nil, err
	}
	return func(dir string, s *settings.Values) (from, to view.Point, err error) {
		defer x.Close()
		layout := s.Layout()
		layout.Import = x.Import
		to, err = serve.Lay(dir, layout, x.Made, x.Facts(), func(func(embed.Message, error) bool) {})
		return view.Point{Seq: max(x.From, 1), At: x.Made}, to, err
	}, new(incident.File), nil
}

// isIncident tells an incident file from an export.
func isIncident(name string) (bool, error) {
	file, err := os.Open(name)
	if err != nil {
		return false, noFile(err)
	}
	defer file.Close()
	part := make([]byte, 1<<20) // a block of an incident file is shorter: one begins there
	n, err := io.ReadFull(file, part)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, noFile(err)
	}
	return incident.Is(part[:n]) || n == 0 || part[0] != '{', nil
}

// inside loads a file into a server, and calls look with it.
func (a *IncidentCommands) inside(ctx context.Context, name string, lay layer, f *incident.File, look func(context.Context, *connect.Inside) error) error {
	s, _, err := a.LoadSettings(nil, settings.Dev)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "millrace-incident-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.HTTP.Address = "" // unless who lays it out wants pages
	from, to, err := lay(dir, &s)
	if err != nil {
		return unfit(name, err)
	}
	return serve.Of(a.App).Exhibit(ctx, dir, s, func(ctx context.Context, url string) error {
		return look(ctx, &connect.Inside{File: name, URL: url, From: from, To: to, Settings: f.Manifest.Settings})
	})
}

// unfit is the error of a file that cannot be laid out.
func unfit(name string, err error) error {
	err = fmt.Errorf("%s: %w", name, err)
	if errors.Is(err, errNone) || errors.Is(err, embed.ErrNoMessage) {
		err = &term.Fault{Code: term.ExitUsage, Err: err}
	}
	return err
}

// errNone refuses a file without a whole fact.
var errNone = errors.New("none of its events is whole")

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
	to, err = serve.Lay(dir, layout, f.Manifest.Made, f.Whole(), output)
	if err == nil && to.Seq == 0 {
		err = errNone
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
func (a *IncidentCommands) prompt(ctx context.Context, inside *connect.Inside) error {
	person := term.Terminal(a.In)
	ask := func() {
		if person {
			fmt.Fprint(a.Out, "(incident) ")
		}
	}
	code := 0
	lines := bufio.NewScanner(a.In)
	for ask(); lines.Scan(); ask() {
		args, err := settings.Words(lines.Text())
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
		return term.ExitWith(code)
	}
	return lines.Err()
}
