package verb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/internal/cli/connect"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
)

// chooses are the flags that choose tasks.
var chooses = []string{"all", "state", "job", "node", "queue", "label", "since", "until", "batch", "text", "suspect"}

// bulkFlags are the flags of a command that can also change all tasks that filters choose.
func (m *command) bulkFlags() {
	fs := m.cobra.Flags()
	fs.StringSliceVar(&m.list.States, "state", nil, "`states`, with commas (default "+stateWords(m.is.Command.Many.States)+")")
	m.list.FilterFlags(m.cobra)
	fs.Lookup("limit").Usage, fs.Lookup("limit").DefValue = "at most so many, up to 1000 (default all)", "0"
	fs.BoolVar(&m.all, "all", false, "all tasks in these states, if there is no other filter")
	fs.BoolVar(&m.dry, "dry-run", false, "only count the tasks, and list the first 1000")
	fs.BoolVarP(&m.yes, "yes", "y", false, "do not ask")
}

func stateWords(states []task.State) string {
	var names []string
	for _, s := range states {
		names = append(names, s.String())
	}
	return strings.Join(names, ",")
}

// checkFilters validates the flags; tasks are either named or chosen.
func (m *command) checkFilters(args []string) error {
	c := m.cobra
	filtered := slices.ContainsFunc(chooses, func(name string) bool { return c.Flags().Changed(name) })
	switch {
	case filtered && len(args) > 0:
		return errors.New("tasks are named, or chosen by filters; not both")
	case !filtered && len(args) == 0:
		return errors.New("name the tasks, or choose them: --state, --job, --queue, --label, --since, …, or --all")
	case len(args) > 0 && m.dry:
		return errors.New("--dry-run is for tasks that filters choose")
	}
	if err := m.list.Read(c, m.Now()); err != nil {
		return err
	}
	if c.Flags().Changed("limit") {
		m.most = m.list.Request.Limit
	}
	states, err := client.StatesFor(m.list.Request.States, m.is.Command.Many.States)
	if err != nil {
		return fmt.Errorf("--state: %s: %w", c.Name(), err)
	}
	m.list.Request.States = states
	return nil
}

// bulk changes all tasks that the filters choose. If the user must confirm, the question is about
// the tasks chosen at that moment, and no others are changed.
func (m *command) bulk(ctx context.Context, cl *client.Client) error {
	c, many := m.cobra, m.is.Command.Many
	b, err := m.bulkOf(ctx, cl)
	if err != nil {
		return err
	}
	if m.dry {
		return m.foresee(ctx, cl, b)
	}
	if !m.yes {
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
			return m.reportBulk(&r)
		}
		if err := m.Confirm(c, fmt.Sprintf("%s %s (%s)?", c.Name(), wording.Plural(len(only), "task"), look.CountsLine(r.States))); err != nil {
			return err
		}
		// It came meanwhile, or changed.
		b.Leave = func(t *task.Task) bool { return !only[t.ID] || many.Leaves(t) }
	}
	var done []task.Task
	p := m.Progress()
	began, n := time.Now(), 0
	in := cl.InBatch(events.NewID(cl.Now()))
	b.Do = func(ctx context.Context, t task.Task) (*task.Task, error) {
		asking, cancel := m.Asking(ctx)
		defer cancel()
		answer, err := m.is.Do(asking, m.service(in), m.requestFor(string(t.ID)))
		is, _ := answer.(task.Task)
		return &is, err
	}
	b.Each = func(t *task.Task) {
		if m.wait {
			done = append(done, *t)
		}
		n++
		p.Say(fmt.Sprintf("%d done", n), task.Task{Since: began})
	}
	r, err := b.Run(ctx, in.Batch())
	p.Stop()
	if err != nil {
		return errors.Join(err, m.reportBulk(&r))
	}
	failed := m.reportBulk(&r)
	switch {
	case r.Interrupted:
		return ctx.Err()
	case m.wait && len(done) > 0:
		return term.FirstFault(failed, m.waitFor(ctx, cl, done))
	}
	return failed
}

// foresee lists the first tasks that the filters choose. If there are more, a server counts them.
func (m *command) foresee(ctx context.Context, cl *client.Client, b *client.Bulk) error {
	all := b.Most == 0
	if all {
		b.Most = client.BulkPage
	}
	var ids []task.ID
	r, err := b.Look(ctx, func(tasks []task.Task) error {
		for i := range tasks {
			if ids = append(ids, tasks[i].ID); m.list.JSON() {
				continue
			}
			if _, err := fmt.Fprintf(m.Out, "%s %s\n", tasks[i].ID, wording.StateAndReason(&tasks[i])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if all && r.Chosen == client.BulkPage {
		asking, cancel := context.WithTimeout(ctx, max(m.Conn.Timeout, connect.CatchUp))
		defer cancel()
		if r, err = cl.Foresee(asking, m.is.Command.Many.Name(), m.list.Request); err != nil {
			return err
		}
	}
	r.Tasks = ids
	return m.reportBulk(&r)
}

// bulkOf returns the bulk command for what the filters choose now.
func (m *command) bulkOf(ctx context.Context, cl *client.Client) (*client.Bulk, error) {
	asking, cancel := m.Asking(ctx)
	defer cancel()
	last, err := cl.Last(asking)
	if err != nil {
		return nil, err
	}
	r := m.list.Request
	r.AtLeast = last
	return &client.Bulk{Request: r, Most: m.most, Leave: m.is.Command.Many.Leaves, List: func(ctx context.Context, r client.ListRequest) (client.ListPage, error) {
		asking, cancel := context.WithTimeout(ctx, max(m.Conn.Timeout, connect.CatchUp))
		defer cancel()
		return cl.List(asking, r)
	}}, nil
}

// refusalsShown is how many refusals are printed.
const refusalsShown = 10

// reportBulk prints what was done, and returns an error if something was refused.
func (m *command) reportBulk(r *client.BulkReport) error {
	c := m.cobra
	var failed error
	if n := len(r.Refused); n > 0 {
		failed = &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("%s refused; first: %s", wording.Plural(n, "task"), r.Refused[0].Error)}
	}
	if m.list.JSON() {
		return term.FirstFault(m.WriteJSON(r), failed)
	}
	for _, refused := range r.Refused[:min(len(r.Refused), refusalsShown)] {
		m.Note("%s", refused.Error)
	}
	switch {
	case m.dry:
		var more string
		switch {
		case r.Interrupted:
			more = "; there are more, and counting them took too long"
		case r.Chosen > len(r.Tasks):
			more = fmt.Sprintf(": %s; listed are the first %d", look.CountsLine(r.States), len(r.Tasks))
		}
		_, err := fmt.Fprintf(m.Out, "would %s %s, as of sequence %d%s\n", c.Name(), wording.Plural(r.Chosen, "task"), r.Seq, more)
		return err
	case r.Chosen == 0:
		_, err := fmt.Fprintf(m.Out, "no task is chosen, as of sequence %d\n", r.Seq)
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
	_, err := fmt.Fprintf(m.Out, "%s: %s; batch %s\n", c.Name(), strings.Join(parts, ", "), r.Batch)
	return term.FirstFault(err, failed)
}
