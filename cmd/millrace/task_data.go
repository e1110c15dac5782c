package main

import (
	"bufio"
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
)

// shownItem is a record that a task has produced, with where it comes from.
type shownItem struct {
	Attempt int             `json:"attempt"`
	Epoch   uint64          `json:"epoch"`
	N       int             `json:"n"`
	Item    json.RawMessage `json:"item"`
}

func (a *app) taskData() *cobra.Command {
	var o output
	var all bool
	c := &cobra.Command{
		Use: "data ID", Aliases: []string{"records", "results"},
		Short: "Print the records that a task has produced, one JSON value a line",
		Long: `Prints the records that the current or last attempt of a task has produced, one JSON
value a line; with --all also those of attempts that failed or lost the task.
-o json puts each record into an object that names its attempt.`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	c.Flags().BoolVar(&all, "all", false, "of all attempts")
	o.flags(c, "jsonl", "json")
	c.AddCommand(a.dataCommands()...)
	c.RunE = a.withRecords(func(ctx context.Context, cl *client.Client, t *task.Task) error {
		out := bufio.NewWriter(a.out)
		lines := *a
		lines.out = out
		left := 0
		err := a.eachRecord(ctx, cl, t, func(r shownItem, counts bool) error {
			if !all && !counts {
				left++
				return nil
			}
			var v any = r.Item
			if o.json() {
				v = r
			}
			return lines.writeLine(v)
		})
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
		if left > 0 && err == nil {
			a.note("%s of other attempts left out; --all prints them, too", plural(left, "record"))
		}
		return err
	})
	return c
}
