package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"

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
	c.RunE = a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		asking, cancel := a.asking(ctx)
		t, err := cl.Task(asking, id)
		cancel()
		if err != nil {
			return err
		}
		out := bufio.NewWriter(a.out)
		lines := *a
		lines.out = out
		left := 0
		err = cl.Records(ctx, id, func(b task.Records) error {
			if !all && b.Epoch != t.Epoch {
				left += len(b.Items)
				return nil
			}
			for i, item := range b.Items {
				var v any = item
				if o.json() {
					v = shownItem{b.Attempt, b.Epoch, b.First + i, item}
				}
				if err := lines.writeLine(v); err != nil {
					return err
				}
			}
			return nil
		})
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
		if left > 0 && err == nil {
			a.note("%s of other attempts left out; --all prints them, too", plural(left, "record"))
		}
		if err != nil {
			return fmt.Errorf("records of task %s: %w", id, err)
		}
		return nil
	})
	return c
}
