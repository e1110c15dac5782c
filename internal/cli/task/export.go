package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task/value"
)

func (a *Commands) dataExport() *cobra.Command {
	var to string
	var f ListFlags // for its times
	var jobs connect.Latest
	var all, resume bool
	format := settings.Choice{Of: []string{"jsonl", "csv", "json"}}
	c := &cobra.Command{
		Use: "export ID | --job NAME | --schedule NAME", Short: "Write the records of a task, or of all tasks of a job, to a file",
		Long: `Writes the records of the current or last attempt of a task, each once and in order, as lines of JSON, as an
array of JSON, or as CSV. For a task with steps or other children it writes the records of all of them, for
--job or --schedule those of all its tasks; then each record begins with the fields _task and _step. In CSV each
field of the records is a column; a value that is no text or number is JSON. A CSV without records has
the columns of records of other attempts. With --all-epochs it puts each record into an object
that names its task, step, attempt, epoch and number.

--resume continues an incomplete file after its last complete record. It first checks
that this is a record of the task.`,
		Example: `  millrace data export ID --to pages.csv
  millrace data export --job crawl --since 7d --to week.csv`,
		Args: settings.Takes(0, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
		DisableFlagsInUseLine: true,
	}
	fs := c.Flags()
	fs.StringVar(&to, "to", "-", "the `file` to write, - for stdout")
	fs.Var(&format, "format", "jsonl, csv or json (default: what the file's name ends with, else jsonl)")
	fs.BoolVar(&resume, "resume", false, "continue an incomplete file")
	fs.StringVar(&jobs.Job, "job", "", "of all tasks of this job")
	fs.StringVar(&jobs.Schedule, "schedule", "", "of all tasks of this schedule")
	fs.String("since", "", "of tasks submitted since a `time`, with --job or --schedule")
	fs.String("until", "", "of tasks submitted until a `time`, with --job or --schedule")
	allEpochs(c, &all)
	c.RunE = func(c *cobra.Command, args []string) error {
		kind := term.KindOf(format.Value, to)
		switch {
		case resume && to == "-":
			return term.Misuse(c, "--resume needs a file: add --to FILE")
		case resume && kind == term.JSON:
			return term.Misuse(c, "an array cannot be resumed: choose --format jsonl or csv")
		case jobs.Given() == (len(args) > 0):
			return term.Misuse(c, "name a task, or say --job NAME or --schedule NAME")
		}
		write := func(ctx context.Context, cl *client.Client, r *recordsOf) error {
			return a.export(ctx, cl, r, &exporting{to: to, kind: kind, all: all, resume: resume})
		}
		if len(args) > 0 {
			return a.withRecords(&connect.Latest{}, write)(c, args)
		}
		if err := f.Times(c, a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		return a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
			if err := f.Times(c, a.Now()); err != nil {
				return term.Misuse(c, "%w", err)
			}
			request := client.ListRequest{Filter: view.Filter{Job: jobs.Job, Schedule: jobs.Schedule, Since: f.Request.Since, Until: f.Request.Until, OldestFirst: true, Limit: 1000}}
			members, err := a.membersOf(ctx, cl, request)
			if err != nil {
				return err
			}
			about := "job " + jobs.Job
			if jobs.Schedule != "" {
				about = "schedule " + jobs.Schedule
			}
			return write(ctx, cl, newRecordsOf(about, members, true))
		})(c, nil)
	}
	return c
}

// membersOf returns the tasks of a list, from all pages.
func (a *Commands) membersOf(ctx context.Context, cl *client.Client, r client.ListRequest) ([]client.Member, error) {
	asking, cancel := a.Asking(ctx)
	last, err := cl.Last(asking)
	cancel()
	if err != nil {
		return nil, err
	}
	r.AtLeast = last
	var members []client.Member
	for {
		asking, cancel := a.Asking(ctx)
		page, err := cl.List(asking, r)
		cancel()
		if err != nil {
			return nil, err
		}
		for i := range page.Tasks {
			members = append(members, client.Member{Step: page.Tasks[i].Step, Task: page.Tasks[i]})
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			return members, nil
		}
	}
}

// exporting says how records are written.
type exporting struct {
	to          string
	kind        term.Kind
	all, resume bool
}

func (a *Commands) export(ctx context.Context, cl *client.Client, r *recordsOf, e *exporting) (err error) {
	p := a.Progress()
	defer p.Stop()
	others := 0
	// The records in order, once per call.
	records := func(each func(record []byte) error) error {
		others = 0
		return a.eachRecord(ctx, cl, r, func(item shownItem, counts bool) error {
			var line json.RawMessage
			var err error
			switch {
			case e.all:
				line, err = value.JSON(item)
			case counts:
				line, err = item.line(r.several)
			default:
				others++
				return nil
			}
			if err != nil {
				return err
			}
			return each(line)
		})
	}
	source := term.Source{Records: records, Known: func() ([]string, error) { return a.knownFields(ctx, cl, r) }}
	tell := func(n int) { p.More(fmt.Sprintf("%s exported", wording.Plural(n, "record"))) }
	if e.to == "-" {
		n, err := term.Write(a.Out, e.kind, source, tell)
		if n == 0 && err == nil {
			a.noteNone(r, others)
		}
		return err
	}
	flags := os.O_RDWR | os.O_CREATE
	if !e.resume {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(e.to, flags, 0o666) // the user's file, with the user's mask
	if info, known := os.Stat(e.to); err != nil && known == nil && info.IsDir() {
		return &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("--to: %s is a directory, want a file", e.to), Hint: term.Hint("name a file in it, such as %s", filepath.Join(e.to, "records.jsonl"))}
	}
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: add --resume to go on with it, or remove it", e.to)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n := 0
	if e.resume {
		n, err = term.Resume(f, e.kind, source, tell)
	} else {
		n, err = term.Write(f, e.kind, source, tell)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.to, err)
	}
	p.Stop()
	if n == 0 {
		a.noteNone(r, others)
	}
	a.Note("%s in %s", wording.Plural(n, "record"), e.to)
	return nil
}

// knownFields returns the fields of records if none counts: those of other attempts' records.
func (a *Commands) knownFields(ctx context.Context, cl *client.Client, r *recordsOf) ([]string, error) {
	var fields []string
	if r.several {
		fields = []string{fieldTask, fieldStep}
	}
	quiet := Commands{a.Printing(a.Out, io.Discard)} // what was dropped is reported already
	err := quiet.eachRecord(ctx, cl, r, func(item shownItem, _ bool) error {
		fields = term.AddFields(fields, item.Item)
		return nil
	})
	return fields, err
}
