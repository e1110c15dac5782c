package history

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// Command is millrace events.
func (a *Commands) Command() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "events", Aliases: []string{"event", "e"},
		Short: "Events: the log itself",
	})
	c.AddCommand(a.eventsTail(), a.Show(), a.eventsExport(), a.eventsImport())
	return c
}

// tailFlags are the flags of `millrace events tail`.
type tailFlags struct {
	settings.Output
	from     uint64
	types    []string
	task     string
	node     string
	last     uint64
	follow   bool
	noFollow bool
	probes   bool
}

func (a *Commands) eventsTail() *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use: "tail", Aliases: []string{"follow", "watch"},
		Short: "Print events as they happen",
		Long: `Prints the last events of the log and new ones, until Ctrl-C.
-o json prints a line of JSON for each, with the event as it was written.`,
		Example: `  millrace events tail
  millrace events tail --type attempt.failed --type task.abnormal
  millrace events tail --from 1 --no-follow -o json > log.jsonl`,
		Args: settings.Takes(0, 0, ""),
	}
	fs := c.Flags()
	fs.Uint64Var(&f.from, "from", 0, "begin at this `sequence`")
	fs.StringSliceVar(&f.types, "type", nil, "only events of this `type` (repeat it); \"task\", \"attempt\" and \"node\" stand for all types that begin so")
	fs.StringVar(&f.task, "task", "", "only events about the task with this `id`")
	fs.StringVar(&f.node, "node", "", "only events about or from this `node`")
	fs.Uint64VarP(&f.last, "last", "n", 10, "begin with the last so many events, a `number`, of those that are asked for")
	fs.Uint64Var(&f.last, "tail", 10, "the same as --last")
	fs.Lookup("tail").Hidden = true // its name in commands that print lines and records
	fs.BoolVarP(&f.follow, "follow", "f", true, "go on with new ones until Ctrl-C")
	fs.BoolVar(&f.noFollow, "no-follow", false, "the same as --follow=false: stop at the present end of the log")
	fs.BoolVar(&f.probes, "probes", false, "also the probes by which processes check that the log takes messages")
	f.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.noFollow && f.follow && c.Flags().Changed("follow") {
			return term.Misuse(c, "--follow and --no-follow are both given; choose one")
		}
		f.noFollow = f.noFollow || !f.follow
		if _, err := f.wanted(""); err != nil {
			return term.Misuse(c, "%w", err)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		var about task.ID
		if f.task != "" {
			if about, err = a.TaskID(c.Context(), cl, f.task); err != nil {
				return err
			}
		}
		wanted, err := f.wanted(about)
		if err != nil {
			return term.Misuse(c, "%w", err)
		}
		return connect.QuietEnd(c.Context(), a.tail(c.Context(), cl, &f, wanted))
	}
	return c
}

// wanted returns the test of the flags for messages; about is the task of --task.
func (f *tailFlags) wanted(about task.ID) (func(*events.Record) bool, error) {
	if f.task != "" {
		if err := connect.PlausibleID(f.task); err != nil {
			return nil, fmt.Errorf("--task: %w", err)
		}
	}
	filter := view.FactFilter{Types: f.types, Task: about, Node: f.node}
	if err := filter.Validate(); err != nil {
		return nil, err
	}
	return func(r *events.Record) bool {
		is := view.TraitsOf(r, "")
		return (r.IsFact() || f.probes) && filter.Wants(&is)
	}, nil
}

func (a *Commands) tail(ctx context.Context, c *client.Client, f *tailFlags, wanted func(*events.Record) bool) error {
	asking, cancel := a.Asking(ctx)
	end, err := c.Last(asking)
	cancel()
	if err != nil {
		return err
	}
	from := f.from
	if from == 0 {
		if from, err = a.before(ctx, c, end, int(min(f.last, lookBack)), wanted); err != nil {
			return err
		}
	}
	if f.noFollow && from > end {
		return nil
	}
	feed, err := c.Follow(ctx, from)
	if err != nil {
		return err
	}
	defer feed.Close()
	for {
		records, err := connect.NextRecords(ctx, feed, f.noFollow)
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
				if err := a.printEvent(r, f.JSON()); err != nil {
					return err
				}
			}
			if f.noFollow && r.Seq == end {
				return nil
			}
		}
	}
}

// lookBack is how many messages before the end of the log are looked at for the last facts of a kind.
const lookBack = 100_000

