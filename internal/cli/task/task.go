package task

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
)

// shownItem is a record with its origin.
type shownItem struct {
	Task task.ID `json:"task"`
	// Step is its step of the whole; "" for a single task.
	Step    string          `json:"step,omitempty"`
	Attempt int             `json:"attempt"`
	Epoch   uint64          `json:"epoch"`
	N       int             `json:"n"`
	Item    json.RawMessage `json:"item"`
}

// Fields that a record of several tasks has before its own.
const (
	fieldTask = "_task"
	fieldStep = "_step"
)

// line returns the record as it was produced; with several, the task and step come before its own
// fields. A record that is not an object then is "value".
func (r *shownItem) line(several bool) (json.RawMessage, error) {
	if !several {
		return r.Item, nil
	}
	head, err := json.Marshal(struct {
		Task task.ID `json:"_task"`
		Step string  `json:"_step"`
	}{r.Task, r.Step})
	if err != nil {
		return nil, err
	}
	own := bytes.TrimSpace(r.Item)
	if len(own) == 0 || own[0] != '{' {
		own = slices.Concat([]byte(`{"value":`), own, []byte{'}'})
	}
	if own = bytes.TrimSpace(own[1:]); own[0] == '}' {
		return append(head[:len(head)-1], own...), nil
	}
	return slices.Concat(head[:len(head)-1], []byte{','}, own), nil
}

// OfTask is millrace task data.
func (a *Commands) OfTask() *cobra.Command {
	var o settings.Output
	var all bool
	c := &cobra.Command{
		Use: "data ID | --job NAME | --schedule NAME", Aliases: []string{"records", "results"},
		Short: "Print the records that a task has produced, one JSON value a line",
		Long: `Prints the records that the current or last attempt of a task has produced, one JSON
value a line; for a task with steps or other children the records of all of them, each beginning with the
fields _task and _step. With --all also records of attempts that failed or lost the task.
-o json puts each record into an object that names its attempt.`,
		Args: settings.Takes(0, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
		DisableFlagsInUseLine: true,
	}
	var latest connect.Latest
	latest.Flags(a.App, c)
	c.Flags().BoolVar(&all, "all", false, "of all attempts")
	o.Flags(c, "jsonl", "json")
	c.AddCommand(a.dataCommands()...)
	c.RunE = a.withRecords(&latest, func(ctx context.Context, cl *client.Client, records *recordsOf) error {
		out := bufio.NewWriter(a.Out)
		lines := Commands{a.Printing(out, a.Errs)}
		left, shown := 0, 0
		err := a.eachRecord(ctx, cl, records, func(r shownItem, counts bool) error {
			if !all && !counts {
				left++
				return nil
			}
			shown++
			return lines.showRecord(r, records.several, o.JSON())
		})
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
		if left > 0 && err == nil {
			a.Note("%s of other attempts left out; --all prints them, too", wording.Plural(left, "record"))
		} else if shown == 0 && err == nil {
			a.noteNone(records, 0)
		}
		return err
	})
	return c
}
