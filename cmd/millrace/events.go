package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/node"
	"millrace/task"
)

func (a *app) eventsCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "events", Aliases: []string{"event", "e"},
		Short: "Events: the log itself",
	})
	c.AddCommand(a.eventsTail(), a.eventsShow(), a.eventsExport())
	return c
}

// tailFlags are what `millrace events tail` was told.
type tailFlags struct {
	output
	from     uint64
	types    []string
	task     string
	node     string
	last     uint64
	follow   bool
	noFollow bool
	probes   bool
}

func (a *app) eventsTail() *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use: "tail", Aliases: []string{"follow", "watch"},
		Short: "Print facts as they happen",
		Long: `Prints the last facts of the log and those to come, until Ctrl-C.
-o json prints a line of JSON for each, with the fact as it was written.`,
		Example: `  millrace events tail
  millrace events tail --type attempt.failed --type task.abnormal
  millrace events tail --from 1 --no-follow -o json > log.jsonl`,
		Args: takes(0, 0, ""),
	}
	fs := c.Flags()
	fs.Uint64Var(&f.from, "from", 0, "begin at this `sequence`")
	fs.StringSliceVar(&f.types, "type", nil, "only facts of this `type` (repeat it); \"task\", \"attempt\" and \"node\" stand for all that begin so")
	fs.StringVar(&f.task, "task", "", "only facts about the task with this `id`")
	fs.StringVar(&f.node, "node", "", "only facts about or from this `node`")
	fs.Uint64VarP(&f.last, "last", "n", 10, "begin so many messages before the end of the log")
	fs.Uint64Var(&f.last, "tail", 10, "the same as --last")
	fs.Lookup("tail").Hidden = true // what it is called where lines and records are printed
	fs.BoolVarP(&f.follow, "follow", "f", true, "go on until Ctrl-C with those to come")
	fs.BoolVar(&f.noFollow, "no-follow", false, "the same as --follow=false: stop at what is the end of the log now")
	fs.BoolVar(&f.probes, "probes", false, "also the messages by which processes see that the log takes them")
	f.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.noFollow && f.follow && c.Flags().Changed("follow") {
			return misuse(c, "--follow and --no-follow are both given; choose one")
		}
		f.noFollow = f.noFollow || !f.follow
		if _, err := f.wanted(""); err != nil {
			return misuse(c, "%w", err)
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		var about task.ID
		if f.task != "" {
			if about, err = a.taskID(c.Context(), cl, f.task); err != nil {
				return err
			}
		}
		wanted, err := f.wanted(about)
		if err != nil {
			return misuse(c, "%w", err)
		}
		return quietEnd(c.Context(), a.tail(c.Context(), cl, &f, wanted))
	}
	return c
}

// wanted returns the test that the flags make of a message; about is the task that --task means.
func (f *tailFlags) wanted(about task.ID) (func(*events.Record) bool, error) {
	if f.task != "" {
		if err := plausibleID(f.task); err != nil {
			return nil, fmt.Errorf("--task: %w", err)
		}
	}
	if f.node != "" {
		if err := node.ID(f.node).Validate(); err != nil {
			return nil, fmt.Errorf("--node: %w", err)
		}
	}
	for _, t := range f.types {
		if !slices.ContainsFunc(events.Types, func(known events.Type) bool { return matches(t, string(known)) }) {
			return nil, fmt.Errorf("--type: there is no type %q; there are %s", t, strings.Join(typeNames(), ", "))
		}
	}
	return func(r *events.Record) bool {
		switch {
		case !r.IsFact() && !f.probes:
			return false
		case about != "" && r.Fact.Task != about:
			return false
		case f.node != "" && factNode(r) != f.node && r.Fact.Actor != f.node:
			return false
		}
		return len(f.types) == 0 || slices.ContainsFunc(f.types, func(t string) bool { return matches(t, string(r.Fact.Type)) })
	}, nil
}

func typeNames() []string {
	names := make([]string, len(events.Types))
	for i, t := range events.Types {
		names[i] = string(t)
	}
	return names
}

// matches tells whether a type is the one that was asked for, or of that kind.
func matches(asked, t string) bool { return asked == t || strings.HasPrefix(t, asked+".") }

