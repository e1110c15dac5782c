package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/outputs"
	"millrace/history/incident"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
)

// Archive is millrace archive.
func (a *Commands) Archive() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "archive", Aliases: []string{"archives"},
		Short: "Archives: what the log has forgotten, in segments",
		Long: `Archives: what the log has forgotten, in segments.

An archive is a folder, or an object store of the NATS server (nats, or nats:BUCKET). Left out, it is
that of the setting "archive". Reading commands take it as --archive.`,
	})
	c.AddCommand(a.archiveList(), a.archiveVerify(), a.archiveExport(), a.archiveOpen(), a.archiveRemove())
	return c
}

// opened is an open archive.
type opened struct {
	incident.Place
	name   string
	client *client.Client // nil if no server was asked
}

func (o *opened) close() {
	if o.client != nil {
		o.client.Close()
	}
}

// archive opens the archive of a name, or of the setting. With log it also connects to the server, if one
// answers; an object store always needs it.
func (a *Commands) archive(ctx context.Context, name string, log bool) (*opened, error) {
	s, err := a.Settings()
	if err != nil {
		return nil, err
	}
	where := s.Archive
	if name != "" {
		if where, err = settings.ParseArchive(name); err != nil {
			return nil, term.MisuseOf(err)
		}
	}
	if where == "" {
		return nil, &term.Fault{Code: term.ExitUsage, Err: errors.New("no archive is named, and the setting archive is off"), Hint: term.Hint("name its folder, or nats")}
	}
	bucket, stored := settings.ArchiveBucket(where)
	o := &opened{Place: incident.Folder(where), name: cmp.Or(name, where)}
	if stored || log {
		o.client, err = a.Connect(ctx)
		t, bad := a.Target()
		if err != nil && !stored && bad == nil && !t.Chosen() && term.FaultOf(err).Code == term.ExitNoServer {
			return o, nil // the archive stands alone
		}
		if err != nil {
			return nil, err
		}
	}
	if stored {
		o.Place = &outputs.Segments{Link: o.client.Store().Link, Bucket: bucket}
	}
	return o, nil
}

// read reads an archive whole, with what the log has recorded of it. known tells that the log has: it is
// the one that the archive belongs to.
func (o *opened) read(ctx context.Context) (found *incident.Archive, known bool, err error) {
	var sealed []task.HorizonSealed
	if o.client != nil {
		facts, err := o.client.Store().AllOf(ctx, events.KindHorizon)
		if err != nil {
			return nil, false, err
		}
		for i := range facts {
			if is, ok := facts[i].Fact.Event.(task.HorizonSealed); ok {
				sealed = append(sealed, is)
			}
		}
	}
	found, err = incident.OpenArchive(ctx, o, sealed)
	if err != nil {
		return nil, false, missingPlace(err)
	}
	if len(found.Segments)+len(found.Faults) == 0 {
		return nil, false, &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("%s has no segments", o.name)}
	}
	known = slices.ContainsFunc(sealed, func(is task.HorizonSealed) bool {
		return slices.ContainsFunc(found.Segments, func(s incident.Sealed) bool { return s.Digest == is.Digest })
	})
	return found, known, nil
}

func missingPlace(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &term.Fault{Code: term.ExitNotFound, Err: err, Hint: term.Hint("a server with the setting archive makes it when its log forgets something for the first time")}
	}
	return err
}

// archiveCommand makes a command of an archive, which its last argument may name.
func (a *Commands) archiveCommand(c *cobra.Command, log bool, do func(context.Context, *opened) error) *cobra.Command {
	c.Args = settings.Takes(0, 1, "archive")
	c.RunE = func(c *cobra.Command, args []string) error {
		o, err := a.archive(c.Context(), strings.Join(args, ""), log)
		if err != nil {
			return err
		}
		defer o.close()
		return do(c.Context(), o)
	}
	return c
}

