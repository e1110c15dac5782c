package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/exit"
	"millrace/internal/cli/settings"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
)

// bulkWords are part of the help of commands for many tasks.
const bulkWords = `

With filters instead of ids (those of "millrace task ls", or --all) it asks before it begins;
--yes answers that. --dry-run only counts the tasks, and lists the first 1000. All facts of one command carry one
batch id, by which "millrace task ls --batch" finds the tasks. If it is interrupted, give it
again: nothing is done twice.`

// bulkFlags are the flags of a command for several tasks.
type bulkFlags struct {
	look.ListFlags
	do   act
	many *client.ManyAct // nil if it changes only named tasks

	reason   string
	data     string // as it was typed
	body     json.RawMessage
	wait     bool
	everyone bool
	dry      bool
	yes      bool
	most     int // 0 for all
}

// chooses are the flags that choose tasks.
var chooses = []string{"all", "state", "job", "node", "queue", "label", "since", "until", "batch", "text", "suspect"}

func (a *Commands) bulkFlags(c *cobra.Command, f *bulkFlags) {
	fs := c.Flags()
	fs.StringSliceVar(&f.ListFlags.States, "state", nil, "`states`, with commas (default "+stateWords(f.many.States)+")")
	f.FilterFlags(c)
	fs.Lookup("limit").Usage, fs.Lookup("limit").DefValue = "at most so many, up to 1000 (default all)", "0"
	fs.BoolVar(&f.everyone, "all", false, "all tasks in these states, if there is no other filter")
	fs.BoolVar(&f.dry, "dry-run", false, "only count the tasks, and list the first 1000")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

func stateWords(states []task.State) string {
	var names []string
	for _, s := range states {
		names = append(names, s.String())
	}
	return strings.Join(names, ",")
}

// check validates the flags; tasks are either named or chosen.
func (f *bulkFlags) check(c *cobra.Command, args []string, now time.Time) error {
	filtered := slices.ContainsFunc(chooses, func(name string) bool { return c.Flags().Changed(name) })
	switch {
	case filtered && len(args) > 0:
		return errors.New("tasks are named, or chosen by filters; not both")
	case !filtered && len(args) == 0:
		return errors.New("name the tasks, or choose them: --state, --job, --queue, --label, --since, …, or --all")
	case len(args) > 0 && (f.dry || f.yes):
		return errors.New("--dry-run and --yes are for tasks that filters choose")
	}
	if err := f.Read(c, now); err != nil {
		return err
	}
	if c.Flags().Changed("limit") {
		f.most = f.Request.Limit
	}
	states, err := client.StatesFor(f.Request.States, f.many.States)
	if err != nil {
		return fmt.Errorf("--state: %s: %w", c.Name(), err)
	}
	f.Request.States = states
	return nil
}

// readData reads the data once, for "-" can be read only once.
func (f *bulkFlags) readData(in io.Reader) (err error) {
	if f.data == "" {
		return nil
	}
	if f.body, err = settings.Body(f.data, in); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}

// bulk changes all tasks that the filters choose. If the user must confirm, the question is about
// the tasks chosen at that moment, and no others are changed.
func (a *Commands) bulk(ctx context.Context, c *cobra.Command, cl *client.Client, f *bulkFlags) error {
	b, err := a.bulkOf(ctx, cl, f)
	if err != nil {
		return err
	}
	if f.dry {
		return a.foresee(ctx, c, cl, f, b)
	}
	if !f.yes {
		only := map[task.ID]bool{}
		r, err := b.Look(ctx, func(tasks []task.Task) error {
			for i := range tasks {
				only[tasks[i].ID] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(only) == 0 {
			r.DryRun = false
			return a.reportBulk(c, f, &r)
		}
		if err := a.Confirm(c, fmt.Sprintf("%s %s (%s)?", c.Name(), wording.Plural(len(only), "task"), look.CountsLine(r.States))); err != nil {
			return err
		}
		// It came meanwhile, or changed.
		b.Leave = func(t *task.Task) bool { return !only[t.ID] || f.many.Leaves(t) }
	}
	var done []task.Task
	p := a.Progress()
	began, n := time.Now(), 0
	in := cl.InBatch(events.NewID(cl.Now()))
	b.Do = func(ctx context.Context, t task.Task) (*task.Task, error) {
		asking, cancel := a.Asking(ctx)
		defer cancel()
		is, err := f.many.Do(in, asking, t, f.reason, f.body)
		return &is, err
	}
	b.Each = func(t *task.Task) {
		if f.wait {
			done = append(done, *t)
		}
		n++
		p.Say(fmt.Sprintf("%d done", n), task.Task{Since: began})
	}
	r, err := b.Run(ctx, in.Batch())
	p.Stop()
	if err != nil {
		return errors.Join(err, a.reportBulk(c, f, &r))
	}
	failed := a.reportBulk(c, f, &r)
	switch {
	case r.Interrupted:
		return ctx.Err()
	case f.wait && len(done) > 0:
		return exit.First(failed, a.waitFor(ctx, cl, done, c.Name() == "cancel", f.JSON()))
	}
	return failed
}

// foresee lists the first tasks that the filters choose. If there are more, a server counts them.
func (a *Commands) foresee(ctx context.Context, c *cobra.Command, cl *client.Client, f *bulkFlags, b *client.Bulk) error {
	all := b.Most == 0
	if all {
		b.Most = client.BulkPage
	}
	var ids []task.ID
	r, err := b.Look(ctx, func(tasks []task.Task) error {
		for i := range tasks {
			if ids = append(ids, tasks[i].ID); f.JSON() {
				continue
			}
			if _, err := fmt.Fprintf(a.Out, "%s %s\n", tasks[i].ID, wording.StateAndReason(&tasks[i])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if all && r.Chosen == client.BulkPage {
		asking, cancel := context.WithTimeout(ctx, max(a.Conn.Timeout, connect.CatchUp))
		defer cancel()
		if r, err = cl.Foresee(asking, f.many, f.Request); err != nil {
			return err
		}
	}
	r.Tasks = ids
	return a.reportBulk(c, f, &r)
}

// bulkOf returns the bulk command for what the filters choose now.
func (a *Commands) bulkOf(ctx context.Context, cl *client.Client, f *bulkFlags) (*client.Bulk, error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	last, err := cl.Last(asking)
	if err != nil {
		return nil, err
	}
	r := f.Request
	r.AtLeast = last
	return &client.Bulk{Request: r, Most: f.most, Leave: f.many.Leaves, List: func(ctx context.Context, r client.ListRequest) (client.ListPage, error) {
		asking, cancel := context.WithTimeout(ctx, max(a.Conn.Timeout, connect.CatchUp))
		defer cancel()
		return cl.List(asking, r)
	}}, nil
}

// refusalsShown is how many refusals are printed.
const refusalsShown = 10

// reportBulk prints what was done, and returns an error if something was refused.
func (a *Commands) reportBulk(c *cobra.Command, f *bulkFlags, r *client.BulkReport) error {
	var failed error
	if n := len(r.Refused); n > 0 {
		failed = &exit.Fault{Code: exit.Refused, Err: fmt.Errorf("%s refused; first: %s", wording.Plural(n, "task"), r.Refused[0].Error)}
	}
	if f.JSON() {
		return exit.First(a.WriteJSON(r), failed)
	}
	for _, refused := range r.Refused[:min(len(r.Refused), refusalsShown)] {
		a.Note("%s", refused.Error)
	}
	switch {
	case f.dry:
		var more string
		switch {
		case r.Interrupted:
			more = "; there are more, and counting them took too long"
		case r.Chosen > len(r.Tasks):
			more = fmt.Sprintf(": %s; listed are the first %d", look.CountsLine(r.States), len(r.Tasks))
		}
		_, err := fmt.Fprintf(a.Out, "would %s %s, as of sequence %d%s\n", c.Name(), wording.Plural(r.Chosen, "task"), r.Seq, more)
		return err
	case r.Chosen == 0:
		_, err := fmt.Fprintf(a.Out, "no task is chosen, as of sequence %d\n", r.Seq)
		return err
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(r.States)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.States[state], state))
	}
	if n := len(r.Refused); n > 0 {
		parts = append(parts, fmt.Sprintf("%d refused", n))
	}
	if r.Interrupted {
		parts = append(parts, "interrupted: give the same command again to go on")
	}
	_, err := fmt.Fprintf(a.Out, "%s: %s; batch %s\n", c.Name(), strings.Join(parts, ", "), r.Batch)
	return exit.First(err, failed)
}
