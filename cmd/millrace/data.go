package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
)

// dataCommand is `millrace data`: the commands that also lie below `task data`.
func (a *app) dataCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "data", Aliases: []string{"records"},
		Short: "Records that tasks have produced: count, print and export them",
		Example: `  millrace data ls ID
  millrace data tail ID -n 5
  millrace data export ID --to pages.csv
  millrace data export ID --to pages.jsonl --resume`,
	})
	c.AddCommand(a.dataCommands()...)
	return c
}

func (a *app) dataCommands() []*cobra.Command {
	return []*cobra.Command{a.dataList(), a.dataTail(), a.dataExport()}
}

// eachRecord says how many records were dropped, and calls each with every record of a task once, in order, and tells whether it is
// of the current or last attempt. n counts the records of each epoch from 0.
func (a *app) eachRecord(ctx context.Context, c *client.Client, t *task.Task, each func(shownItem, bool) error) error {
	next := map[uint64]int{} // by epoch: a batch may be there twice
	err := c.Records(ctx, t.ID, func(b task.Records) error {
		a.noteDropped(&b)
		for i, item := range b.Items {
			n := b.First + i
			if n < next[b.Epoch] {
				continue
			}
			next[b.Epoch] = n + 1
			if err := each(shownItem{b.Attempt, b.Epoch, n, item}, b.Epoch == t.Epoch); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("records of task %s: %w", t.ID, err)
	}
	return nil
}

// noteDropped says how many records were dropped in place of which a batch stands.
func (a *app) noteDropped(b *task.Records) {
	if b.Dropped > 0 {
		a.note("%s dropped: %s", plural(b.Dropped, "record"), b.Reason)
	}
}

// withRecords makes the RunE of a command about the records of a task.
func (a *app) withRecords(do func(ctx context.Context, c *client.Client, t *task.Task) error) func(*cobra.Command, []string) error {
	return a.withTask(func(ctx context.Context, c *client.Client, id task.ID) error {
		asking, cancel := a.asking(ctx)
		t, err := c.Task(asking, id)
		cancel()
		if err != nil {
			return err
		}
		return do(ctx, c, &t)
	})
}

// dataSum is what an attempt has produced.
type dataSum struct {
	Attempt int    `json:"attempt"`
	Epoch   uint64 `json:"epoch"`
	Records int    `json:"records"`
	// Bytes is what they take in the store.
	Bytes int64 `json:"bytes"`
	// Counts is whether they are of the current or last attempt, which are those that count.
	Counts bool `json:"counts"`
}

func (a *app) dataList() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "ls ID", Aliases: []string{"list"},
		Short: "Count the records of each attempt of a task",
		Args:  takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	o.flags(c)
	c.RunE = a.withRecords(func(ctx context.Context, cl *client.Client, t *task.Task) error {
		found, dropped, err := cl.RecordSums(ctx, t.ID)
		if err != nil {
			return fmt.Errorf("records of task %s: %w", t.ID, err)
		}
		a.noteDropped(&dropped)
		sums := make([]dataSum, len(found))
		for i, f := range found {
			sums[i] = dataSum{f.Attempt, f.Epoch, f.Records, f.Bytes, f.Epoch == t.Epoch}
		}
		if o.json() {
			return a.writeJSON(sums)
		}
		table := table{header: []string{"ATTEMPT", "EPOCH", "RECORDS", "SIZE", "COUNTS"}}
		for _, s := range sums {
			counts := plain("yes")
			if !s.Counts {
				counts = dim("no: of an attempt that failed or lost the task")
			}
			table.add(plain(strconv.Itoa(s.Attempt)), plain(strconv.FormatUint(s.Epoch, 10)), plain(strconv.Itoa(s.Records)), plain(task.Size(s.Bytes).String()), counts)
		}
		return a.print(table)
	})
	return c
}

func (a *app) dataTail() *cobra.Command {
	var o output
	var most int
	var all bool
	c := &cobra.Command{
		Use: "tail ID", Short: "Print the last records of a task",
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	c.Flags().IntVarP(&most, "tail", "n", 10, "how many, a `number`")
	allEpochs(c, &all)
	o.flags(c, "jsonl", "json")
	c.RunE = a.withRecords(func(ctx context.Context, cl *client.Client, t *task.Task) error {
		var last []shownItem       // the latest first
		lowest := map[uint64]int{} // by epoch: a batch may be there twice
		err := cl.RecordsBack(ctx, t.ID, func(b task.Records) bool {
			a.noteDropped(&b)
			if !all && b.Epoch != t.Epoch {
				return len(last) < most
			}
			for i := len(b.Items) - 1; i >= 0 && len(last) < most; i-- {
				n := b.First + i
				if low, known := lowest[b.Epoch]; known && n >= low {
					continue
				}
				lowest[b.Epoch] = n
				last = append(last, shownItem{b.Attempt, b.Epoch, n, b.Items[i]})
			}
			return len(last) < most
		})
		if err != nil {
			return fmt.Errorf("records of task %s: %w", t.ID, err)
		}
		for _, r := range slices.Backward(last) {
			var v any = r.Item
			if o.json() {
				v = r
			}
			if err := a.writeLine(v); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

func allEpochs(c *cobra.Command, all *bool) {
	c.Flags().BoolVar(all, "all-epochs", false, "also of attempts that failed or lost the task")
}

// withOrigin is a record with where it comes from, as an export of all epochs has it.
func (r *shownItem) withOrigin() (json.RawMessage, error) { return json.Marshal(r) }