// shownSegment is a segment in JSON.
type shownSegment struct {
	Name  string `json:"name"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Before is later than all its messages were stored.
	Before time.Time `json:"before,omitzero"`
	Bytes  int64     `json:"bytes"`
	// Error says why the segment cannot be read.
	Error string `json:"error,omitempty"`
}

func (a *Commands) archiveList() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{Use: "ls [ARCHIVE]", Aliases: []string{"list"}, Short: "List the segments of an archive"}
	o.Flags(c)
	return a.archiveCommand(c, true, func(ctx context.Context, is *opened) error {
		found, err := incident.List(ctx, is)
		if err != nil {
			return missingPlace(err)
		}
		all := []shownSegment{}
		for _, s := range found {
			row := shownSegment{Name: s.Name, First: s.First, Last: s.Last, Before: s.Before, Bytes: s.Bytes}
			if s.Err != nil {
				row.Error = s.Err.Error()
			}
			all = append(all, row)
		}
		if o.JSON() {
			return a.WriteJSON(all)
		}
		t := term.List(all,
			term.Text("FROM", 0, func(s *shownSegment) string { return fmt.Sprintf("#%d", s.First) }),
			term.Text("TO", 0, func(s *shownSegment) string { return fmt.Sprintf("#%d", s.Last) }),
			term.Text("BEFORE", 0, func(s *shownSegment) string {
				return cmp.Or(term.Printable(s.Error), s.Before.Local().Format("2006-01-02 15:04:05"))
			}),
			term.Text("SIZE", 0, func(s *shownSegment) string { return wording.ByteCount(s.Bytes) }),
			term.Text("NAME", 0, func(s *shownSegment) string { return s.Name }))
		t.Foot = []string{wording.Plural(len(all), "segment")}
		notes, err := is.removed(ctx)
		for i := range notes {
			e := notes[i].Fact.Event.(task.ArchiveRemoved)
			t.Foot = append(t.Foot, fmt.Sprintf("%s: %s removed %s from %s: %s", notes[i].Stored.Local().Format("2006-01-02 15:04:05"), term.Printable(notes[i].Fact.Actor),
				wording.Plural(len(e.Segments)+e.More, "segment"), term.Printable(e.Archive), term.Cut(strings.Join(e.Segments, ", "), 400)))
		}
		return errors.Join(err, a.Print(t))
	})
}

// removed are the notes that the log has of segments that were removed, of any archive.
func (o *opened) removed(ctx context.Context) (notes []events.Record, err error) {
	if o.client == nil {
		return nil, nil
	}
	facts, err := o.client.Store().AllOf(ctx, events.KindHorizon)
	for i := range facts {
		if _, ok := facts[i].Fact.Event.(task.ArchiveRemoved); ok {
			notes = append(notes, facts[i])
		}
	}
	return notes, err
}

// noteRemoved records in the log of the server that segments are removed, before they go.
func (a *Commands) noteRemoved(ctx context.Context, o *opened, names []string) error {
	if o.client == nil {
		a.Note("no server answers, so the log has no note of this")
		return nil
	}
	return o.client.ArchiveRemoved(ctx, client.ArchiveNote{Archive: o.name, Segments: names})
}

// sayFaults prints what is wrong with an archive, and returns the exit code for that.
func (a *Commands) sayFaults(found *incident.Archive) error {
	for _, f := range found.Faults {
		a.Note("damaged: %s", faultText(f))
	}
	if len(found.Faults) > 0 {
		return term.ExitWith(damaged)
	}
	return nil
}

func faultText(f incident.Fault) string {
	return term.Printable(strings.TrimSpace(fmt.Sprintf("#%d to #%d: %s %s", f.First, f.Last, f.Segment, f.Why)))
}

func (a *Commands) archiveVerify() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "verify [ARCHIVE]", Aliases: []string{"check"}, Short: "Check that an archive is whole, and what the log has recorded",
		Long: `Reads every segment: each must be as it was sealed and continue the one before it, and its digest the one that the
log has recorded before it forgot that part. The log of the server is read, if one answers; what it has forgotten of
that itself is in later segments. "millrace verify --archive" also checks the promises over all of it.

Ends with 0, and with 3 if something is damaged or missing.`,
	}
	o.Flags(c)
	return a.archiveCommand(c, true, func(ctx context.Context, is *opened) error {
		found, _, err := is.read(ctx)
		if err != nil {
			return err
		}
		if o.JSON() {
			err = a.WriteJSON(proofOf(found))
		} else {
			_, err = fmt.Fprintf(a.Out, "%s: %s\n", term.Printable(is.name), proofOf(found))
			for _, s := range found.Spare {
				a.Note("%s covers what another segment covers: it is not needed", s.Name)
			}
		}
		return errors.Join(err, a.sayFaults(found))
	})
}

// proof is what is known of an archive, in JSON.
type proof struct {
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Segments int    `json:"segments"`
	// Recorded is how many of them are as the log, or another segment, has recorded them.
	Recorded int              `json:"recorded"`
	Messages uint64           `json:"messages"`
	Faults   []incident.Fault `json:"faults,omitempty"`
}

func proofOf(a *incident.Archive) *proof {
	p := &proof{Segments: len(a.Segments), Faults: a.Faults}
	p.First, p.Last, _ = a.Span()
	for i := range a.Segments {
		p.Messages += a.Segments[i].Messages
		if a.Segments[i].Recorded {
			p.Recorded++
		}
	}
	return p
}

func (p *proof) String() string {
	text := fmt.Sprintf("%s, #%d to #%d, %s", wording.Plural(p.Segments, "segment"), p.First, p.Last, wording.Plural(int(p.Messages), "message"))
	switch {
	case p.Recorded == p.Segments:
		text += "; all as the log has recorded them"
	default:
		text += fmt.Sprintf("; %d as the log has recorded them, and nothing is known of the digests of the others", p.Recorded)
	}
	if len(p.Faults) > 0 {
		text += "; " + wording.Plural(len(p.Faults), "part") + " damaged or missing"
	}
	return text
}

func (a *Commands) archiveExport() *cobra.Command {
	c := &cobra.Command{
		Use: "export [ARCHIVE]", Aliases: []string{"dump"}, Short: "Write the messages of an archive, or a range of them, as lines of JSON",
		Long: `Writes the messages of all segments to stdout, in the form of "millrace events export".
Ends with 3 if something is damaged or missing.`,
		Example: `  millrace archive export ./past --from 1000 --to 2000 > part.jsonl`,
	}
	var from, to uint64
	c.Flags().Uint64Var(&from, "from", 0, "begin at this `sequence`")
	c.Flags().Uint64Var(&to, "to", 0, "end at this `sequence`")
	return a.archiveCommand(c, false, func(ctx context.Context, is *opened) error {
		found, _, err := is.read(ctx)
		if err != nil {
			return err
		}
		first, last, _ := found.Span()
		header := events.ExportHeader{From: max(first, from), To: last}
		if to > 0 {
			header.To = min(to, last)
		}
		if n := len(found.Segments); n > 0 {
			header.Import = found.Segments[n-1].Import
		}
		w, err := events.NewExportWriter(a.Out, header)
		if err != nil {
			return err
		}
		for r, err := range found.Records(ctx) {
			if err != nil {
				return err
			}
			if r.Seq < header.From {
				continue
			}
			if r.Seq > header.To {
				break
			}
			if err := w.Write(&r); err != nil {
				return err
			}
		}
		return errors.Join(w.Flush(), a.sayFaults(found))
	})
}

func (a *Commands) archiveRemove() *cobra.Command {
	var where string
	older := settings.Span{Least: time.Second}
	var yes bool
	c := &cobra.Command{
		Use: "rm [SEGMENT...]", Aliases: []string{"remove", "delete"}, Short: "Remove segments of an archive for good",
		Long: `Removes segments by name, or with --older-than all whose messages are that old. What they held is gone for good:
the log has forgotten it. The log of the server, if one answers, has a note of who removed what (archive.removed), which
"archive ls" shows until the log forgets that, too, and a later segment has it. The log keeps the digests that it has recorded. Segments at the beginning of the archive may
be absent without being missed; one between others is missed by "millrace archive verify".`,
		Example: `  millrace archive rm --older-than 365d
  millrace archive rm --archive ./past 000000000001-000000204800-9f86d081884c7d65.jsonl.zst`,
	}
	c.Flags().StringVar(&where, "archive", "", "the `archive`: a folder, nats or nats:BUCKET (default that of the setting)")
	c.Flags().Var(&older, "older-than", "remove what the log had stored before this time")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		if older.Given == (len(args) > 0) {
			return term.Misuse(c, "name segments, or give --older-than")
		}
		is, err := a.archive(c.Context(), where, true)
		if err != nil {
			return err
		}
		defer is.close()
		there, err := is.List(c.Context())
		if err != nil {
			return missingPlace(err)
		}
		for _, name := range args {
			if _, found := there[name]; !found || !incident.IsSegment(name) {
				return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("%s has no segment %s", is.name, name)}
			}
		}
		if older.Given {
			all, err := incident.List(c.Context(), is)
			if err != nil {
				return err
			}
			for _, s := range all {
				if s.Err == nil && s.Before.Before(a.Now().Add(-older.D)) {
					args = append(args, s.Name)
				}
			}
		}
		if len(args) == 0 {
			a.Note("no segment is that old")
			return nil
		}
		if !yes {
			if err := a.Confirm(c, fmt.Sprintf("remove %s for good: %s?", wording.Plural(len(args), "segment"), term.Cut(strings.Join(args, ", "), 400))); err != nil {
				return err
			}
		}
		if err := a.noteRemoved(c.Context(), is, args); err != nil {
			return err
		}
		for _, name := range args {
			if err := is.Remove(c.Context(), name); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			fmt.Fprintln(a.Out, name)
		}
		return nil
	}
	return c
}
