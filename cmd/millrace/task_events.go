package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/task"
)

func (a *app) taskEvents() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "events ID", Aliases: []string{"history", "timeline"},
		Short: "Print the facts about a task, from its birth on",
		Long: `Prints the facts about a task as they stand in the log: its birth, its offers and
every transition. "+" is the time since the fact before. Below stands which attempts may have printed more than was
stored, because their worker was lost. -o json prints the facts as they were written.`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	o.flags(c)
	c.RunE = a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		asking, cancel := a.asking(ctx)
		defer cancel()
		records, err := cl.History(asking, id)
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(showFacts(records))
		}
		t := historyTable(records)
		if found := tries(records); slices.ContainsFunc(found, func(k task.Try) bool { return k.Unheard() }) {
			logs, err := cl.OutputRanges(asking, id)
			if err != nil {
				return err
			}
			t.foot = unheard(found, func(epoch uint64) int { return logs[epoch].Lines })
		}
		return a.print(t)
	})
	return c
}

// historyTable lays the history of a task out.
func historyTable(records []events.Record) table {
	t := table{header: []string{"SEQ", "TIME", "+", "TYPE", "TRY", "NODE", "BY", "DETAILS"}, spare: []string{"BY", "SEQ", "+", "TRY"}}
	var before time.Time
	for i := range records {
		r := &records[i]
		at, since := factTime(r), ""
		if !before.IsZero() {
			since = span(at.Sub(before))
		}
		before = at
		t.add(plain(fmt.Sprint(r.Seq)), plain(at.Local().Format("2006-01-02 15:04:05.000")), dim(since), typeCell(r),
			plain(factAttempt(r)), plain(factNode(r)), plain(actor(r)), plain(factDetails(r)))
	}
	return t
}

func typeCell(r *events.Record) cell {
	text := factType(r)
	if r.Err != nil {
		return cell{text, red}
	}
	return cell{text, map[events.Type]colour{
		events.AttemptStarted: blue, events.AttemptFinished: green, events.AttemptFailed: red, events.AttemptLost: purple,
		events.AttemptLate: purple, events.TaskAbnormal: purple, events.TaskCancelRequested: yellow, events.TaskCancelled: yellow,
		events.NodeOnline: green, events.NodeOffline: red, events.NodeDraining: yellow,
	}[r.Fact.Type]}
}
