package task

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// Command is `millrace data`, whose commands are also below `task data`.
func (a *Commands) Command() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "data", Aliases: []string{"records"},
		Short: "Records that tasks produced: count, print and export them",
		Example: `  millrace data ls ID
  millrace data tail ID -n 5
  millrace data export ID --to pages.csv
  millrace data export ID --to pages.jsonl --resume`,
	})
	c.AddCommand(a.dataCommands()...)
	return c
}

func (a *Commands) dataCommands() []*cobra.Command {
	return []*cobra.Command{a.dataList(), a.dataTail(), a.dataExport()}
}

// recordsOf are the members of a whole whose records are wanted.
type recordsOf struct {
	about   string // the request, in words
	members []client.Member
	tasks   map[task.ID]*task.Task
	// several tells whether each record names its task and step.
	several bool
}

func newRecordsOf(about string, members []client.Member, several bool) *recordsOf {
	r := &recordsOf{about: about, members: members, tasks: map[task.ID]*task.Task{}, several: several}
	for i := range members {
		r.tasks[members[i].Task.ID] = &members[i].Task
	}
	return r
}

// counts tells whether records are from the current or last attempt of their task.
func (r *recordsOf) counts(b *output.Records) bool {
	t := r.tasks[b.Task]
	return t != nil && t.Epoch == b.Epoch
}

// eachRecord reports how many records were dropped, and calls each with every record once, those of
// a task in order, and with whether it counts: whether it is from the current or last attempt.
func (a *Commands) eachRecord(ctx context.Context, c *client.Client, r *recordsOf, each func(shownItem, bool) error) error {
	once := newRecordsOnce()
	err := c.RecordsOf(ctx, r.members, func(b client.StepRecords) error {
		a.noteDropped(&b.Records)
		return once.each(&b, func(item shownItem) error { return each(item, r.counts(&b.Records)) })
	})
	if err != nil {
		return fmt.Errorf("records of %s: %w", r.about, err)
	}
	return nil
}

// recordsOnce skips the records of batches that come twice.
type recordsOnce struct{ next map[uint64]int } // by epoch

func newRecordsOnce() *recordsOnce { return &recordsOnce{map[uint64]int{}} }

func (o *recordsOnce) each(b *client.StepRecords, do func(shownItem) error) error {
	for i, item := range b.Items {
		n := b.First + i
		if n < o.next[b.Epoch] {
			continue
		}
		o.next[b.Epoch] = n + 1
		if err := do(shownItem{b.Task, b.Step, b.Attempt, b.Epoch, n, item}); err != nil {
			return err
		}
	}
	return nil
}

// noteDropped reports how many records a batch replaces.
func (a *Commands) noteDropped(b *output.Records) {
	if b.Dropped > 0 {
		a.Note("%s dropped: %s", wording.Plural(b.Dropped, "record"), b.Reason)
	}
}

// withRecords makes the RunE of a command about the records of a task and its descendants.
func (a *Commands) withRecords(latest *connect.Latest, do func(ctx context.Context, c *client.Client, r *recordsOf) error) func(*cobra.Command, []string) error {
	present := func(ctx context.Context, c *client.Client) (connect.Sight, error) {
		return a.Sight(ctx, c, "", connect.Then{})
	}
	return latest.Task(a.App, present, func(ctx context.Context, c *client.Client, _ *connect.Sight, id task.ID) error {
		asking, cancel := a.Asking(ctx)
		members, err := c.Members(asking, id)
		cancel()
		if err != nil {
			return err
		}
		return do(ctx, c, newRecordsOf("task "+string(id), members, len(members) > 1))
	})
}

// noteNone reports that there are no records, for nothing else is printed then.
func (a *Commands) noteNone(r *recordsOf, others int) {
	text := r.about
	if n := len(r.members) - 1; r.several && n > 0 {
		text += fmt.Sprintf(" and its %s", wording.Plural(n, "step"))
	}
	hint := ""
	if others > 0 {
		hint = fmt.Sprintf("; attempts that failed or lost the task have %d: --all-epochs", others)
	}
	a.Note("there are no records of %s%s", text, hint)
}

// dataSum counts the records of an attempt.
type dataSum struct {
	// Step is its step of the whole, and Task its task.
	Step    string  `json:"step,omitempty"`
	Task    task.ID `json:"task,omitempty"`
	Attempt int     `json:"attempt"`
	Epoch   uint64  `json:"epoch"`
	Records int     `json:"records"`
	// Bytes is their size in the store.
	Bytes int64 `json:"bytes"`
	// Counts tells whether they are from the current or last attempt, whose records count.
	Counts bool `json:"counts"`
}

func (a *Commands) dataList() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "ls ID | --job NAME | --schedule NAME", Aliases: []string{"list"},
		Short: "Count the records of each attempt of a task",
		Args:  settings.Takes(0, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
		DisableFlagsInUseLine: true,
	}
	var latest connect.Latest
	latest.Flags(a.App, c)
	o.Flags(c)
	c.RunE = a.withRecords(&latest, func(ctx context.Context, cl *client.Client, r *recordsOf) error {
		sums := []dataSum{}
		for i := range r.members {
			m := &r.members[i]
			if m.Task.Attempt == 0 {
				continue
			}
			found, dropped, err := cl.RecordSums(ctx, m.Task.ID)
			if err != nil {
				return fmt.Errorf("records of task %s: %w", m.Task.ID, err)
			}
			a.noteDropped(&dropped)
			for _, f := range found {
				sum := dataSum{Attempt: f.Attempt, Epoch: f.Epoch, Records: f.Records, Bytes: f.Bytes, Counts: f.Epoch == m.Task.Epoch}
				if r.several {
					sum.Step, sum.Task = m.Step, m.Task.ID
				}
				sums = append(sums, sum)
			}
		}
		if o.JSON() {
			return a.WriteJSON(sums)
		}
		if len(sums) == 0 {
			a.noteNone(r, 0)
		}
		return a.Print(sumTable(sums))
	})
	return c
}

