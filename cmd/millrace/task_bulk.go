package main

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
	listFlags
	do     act
	states []task.State // those it makes sense for, unless others are asked for

	reason   string
	wait     bool
	everyone bool
	dry      bool
	yes      bool
	most     int // 0 for all
}

// chooses are the flags by which tasks are chosen.
var chooses = []string{"all", "state", "job", "node", "queue", "label", "since", "until", "batch", "text"}

func (a *app) bulkFlags(c *cobra.Command, f *bulkFlags) {
	fs := c.Flags()
	fs.StringSliceVar(&f.listFlags.states, "state", nil, "`states`, with commas (default "+stateWords(f.states)+")")
	a.filterFlags(c, &f.listFlags)
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
	if err := f.read(c, now); err != nil {
		return err
	}
	if c.Flags().Changed("limit") {
		f.most = f.request.Limit
	}
	if len(f.request.States) == 0 {
		f.request.States = f.states
	}
	f.request.Limit = 1000
	return nil
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
	// Left is how many were not tried, because it was interrupted.
	Left int `json:"left,omitempty"`
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

// bulk does it to all tasks that the filters choose.
func (a *app) bulk(ctx context.Context, c *cobra.Command, cl *client.Client, f *bulkFlags) error {
	chosen, seq, err := a.chosen(ctx, cl, f)
	if err != nil {
		return err
	}
	r := &bulkReport{Chosen: len(chosen), Seq: seq, DryRun: f.dry, States: map[string]int{}, Tasks: []task.ID{}, Refused: []refusal{}}
	if f.dry {
		for _, t := range chosen {
			r.Tasks = append(r.Tasks, t.id)
			r.States[t.state.String()]++
			if f.json() {
				continue
			}
			if _, err := fmt.Fprintf(a.out, "%s %s\n", t.id, stateAndReason(&task.Task{State: t.state, Reason: t.reason})); err != nil {
				return err
			}
		}
		return a.reportBulk(c, f, r)
	}
	if len(chosen) == 0 {
		return a.reportBulk(c, f, r)
	}
	if !f.yes {
		if err := a.confirm(c, fmt.Sprintf("%s %s (%s)?", c.Name(), plural(len(chosen), "task"), countsOf(chosen))); err != nil {
			return err
		}
	}
	r.Batch = events.NewID(time.Now())
	done := a.doAll(ctx, cl.InBatch(r.Batch), chosen, f, r)
	failed := a.reportBulk(c, f, r)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.wait && len(done) > 0:
		return first(failed, a.waitFor(ctx, cl, done, c.Name() == "cancel", f.json()))
	}
	return failed
}

// picked is a task that filters chose, as the read model knew it.
type picked struct {
	id     task.ID
	state  task.State
	reason string
}

// chosen reads all pages of the filters, and keeps no more of a task than it shows.
func (a *app) chosen(ctx context.Context, cl *client.Client, f *bulkFlags) (all []picked, seq uint64, err error) {
	asking, cancel := a.asking(ctx)
	last, err := cl.Last(asking)
	cancel()
	if err != nil {
		return nil, 0, err
	}
	r := f.request
	r.AtLeast = last
	for {
		asking, cancel := context.WithTimeout(ctx, max(a.conn.timeout, catchUp))
		page, err := cl.List(asking, r)
		cancel()
		if err != nil {
			return nil, 0, err
		}
		for i := range page.Tasks {
			if f.most > 0 && len(all) == f.most {
				return all, page.Seq, nil
			}
			t := &page.Tasks[i]
			all = append(all, picked{t.ID, t.State, t.Reason})
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			return all, page.Seq, nil
		}
	}
}

// countsOf is how many of them are in each state.
func countsOf(tasks []picked) string {
	counts := map[string]int{}
	for _, t := range tasks {
		counts[t.state.String()]++
	}
	return countsLine(counts)
}

// doAll does it to each, several at once, until ctx ends.
func (a *app) doAll(ctx context.Context, cl *client.Client, chosen []picked, f *bulkFlags, r *bulkReport) (done []task.Task) {
	p := a.progress()
	defer p.stop()
	began := time.Now()
	var mu sync.Mutex // guards r and done
	var g errgroup.Group
	g.SetLimit(bulkAtOnce)
	for i, k := range chosen {
		if ctx.Err() != nil {
			mu.Lock()
			r.Left = len(chosen) - i
			mu.Unlock()
			break
		}
		g.Go(func() error {
			asking, cancel := a.asking(ctx)
			t, err := f.do(cl, asking, k.id, f.reason)
			cancel()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && ctx.Err() != nil:
				r.Left++ // perhaps it was done; given again it says so
			case err != nil:
				r.Refused = append(r.Refused, refusal{k.id, err.Error()})
			default:
				r.Done++
				r.States[t.State.String()]++
				r.Tasks = append(r.Tasks, t.ID)
				if f.wait {
					done = append(done, t)
				}
			}
			p.say(fmt.Sprintf("%d of %d", r.Done+len(r.Refused), r.Chosen), task.Task{Since: began})
			return nil
		})
	}
	_ = g.Wait() // nobody returns an error
	return done
}

// refusalsShown is how many refusals are worth a line.
const refusalsShown = 10

// reportBulk says what was done, and is an error if something was refused.
func (a *app) reportBulk(c *cobra.Command, f *bulkFlags, r *bulkReport) error {
	var failed error
	if n := len(r.Refused); n > 0 {
		failed = &fault{code: exitRefused, err: fmt.Errorf("%s refused; first: %s", plural(n, "task"), r.Refused[0].Error)}
	}
	if f.json() {
		return first(a.writeJSON(r), failed)
	}
	for _, refused := range r.Refused[:min(len(r.Refused), refusalsShown)] {
		a.note("%s", refused.Error)
	}
	switch {
	case f.dry:
		_, err := fmt.Fprintf(a.out, "would %s %s, as of sequence %d\n", c.Name(), plural(r.Chosen, "task"), r.Seq)
		return err
	case r.Chosen == 0:
		_, err := fmt.Fprintf(a.out, "no task is chosen, as of sequence %d\n", r.Seq)
		return err
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(r.States)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.States[state], state))
	}
	if n := len(r.Refused); n > 0 {
		parts = append(parts, fmt.Sprintf("%d refused", n))
	}
	if r.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d not tried: give the same command again to go on", r.Left))
	}
	_, err := fmt.Fprintf(a.out, "%s: %s; batch %s\n", c.Name(), strings.Join(parts, ", "), r.Batch)
	return first(err, failed)
}
