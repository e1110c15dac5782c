package history

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/streams"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
)

func (a *Commands) eventsImport() *cobra.Command {
	var dir string
	var run bool
	c := &cobra.Command{
		Use: "import FILE", Aliases: []string{"load", "restore"},
		Short: "Make a data directory of an export, also of one that an earlier version has written",
		Long: `Makes a data directory of a whole export ("millrace events export"; - is stdin), or with --server, --context
or $NATS_URL the streams of a NATS server that holds no Millrace. "millrace server --data DIR" and "millrace dev --data DIR" then go on from its end: sequences and times are those of the
exported log, definitions of jobs, schedules, calendars and tokens are as they were, timers are set again, and
attempts that ran are taken over when their leases end.

Nothing of it starts: all schedules and queues are paused and all nodes are drained, by events, until "schedule
resume", "queue resume" and "node undrain" say otherwise. --run leaves that out, to move a log to another server or
to a newer version. Stop the old server first, or tasks run twice.

An export has events only: what tasks have printed and produced, checkpoints, and contents of files stay behind.`,
		Example: `  millrace events import log.jsonl --data ./new --run
  zstd -dc log.jsonl.zst | millrace events import - --data ./new
  millrace dev --data ./new`,
		Args: settings.Takes(1, 1, "file"),
	}
	c.Flags().StringVar(&dir, "data", "", "new `directory` for the data")
	c.Flags().BoolVar(&run, "run", false, "pause nothing: schedules and waiting tasks go on as soon as a server and workers do")
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := a.Target()
		if err != nil {
			return err
		}
		if dir == "" && !t.Chosen() {
			return term.Misuse(c, "--data is missing: a directory that `millrace server --data` or `millrace dev --data` is to go on with; or --server, for a NATS server that holds no Millrace")
		}
		s, _, err := a.LoadSettings(nil, settings.Dev)
		if err != nil {
			return err
		}
		file, err := OpenExport(args[0], a.In)
		if err != nil {
			return err
		}
		defer file.Close()
		if file.From > 1 {
			return &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("%s begins at #%d, and nothing can go on from a part of a log", file.Name, file.From),
				Hint: term.Hint("export the whole log: `millrace events export` without --from")}
		}
		layout := s.Layout()
		layout.Import = file.Import
		lay := func(dir string) (view.Point, error) {
			return serve.Lay(dir, layout, file.Made, file.Facts(), func(func(embed.Message, error) bool) {})
		}
		reason, where := "imported from "+file.Name, dir
		var to view.Point
		var still serve.Stilled
		if dir == "" {
			where = t.Name
			to, still, err = serve.Of(a.App).ImportTo(c.Context(), t, s, reason, run, lay)
		} else {
			to, still, err = serve.Of(a.App).Import(c.Context(), dir, s, reason, run, lay)
		}
		if errors.Is(err, streams.ErrThere) {
			return &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("%s: %w", t.Name, err), Hint: term.Hint("a log goes into a server that has none: name a directory that is not there yet with --data, or a NATS server or account without Millrace")}
		}
		if errors.Is(err, embed.ErrFilled) || errors.Is(err, embed.ErrLocked) {
			return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("a log goes into a server that has none: name a directory that is not there yet, and start the server with it")}
		}
		if err != nil {
			return err
		}
		next := fmt.Sprintf("`millrace server --data %s` or `millrace dev --data %s`", dir, dir)
		if dir == "" {
			next = "`millrace server` on it"
		}
		a.Note("%s holds the log up to #%d; %s goes on from there", where, to.Seq, next)
		if file.Former > 0 {
			a.Note("an early version wrote this export, whose log did not hold definitions of jobs, schedules and calendars: apply them again (%s of definitions have no text); "+
				"`millrace verify` judges what comes after #%d", wording.Plural(file.Former, "event"), file.Lacks)
		}
		if !run {
			a.Note("nothing starts until you say so: %s; `--run` imports without that", still.Words())
		}
		return nil
	}
	return c
}

// Export is an open export that was read once, so that it can be laid out.
type Export struct {
	*os.File
	Name string
	// Import says what its log lacks.
	events.Import
	// From is where it begins, by its header; Made when the log took its first message.
	From uint64
	Made time.Time
	// Former is how many changes of definitions it has without their text: an early version wrote it.
	Former int
	// copied is the name of a temporary copy; "" for none.
	copied string
}

// OpenExport opens an export; "-" is in, which it copies to a temporary file. Whatever cannot be
// read refuses it.
func OpenExport(name string, in io.Reader) (x *Export, err error) {
	if name == "-" {
		x, err = copied(in)
	} else if file, wrong := os.Open(name); wrong != nil {
		return nil, &term.Fault{Code: term.ExitNotFound, Err: wrong, Hint: term.Hint("`millrace events export > FILE` writes an export")}
	} else {
		x = &Export{File: file, Name: filepath.Base(name)}
	}
	if err != nil {
		return nil, err
	}
	if err := x.check(); err != nil {
		x.Close()
		return nil, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("%s: %w", x.Name, err)}
	}
	return x, nil
}

func copied(in io.Reader) (*Export, error) {
	file, err := os.CreateTemp("", "millrace-import-")
	if err != nil {
		return nil, err
	}
	x := &Export{File: file, Name: "stdin", copied: file.Name()}
	if _, err := io.Copy(file, in); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// Close closes it.
func (x *Export) Close() {
	_ = x.File.Close()
	if x.copied != "" {
		_ = os.Remove(x.copied)
	}
}

// check reads all of it.
func (x *Export) check() error {
	header, err := x.begin()
	if err != nil {
		return err
	}
	x.From, x.Import = header.Header().From, header.Header().Import
	last, former := uint64(0), false
	for r, err := range x.all() {
		if err != nil {
			return err
		}
		if last == 0 {
			x.Made = r.Stored
		}
		last = r.Seq
		switch is := events.FormerOf(r.Place); is {
		case events.FormerDefinition:
			x.Former++
			former = true
		case events.FormerTimer:
			former = true
		}
	}
	if last == 0 {
		return errors.New("it has no messages")
	}
	if former {
		x.Lacks = last // its decisions cannot be made again
	}
	return nil
}

func (x *Export) begin() (*events.ExportReader, error) {
	if _, err := x.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return events.NewExportReader(x)
}

// Facts returns the records that a log has today.
func (x *Export) Facts() iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		for r, err := range x.all() {
			if events.FormerOf(r.Place) == 0 && !yield(r, err) {
				return
			}
		}
	}
}

func (x *Export) all() iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		in, err := x.begin()
		if err != nil {
			yield(events.Record{}, err)
			return
		}
		for {
			r, err := in.Next()
			if errors.Is(err, io.EOF) || !yield(r, err) || err != nil {
				return
			}
		}
	}
}
