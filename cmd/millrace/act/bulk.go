package act

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/look"
	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/told"
	"millrace/events"
	"millrace/task"
)

// bulkWords are part of the help of commands that can be done to many tasks.
const bulkWords = `

With filters instead of ids (those of "millrace task ls", or --all) it asks before it begins;
--yes answers that, and --dry-run only says which tasks it would be. What it does carries one
batch id, by which "millrace task ls --batch" finds it. It may be interrupted and
given again: what is done is not done twice.`

// bulkFlags are what a command was told that is done to several tasks.
type bulkFlags struct {
	look.ListFlags
	do     act
	many   actKnown
	states []task.State // those it makes sense for, unless others are asked for

	reason   string
	wait     bool
	everyone bool
	dry      bool
	yes      bool
	most     int // 0 for all
}

// chooses are the flags by which tasks are chosen.
var chooses = []string{"all", "state", "job", "node", "queue", "label", "since", "until", "batch", "text", "suspect"}

func (a *Commands) bulkFlags(c *cobra.Command, f *bulkFlags) {
	fs := c.Flags()
	fs.StringSliceVar(&f.ListFlags.States, "state", nil, "`states`, with commas (default "+stateWords(f.states)+")")
	f.FilterFlags(c)
	fs.Lookup("limit").Usage, fs.Lookup("limit").DefValue = "at most so many, up to 1000 (default all)", "0"
	fs.BoolVar(&f.everyone, "all", false, "all in these states, if there is no other filter")
	fs.BoolVar(&f.dry, "dry-run", false, "only say which tasks it would be")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

func stateWords(states []task.State) string {
	var names []string
	for _, s := range states {
		names = append(names, s.String())
	}
	return strings.Join(names, ",")
}

// check reads the flags; tasks are named, or chosen.
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
	for _, s := range f.Request.States {
		if s.Terminal() != f.states[0].Terminal() {
			return wrongState(c.Name(), s)
		}
	}
	if c.Flags().Changed("limit") {
		f.most = f.Request.Limit
	}
	if len(f.Request.States) == 0 {
		f.Request.States = f.states
	}
	f.Request.Limit = 1000
	return nil
}

// wrongState says why what verb does can be done to no task in a state.
func wrongState(verb string, s task.State) error {
	if s.Terminal() {
		return fmt.Errorf("--state: tasks that are %s have ended, and %s is for those that have not", s, verb)
	}
	return fmt.Errorf("--state: tasks that are %s have not ended, and %s is for those that have", s, verb)
}

// bulkReport is what became of a bulk command.
type bulkReport struct {
	// Batch is in each fact that it left.
	Batch string `json:"batch,omitempty"`
	// Chosen is how many tasks the filters chose, as of Seq, Done how many it was done to.
	Chosen int    `json:"chosen"`
	Seq    uint64 `json:"seq"`
	Done   int    `json:"done"`
	DryRun bool   `json:"dry_run,omitempty"`
	// Interrupted says that not all were tried.
	Interrupted bool `json:"interrupted,omitempty"`
	// States counts those it was done to, by the state that they are in; of a dry run, those chosen.
	States map[string]int `json:"states"`
	Tasks  []task.ID      `json:"tasks"`
	// Refused are those to which it could not be done.
	Refused []refusal `json:"refused"`
}

// refusal is a task to which something could not be done, and why.
type refusal struct {
	Task  task.ID `json:"task"`
	Error string  `json:"error"`
}

// bulkAtOnce is how many tasks a bulk command has on their way at once.
const bulkAtOnce = 16