// before returns the sequence from which on the log has n wanted messages up to its end, or fewer if
// there are no more among the last messages that it looks at.
func (a *Commands) before(ctx context.Context, c *client.Client, end uint64, n int, wanted func(*events.Record) bool) (uint64, error) {
	from, found := end+1, 0
	for size := uint64(256); found < n && from > 1 && end+1-from < lookBack; size *= 4 {
		to := from - 1
		from -= min(size, to)
		feed, err := c.Follow(ctx, from)
		if err != nil {
			return 0, err
		}
		var are []uint64
		for seq := from - 1; seq < to; {
			records, err := connect.NextRecords(ctx, feed, true)
			if err != nil || len(records) == 0 {
				feed.Close()
				return from, err
			}
			for i := range records {
				if seq = records[i].Seq; seq <= to && wanted(&records[i]) {
					are = append(are, seq)
				}
			}
		}
		feed.Close()
		if more := n - found; len(are) > more {
			return are[len(are)-more], nil
		}
		found += len(are)
	}
	if found < n && from > 1 {
		a.Note("only the last %d messages of the log were looked at; --from begins earlier", end+1-from)
	}
	return from, nil
}

// printEvent prints one line; its columns have fixed widths, for later lines are unknown.
func (a *Commands) printEvent(r *events.Record, asJSON bool) error {
	if asJSON {
		return a.WriteLine(client.ShowFact(r))
	}
	colours := term.Colourful(a.Out)
	kind := wording.TypeCell(r)
	kind.Text = fmt.Sprintf("%-21s", kind.Text)
	_, err := fmt.Fprintf(a.Out, "%7d  %s  %s  %-8s  %s\n", r.Seq, wording.FactTime(r).Local().Format("15:04:05.000"),
		term.Paint(kind, colours), shortAbout(&r.Fact), term.Printable(wording.Words(wording.AttemptAndNode(r), wording.FactDetails(r))))
	return err
}

// shortAbout is what a fact is about; for a task the end of its id.
func shortAbout(f *events.Fact) string {
	if f.Task != "" {
		return f.Task.Short()
	}
	return f.About()
}

// Show is millrace events show.
func (a *Commands) Show() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "show SEQ", Aliases: []string{"view", "info"},
		Short: "Print one message of the log",
		Args:  settings.Takes(1, 1, "sequence"), ValidArgsFunction: a.CompleteFacts,
	}
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		seq, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil || seq == 0 {
			return term.Misuse(c, "%q is no sequence: want a number from 1 on", args[0])
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		r, err := a.At(c.Context(), cl, seq)
		if err != nil {
			return err
		}
		if o.JSON() {
			return a.WriteJSON(client.ShowFact(&r))
		}
		t := term.Table{Title: fmt.Sprintf("Message %d", r.Seq)}
		t.Field("type", wording.FactType(&r))
		t.Field("about", r.Fact.About())
		t.Field("time", wording.FactTime(&r).Local().Format("2006-01-02 15:04:05.000000"))
		t.Field("stored", r.Stored.Local().Format("2006-01-02 15:04:05.000000"))
		t.Field("by", wording.Actor(&r))
		t.Field("subject", r.Place)
		t.Field("says", wording.Words(wording.AttemptAndNode(&r), wording.FactDetails(&r)))
		if r.Unreadable() != "" {
			asking, cancel := a.Asking(c.Context())
			defer cancel()
			by, found, err := cl.Dismissal(asking, seq)
			if err != nil {
				return err
			}
			if found {
				t.Field("dismissed", wording.Words("by "+wording.Actor(&by)+" at "+wording.Clock(wording.FactTime(&by)), wording.FactDetails(&by)))
			}
		}
		t.Field("body", string(r.Raw))
		return a.Print(t)
	}
	return c
}

// At reads one message of the log.
func (a *Commands) At(ctx context.Context, c *client.Client, seq uint64) (events.Record, error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	end, err := c.Last(asking)
	if err != nil {
		return events.Record{}, err
	}
	missing := &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("no message in the log has the sequence %d; the last one is %d", seq, end)}
	if seq > end {
		return events.Record{}, missing
	}
	feed, err := c.Follow(asking, seq)
	if err != nil {
		return events.Record{}, err
	}
	defer feed.Close()
	records, err := connect.NextRecords(asking, feed, true)
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