func sumTable(sums []dataSum) term.Table {
	t := term.Table{Header: []string{"STEP", "ATTEMPT", "EPOCH", "RECORDS", "SIZE", "COUNTS"}, Spare: []string{"EPOCH"}}
	several := slices.ContainsFunc(sums, func(s dataSum) bool { return s.Step != "" })
	if !several {
		t.Header = t.Header[1:]
	}
	for _, s := range sums {
		counts := term.Plain("yes")
		if !s.Counts {
			counts = term.Dim("no: of an attempt that failed or lost the task")
		}
		row := []term.Cell{term.Plain(s.Step), term.Plain(strconv.Itoa(s.Attempt)), term.Plain(strconv.FormatUint(s.Epoch, 10)), term.Plain(strconv.Itoa(s.Records)), term.Plain(value.Size(s.Bytes).String()), counts}
		if !several {
			row = row[1:]
		}
		t.Add(row...)
	}
	return t
}

func (a *Commands) dataTail() *cobra.Command {
	var o settings.Output
	var most int
	var all, follow bool
	c := &cobra.Command{
		Use: "tail ID | --job NAME | --schedule NAME", Short: "Print the last records of a task, and with -f those to come",
		Long: `Prints the last records of a task and of all its steps; with -f also new ones, until the task has ended.`,
		Args: settings.Takes(0, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
		DisableFlagsInUseLine: true,
	}
	var latest connect.Latest
	latest.Flags(a.App, c)
	c.Flags().IntVarP(&most, "tail", "n", 10, "how many, a `number`")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task has ended")
	allEpochs(c, &all)
	o.Flags(c, "jsonl", "json")
	print := a.withRecords(&latest, func(ctx context.Context, cl *client.Client, r *recordsOf) error {
		show := func(item shownItem) error { return a.showRecord(item, r.several, o.JSON()) }
		once := newRecordsOnce()
		last, others, err := a.lastRecords(ctx, cl, r, most, all, once)
		if err != nil {
			return err
		}
		for _, item := range last {
			if err := show(item); err != nil {
				return err
			}
		}
		if !follow {
			if len(last) == 0 && most > 0 {
				a.noteNone(r, others)
			}
			return nil
		}
		_, err = cl.FollowRecords(ctx, r.members[0].Task.ID, func(b client.StepRecords) error {
			if t := r.tasks[b.Task]; t != nil && b.Epoch < t.Epoch && !all {
				return nil
			}
			r.several = r.several || b.Step != ""
			return once.each(&b, show)
		})
		return connect.QuietEnd(ctx, err)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if most < 0 {
			return term.Misuse(c, "--tail is %d, want 0 or more", most)
		}
		return print(c, args)
	}
	return c
}

// showRecord prints a record on its own line: with its origin if whole is set, or if several tasks
// are shown.
func (a *Commands) showRecord(r shownItem, several, whole bool) error {
	if whole {
		return a.WriteLine(r)
	}
	line, err := r.line(several)
	if err != nil {
		return err
	}
	return a.WriteLine(line)
}

// lastRecords returns the last records, at most most, and how many of other attempts were skipped.
// It remembers in once what it has seen.
func (a *Commands) lastRecords(ctx context.Context, cl *client.Client, r *recordsOf, most int, all bool, once *recordsOnce) (last []shownItem, others int, err error) {
	if len(r.members) > 1 {
		err = a.eachRecord(ctx, cl, r, func(item shownItem, counts bool) error {
			once.next[item.Epoch] = item.N + 1
			if !counts && !all {
				others++
				return nil
			}
			if last = append(last, item); len(last) > most {
				last = slices.Delete(last, 0, 1)
			}
			return nil
		})
		return last, others, err
	}
	lowest := map[uint64]int{} // by epoch: a batch may be there twice
	err = cl.RecordsBack(ctx, r.members[0].Task.ID, func(b output.Records) bool {
		a.noteDropped(&b)
		once.next[b.Epoch] = max(once.next[b.Epoch], b.First+len(b.Items))
		if !all && !r.counts(&b) {
			others += len(b.Items)
			return len(last) < most
		}
		for i := len(b.Items) - 1; i >= 0 && len(last) < most; i-- {
			n := b.First + i
			if low, known := lowest[b.Epoch]; known && n >= low {
				continue
			}
			lowest[b.Epoch] = n
			last = append(last, shownItem{Task: b.Task, Attempt: b.Attempt, Epoch: b.Epoch, N: n, Item: b.Items[i]})
		}
		return len(last) < most
	})
	if err != nil {
		return nil, 0, fmt.Errorf("records of %s: %w", r.about, err)
	}
	slices.Reverse(last)
	return last, others, nil
}

func allEpochs(c *cobra.Command, all *bool) {
	c.Flags().BoolVar(all, "all-epochs", false, "also of attempts that failed or lost the task")
}
