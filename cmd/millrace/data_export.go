package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/cmd/millrace/export"
	"millrace/task"
)

func (a *app) dataExport() *cobra.Command {
	var to string
	var all, resume bool
	format := choice{of: []string{"jsonl", "csv"}}
	c := &cobra.Command{
		Use: "export ID", Short: "Write the records of a task to a file, as lines of JSON or as CSV",
		Long: `Writes the records of the current or last attempt of a task, each once and in order.
In CSV each field of the records is a column; what is no text or number stands as JSON.
With --all-epochs each record is put into an object that names its attempt, epoch and number.

--resume goes on with a file that was written partly, after its last complete record;
it looks whether that is the one that the task has produced.`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	fs := c.Flags()
	fs.StringVar(&to, "to", "-", "the `file` to write, - for stdout")
	fs.Var(&format, "format", "jsonl or csv (default: what the file's name ends with, else jsonl)")
	fs.BoolVar(&resume, "resume", false, "go on with a file that was written partly")
	allEpochs(c, &all)
	run := a.withRecords(func(ctx context.Context, cl *client.Client, t *task.Task) (err error) {
		p := a.progress()
		defer p.stop()
		// The records in order, once for each call.
		records := func(each func(record []byte) error) error {
			return a.eachRecord(ctx, cl, t, func(r shownItem, counts bool) error {
				switch {
				case all:
					whole, err := r.withOrigin()
					if err != nil {
						return err
					}
					return each(whole)
				case counts:
					return each(r.Item)
				}
				return nil
			})
		}
		kind := export.JSONL
		if format.value == "csv" || format.value == "" && strings.EqualFold(filepath.Ext(to), ".csv") {
			kind = export.CSV
		}
		tell := func(n int) { p.more(fmt.Sprintf("%s exported", plural(n, "record"))) }
		if to == "-" {
			_, err := export.Write(a.out, kind, records, tell)
			return err
		}
		flags := os.O_RDWR | os.O_CREATE
		if !resume {
			flags |= os.O_EXCL
		}
		f, err := os.OpenFile(to, flags, 0o666) // #nosec G302 G304 -- the user's file, with the user's mask
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%s exists: add --resume to go on with it, or remove it", to)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		n, err := export.Resume(f, kind, records, tell)
		if err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		p.stop()
		a.note("%s in %s", plural(n, "record"), to)
		return nil
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if resume && to == "-" {
			return misuse(c, "--resume needs a file: add --to FILE")
		}
		return run(c, args)
	}
	return c
}