func (a *app) tail(ctx context.Context, c *client.Client, f *tailFlags, wanted func(*events.Record) bool) error {
	asking, cancel := a.asking(ctx)
	end, err := c.Last(asking)
	cancel()
	if err != nil {
		return err
	}
	from := f.from
	if from == 0 {
		from = end + 1 - min(f.last, end)
	}
	if f.noFollow && from > end {
		return nil
	}
	feed, err := c.Store().Follow(ctx, from)
	if err != nil {
		return err
	}
	defer feed.Close()
	for {
		records, err := nextRecords(ctx, feed, f.noFollow)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return nil
		}
		for i := range records {
			r := &records[i]
			if f.noFollow && r.Seq > end {
				return nil
			}
			if wanted(r) {
				if err := a.printEvent(r, f.json()); err != nil {
					return err
				}
			}
			if f.noFollow && r.Seq == end {
				return nil
			}
		}
	}
}

// quiet is how long a feed that should have a message in store may say nothing:
// the last messages of the log may be timers that are gone, so that its last
// sequence never comes.
const quiet = 2 * time.Second

// nextRecords waits for the next records of a feed; with bounded only for so
// long, and none means that there are no more.
func nextRecords(ctx context.Context, feed events.Feed, bounded bool) ([]events.Record, error) {
	if !bounded {
		return feed.Next(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	records, err := feed.Next(waiting)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, nil
	}
	return records, err
}

// printEvent prints one line; the columns have fixed widths, for what comes is not known.
func (a *app) printEvent(r *events.Record, asJSON bool) error {
	if asJSON {
		return a.writeLine(showFact(r))
	}
	colours := colourful(a.out)
	kind := typeCell(r)
	kind.text = fmt.Sprintf("%-21s", kind.text)
	_, err := fmt.Fprintf(a.out, "%7d  %s  %s  %-8s  %s\n", r.Seq, factTime(r).Local().Format("15:04:05.000"),
		paint(kind, colours), shortAbout(&r.Fact), printable(words(attemptAndNode(r), factDetails(r))))
	return err
}

// shortAbout is what a fact is about; of a task the end of its id.
func shortAbout(f *events.Fact) string {
	if f.Task != "" {
		return f.Task.Short()
	}
	return f.About()
}

func attemptAndNode(r *events.Record) string {
	var parts []string
	if n := factAttempt(r); n != "" {
		parts = append(parts, "attempt "+n)
	}
	if n := factNode(r); n != "" && r.Fact.Task != "" {
		parts = append(parts, "on "+n)
	}
	return strings.Join(parts, " ")
}

func (a *app) eventsShow() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "show SEQ", Aliases: []string{"view", "info"},
		Short: "Print one message of the log",
		Args:  takes(1, 1, "sequence"), ValidArgsFunction: a.completeFacts,
	}
	o.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		seq, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil || seq == 0 {
			return misuse(c, "%q is no sequence: want a number from 1 on", args[0])
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		r, err := a.eventAt(c.Context(), cl, seq)
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(showFact(&r))
		}
		t := table{title: fmt.Sprintf("Message %d", r.Seq)}
		t.field("type", factType(&r))
		t.field("about", r.Fact.About())
		t.field("time", factTime(&r).Local().Format("2006-01-02 15:04:05.000000"))
		t.field("stored", r.Stored.Local().Format("2006-01-02 15:04:05.000000"))
		t.field("by", actor(&r))
		t.field("subject", r.Place)
		t.field("says", words(attemptAndNode(&r), factDetails(&r)))
		if r.Unreadable() != "" {
			asking, cancel := a.asking(c.Context())
			defer cancel()
			by, found, err := cl.Dismissal(asking, seq)
			if err != nil {
				return err
			}
			if found {
				t.field("dismissed", words("by "+actor(&by)+" at "+clock(factTime(&by)), factDetails(&by)))
			}
		}
		t.field("body", string(r.Raw))
		return a.print(t)
	}
	return c
}

// eventAt reads one message of the log.
func (a *app) eventAt(ctx context.Context, c *client.Client, seq uint64) (events.Record, error) {
	asking, cancel := a.asking(ctx)
	defer cancel()
	end, err := c.Last(asking)
	if err != nil {
		return events.Record{}, err
	}
	missing := &fault{code: exitNotFound, err: fmt.Errorf("no message in the log has the sequence %d; the last one is %d", seq, end)}
	if seq > end {
		return events.Record{}, missing
	}
	feed, err := c.Store().Follow(asking, seq)
	if err != nil {
		return events.Record{}, err
	}
	defer feed.Close()
	records, err := nextRecords(asking, feed, true)
	switch {
	case ctx.Err() != nil:
		return events.Record{}, ctx.Err()
	case err != nil:
		return events.Record{}, err
	case len(records) == 0 || records[0].Seq != seq:
		return events.Record{}, missing
	}
	return records[0], nil
}
