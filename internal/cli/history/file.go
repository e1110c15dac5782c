package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/history/incident"
	"millrace/history/replay"
	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/service/inspect"
)

// between reads --from and --until.
func (a *Commands) between(c *cobra.Command, from, until string) (span [2]view.Moment, err error) {
	for i, text := range []string{from, until} {
		if span[i], err = view.ParseMoment(text, a.Now().Local()); err != nil {
			return span, term.Misuse(c, "%s: %w", []string{"--from", "--until"}[i], err)
		}
	}
	return span, nil
}

// text is an open file: an export or an incident file.
type text struct {
	*bufio.Reader
	name     string
	incident bool
	bound    inspect.Bound // of an incident file
	shut     func()
}

// ahead is how many bytes open reads to find out what a file is. A block of an incident file is
// shorter, so a block begins there even if the first one is damaged.
const ahead = 1 << 20

// open opens an export or an incident file; "-" is standard input.
func (a *Commands) open(name string, bound inspect.Bound) (*text, error) {
	t := &text{name: name, bound: bound, shut: func() {}}
	in := a.In
	if name == "-" {
		t.name = "stdin"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, &term.Fault{Code: term.ExitNotFound, Err: err, Hint: term.Hint("`millrace events export > FILE` writes an export, `millrace incident export FILE` an incident file")}
		}
		in, t.shut = file, func() { _ = file.Close() }
	}
	t.Reader = bufio.NewReaderSize(in, ahead)
	beginning, err := t.Peek(ahead)
	if err != nil && !errors.Is(err, io.EOF) {
		t.shut()
		return nil, &term.Fault{Code: term.ExitNotFound, Err: err}
	}
	t.incident = incident.Is(beginning)
	return t, nil
}

// neither is the error of a file that is neither an export nor an incident file.
func (t *text) neither() error {
	return &term.Fault{
		Code: term.ExitUsage, Err: fmt.Errorf("%s is neither an export of the log nor an incident file", t.name),
		Hint: term.Hint("`millrace events export > FILE` writes an export, `millrace incident export FILE` an incident file"),
	}
}

// read reads the incident file.
func (t *text) read() (*incident.File, error) { return t.bound.Read(t.name, t) }

// source reads a span of the log, of an export or of an incident file.
func (a *Commands) source(ctx context.Context, file string, bound inspect.Bound, between [2]view.Moment) (from source, err error) {
	if file == "" {
		return a.logSource(ctx, between)
	}
	own, err := a.Settings()
	if err != nil {
		return from, err
	}
	t, err := a.open(file, bound)
	if err != nil {
		return from, err
	}
	defer t.shut()
	k := kept{}
	if file != "-" {
		k = keptOf(file, a.Now())
	}
	if t.incident {
		return incidentSource(t, k, own, between)
	}
	from.rules.Values = own
	from.span, err = exportSpan(t, k, between)
	return from, err
}

// exportSpan reads a span of an export. Lines that cannot be read are gaps.
func exportSpan(in *text, k kept, between [2]view.Moment) (*replay.Span, error) {
	r, err := events.NewExportReader(in)
	if err != nil {
		return nil, err
	}
	span := replay.NewSpan(r.Header().From)
	span.Imported(r.Header().Import)
	if k.restore(span, func(r *events.Record) bool { return behind(between[1], r) }, between[0].Begun) {
		return span, nil
	}
	span = replay.NewSpan(r.Header().From)
	span.Imported(r.Header().Import)
	for {
		record, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && span.Last() == 0 && len(span.Gaps()) > 0:
			return nil, in.neither() // every line was unreadable
		case errors.Is(err, io.EOF):
			k.keep(span)
			return span, nil
		case err != nil && !r.Skip():
			return nil, err
		case err != nil:
			span.Missing(err.Error())
		case behind(between[1], &record):
			return span, nil
		default:
			if err := span.Add(&record, between[0].Begun(&record)); err != nil {
				return nil, err
			}
		}
	}
}

// isNone tells, after an unreadable line, that the file is no export: all later lines are unreadable, too.
func isNone(r *events.ExportReader) bool {
	for r.Skip() {
		if _, err := r.Next(); err == nil {
			return false
		}
	}
	return true
}

// nothing is the error of a span without messages.
func nothing(span *replay.Span, name string) error {
	err := fmt.Errorf("%s has no messages between --from and --until: it ends at #%d", name, span.Last())
	if span.Last() == 0 {
		err = fmt.Errorf("%s has no messages", name)
	}
	return &term.Fault{Code: term.ExitUsage, Err: err}
}

// mostGaps is how many gaps of a file replay names.
const mostGaps = 20
