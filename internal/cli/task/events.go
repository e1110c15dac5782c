package task

import (
	"context"
	"fmt"
	"slices"
	"time"

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

func (a *Commands) taskEvents() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "events ID", Aliases: []string{"history", "timeline"},
		Short: "Print the events about a task, from its birth on",
		Long: `Prints the events about a task in the log: its birth, its offers and
every transition. "+" is the time since the event before. The last lines name attempts whose output
may be incomplete, because their worker was lost. -o json prints the events as they were written.`,
		Args: settings.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	o.Flags(c)
	c.RunE = a.withFacts(c, func(ctx context.Context, cl *client.Client, s *connect.Sight, id task.ID, records []events.Record) error {
		if o.JSON() {
			a.NoteMoment(s)
			return a.WriteJSON(client.ShowFacts(records))
		}
		t := History(records)
		if s.Past != nil {
			s.Mark(&t, a.Now())
			return a.Print(t)
		}
		if found := wording.Tries(records); slices.ContainsFunc(found, func(k task.Try) bool { return k.Unheard() }) {
			logs, err := cl.OutputRanges(ctx, id)
			if err != nil {
				return err
			}
			t.Foot = wording.Unheard(found, func(epoch uint64) int { return logs[epoch].Lines })
		}
		return a.Print(t)
	})
	return c
}

// withFacts makes the RunE of a command about what the log says of a task, now or with --at at a moment.
func (a *Commands) withFacts(c *cobra.Command, do func(context.Context, *client.Client, *connect.Sight, task.ID, []events.Record) error) func(*cobra.Command, []string) error {
	sight := a.AtFlag(c, connect.Then{Lacks: []string{"output"}})
	return a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		asking, cancel := a.Asking(ctx)
		defer cancel()
		records, err := view.All(asking, s.View, view.Task(id))
		if err != nil {
			return s.Unknown(err)
		}
		return do(asking, cl, &s, id, records)
	})
}

// History lays out the history of a task.
func History(records []events.Record) term.Table {
	t := term.Table{Header: []string{"SEQ", "TIME", "+", "TYPE", "TRY", "NODE", "BY", "DETAILS"}, Spare: []string{"BY", "SEQ", "+", "TRY"}}
	var before time.Time
	for i := range records {
		r := &records[i]
		at, since := wording.FactTime(r), ""
		if !before.IsZero() {
			since = wording.Span(at.Sub(before))
		}
		before = at
		t.Add(term.Plain(fmt.Sprint(r.Seq)), term.Plain(at.Local().Format("2006-01-02 15:04:05.000")), term.Dim(since), wording.TypeCell(r),
			term.Plain(wording.FactAttempt(r)), term.Plain(view.FactNode(r)), term.Plain(wording.Actor(r)), term.Plain(wording.FactDetails(r)))
	}
	return t
}