// bulk does it to all tasks that the filters choose. Who has to be asked is asked
// about those that are chosen then, and it is done to no others.
func (a *Commands) bulk(ctx context.Context, c *cobra.Command, cl *client.Client, f *bulkFlags) error {
	r := &bulkReport{DryRun: f.dry, States: map[string]int{}, Tasks: []task.ID{}, Refused: []refusal{}}
	var only map[task.ID]bool
	if f.dry || !f.yes {
		counts := map[string]int{}
		only = map[task.ID]bool{}
		err := a.choose(ctx, cl, f, r, func(tasks []task.Task) error {
			for i := range tasks {
				t := &tasks[i]
				counts[t.State.String()]++
				only[t.ID] = true
				if !f.dry {
					continue
				}
				if r.Tasks = append(r.Tasks, t.ID); f.JSON() {
					continue
				}
				if _, err := fmt.Fprintf(a.Out, "%s %s\n", t.ID, told.StateAndReason(t)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if f.dry || len(only) == 0 {
			r.States = counts
			return a.reportBulk(c, f, r)
		}
		if err := a.Confirm(c, fmt.Sprintf("%s %s (%s)?", c.Name(), told.Plural(len(only), "task"), look.CountsLine(counts))); err != nil {
			return err
		}
		r.Chosen = 0
	}
	r.Batch = events.NewID(cl.Now())
	done, err := a.doAll(ctx, cl, f, r, only)
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, a.reportBulk(c, f, r))
	}
	r.Interrupted = ctx.Err() != nil
	failed := a.reportBulk(c, f, r)
	switch {
	case r.Interrupted:
		return ctx.Err()
	case f.wait && len(done) > 0:
		return exit.First(failed, a.waitFor(ctx, cl, done, c.Name() == "cancel", f.JSON()))
	}
	return failed
}

// choose reads all pages of the filters, the first as of now, and hands them on.
func (a *Commands) choose(ctx context.Context, cl *client.Client, f *bulkFlags, report *bulkReport, each func([]task.Task) error) error {
	asking, cancel := a.Asking(ctx)
	last, err := cl.Last(asking)
	cancel()
	if err != nil {
		return err
	}
	r := f.Request
	r.AtLeast = last
	for {
		asking, cancel := context.WithTimeout(ctx, max(a.Conn.Timeout, reach.CatchUp))
		page, err := cl.List(asking, r)
		cancel()
		if err != nil {
			return err
		}
		tasks := page.Tasks
		if left := f.most - report.Chosen; f.most > 0 && len(tasks) > left {
			tasks = tasks[:left]
		}
		report.Chosen, report.Seq = report.Chosen+len(tasks), page.Seq
		if err := each(tasks); err != nil {
			return err
		}
		if r.Cursor = page.Next; r.Cursor == "" || f.most > 0 && report.Chosen == f.most {
			return nil
		}
	}
}

// doAll does it to each, several at once, until ctx ends; if only is given, to no others.
func (a *Commands) doAll(ctx context.Context, cl *client.Client, f *bulkFlags, r *bulkReport, only map[task.ID]bool) (done []task.Task, err error) {
	p := a.Progress()
	defer p.Stop()
	began, in := time.Now(), cl.InBatch(r.Batch)
	var mu sync.Mutex // guards r but for what choose writes, and done
	one := func(k task.Task) {
		asking, cancel := a.Asking(ctx)
		t, err := f.many(in, asking, k, f.reason)
		cancel()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil && ctx.Err() != nil: // perhaps it was done; given again it says so
		case err != nil:
			r.Refused = append(r.Refused, refusal{k.ID, err.Error()})
		default:
			r.Done++
			r.States[t.State.String()]++
			r.Tasks = append(r.Tasks, t.ID)
			if f.wait {
				done = append(done, t)
			}
		}
		p.Say(fmt.Sprintf("%d done", r.Done), task.Task{Since: began})
	}
	err = a.choose(ctx, cl, f, r, func(tasks []task.Task) error {
		var g errgroup.Group
		g.SetLimit(bulkAtOnce)
		for _, k := range tasks {
			if ctx.Err() != nil {
				break
			}
			if only != nil && !only[k.ID] {
				r.Chosen-- // it came meanwhile
				continue
			}
			g.Go(func() error { one(k); return nil })
		}
		_ = g.Wait() // nobody returns an error
		return ctx.Err()
	})
	return done, err
}

// refusalsShown is how many refusals are worth a line.
const refusalsShown = 10

// reportBulk says what was done, and is an error if something was refused.
func (a *Commands) reportBulk(c *cobra.Command, f *bulkFlags, r *bulkReport) error {
	var failed error
	if n := len(r.Refused); n > 0 {
		failed = &exit.Fault{Code: exit.Refused, Err: fmt.Errorf("%s refused; first: %s", told.Plural(n, "task"), r.Refused[0].Error)}
	}
	if f.JSON() {
		return exit.First(a.WriteJSON(r), failed)
	}
	for _, refused := range r.Refused[:min(len(r.Refused), refusalsShown)] {
		a.Note("%s", refused.Error)
	}
	switch {
	case f.dry:
		_, err := fmt.Fprintf(a.Out, "would %s %s, as of sequence %d\n", c.Name(), told.Plural(r.Chosen, "task"), r.Seq)
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
