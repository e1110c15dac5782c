package task

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// DiffAll is millrace diff.
func (a *Commands) DiffAll() *cobra.Command {
	var o settings.Output
	var at []string
	var f view.Filter
	limit := 0
	c := &cobra.Command{
		Use:   "diff --at MOMENT [--at MOMENT]",
		Short: "Say what changed between two moments, or between one and now",
		Long: `Says what changed between two moments of the log: nodes, queues, limits, jobs, schedules, calendars and bundles, field
by field; how many tasks are in each state, how many went from one state to another, and the first of those. With
one --at it compares with the end of the log. It reads the log up to both moments, which takes long on a long log.

Exit codes are those of diff: 0 without a difference, 1 with one, 2 if it could not be compared.`,
		Example: `  millrace diff --at -10m
  millrace diff --at 12:00 --at 12:30 --queue bulk`,
		Args: settings.Takes(0, 0, ""), DisableFlagsInUseLine: true,
	}
	fs := c.Flags()
	fs.StringArrayVar(&at, "at", nil, connect.AtUsage+" (give it twice for two moments)")
	fs.StringVarP(&f.Queue, "queue", "q", "", "only tasks of this queue")
	fs.StringVar(&f.Job, "job", "", "only tasks of this job")
	fs.IntVarP(&limit, "limit", "n", 20, "how many tasks to list, 0 for none")
	o.Flags(c)
	compare := a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
		return a.compareAll(ctx, cl, at, f, limit, &o)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(at) == 0 || len(at) > 2:
			return term.Misuse(c, "want --at once or twice")
		case limit < 0:
			return term.Misuse(c, "--limit is %d, want 0 or more", limit)
		}
		if err := a.Moments(c, at...); err != nil {
			return err
		}
		return troubled(compare(c, args))
	}
	return c
}

func (a *Commands) compareAll(ctx context.Context, cl *client.Client, at []string, f view.Filter, limit int, o *settings.Output) error {
	var sights [2]connect.Sight
	for i, moment := range append(slices.Clone(at), view.End)[:2] {
		s, err := a.Sight(ctx, cl, moment, connect.Then{Lacks: []string{"heartbeats", "progress", "checkpoints", "leases"}})
		if err != nil {
			return err
		}
		sights[i] = s
	}
	d, err := a.difference(ctx, cl, sights[:], f, limit)
	if err != nil {
		return err
	}
	if o.JSON() {
		err = a.WriteJSON(struct {
			Was *connect.ShownPoint `json:"was"`
			Is  *connect.ShownPoint `json:"is"`
			*view.Difference
		}{sights[0].Past, sights[1].Past, &d})
	} else {
		err = a.printAll(&d, sights[:])
	}
	if err == nil && !d.None() {
		err = term.ExitWith(exitDifferent)
	}
	return err
}

// difference asks a server. If none can answer, or for more tasks than it names, this process folds
// the log up to both moments, which may take minutes.
func (a *Commands) difference(ctx context.Context, cl *client.Client, sights []connect.Sight, f view.Filter, limit int) (d view.Difference, err error) {
	if limit <= view.MaxLimit {
		asking, cancel := a.Asking(ctx)
		defer cancel()
		seq := func(s *connect.Sight) string { return strconv.FormatUint(s.Past.Seq, 10) }
		said, err := cl.Diff(asking, client.DiffRequest{At: seq(&sights[0]), Until: seq(&sights[1]), Queue: f.Queue, Job: f.Job, Limit: max(limit, 1)})
		if err == nil || ctx.Err() != nil {
			said.Name(limit)
			return said.Difference, err
		}
	}
	var both [2]view.Folded
	for i := range sights {
		if both[i], err = a.Folded(ctx, cl, &sights[i]); err != nil {
			return d, err
		}
	}
	return view.DiffAll(ctx, both[0], both[1], f, limit)
}

// printAll prints the things, the counts, and the tasks.
func (a *Commands) printAll(d *view.Difference, sights []connect.Sight) error {
	for _, t := range []term.Table{thingTable(d), countTable(d), steppedTable(d)} {
		if err := a.Print(t); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.Out); err != nil {
			return err
		}
	}
	for i := range sights {
		if _, err := fmt.Fprintln(a.Out, sights[i].Words(a.Now())); err != nil {
			return err
		}
	}
	return nil
}

func thingTable(d *view.Difference) term.Table {
	t := term.Table{Header: []string{"KIND", "NAME", "FIELD", "WAS", "IS"}, Foot: []string{wording.Plural(len(d.Things), "thing") + " different"}}
	for i := range d.Things {
		k := &d.Things[i]
		if k.How != view.Changed {
			t.Add(term.Plain(k.Kind), term.Plain(k.Name), term.Plain(k.How), term.Plain(""), term.Plain(""))
		}
		for _, c := range k.Changes {
			t.Add(term.Plain(k.Kind), term.Plain(k.Name), term.Plain(c.Field), term.Plain(wording.FieldValue(c.Field, c.Was)), term.Plain(wording.FieldValue(c.Field, c.Is)))
		}
	}
	return t
}

func countTable(d *view.Difference) term.Table {
	t := term.Table{Header: []string{"TASKS", "WERE", "ARE"}, Foot: []string{"in another state: none"}}
	for _, s := range task.States() {
		if n, ok := d.Counts[s.String()]; ok {
			t.Add(wording.StateCell(s), term.Plain(fmt.Sprint(n[0])), term.Plain(fmt.Sprint(n[1])))
		}
	}
	for i, step := range slices.Sorted(maps.Keys(d.Steps)) {
		line := fmt.Sprintf("%s: %d", step, d.Steps[step])
		if i == 0 {
			t.Foot = nil
		}
		t.Foot = append(t.Foot, line)
	}
	return t
}

func steppedTable(d *view.Difference) term.Table {
	t := term.Table{Header: []string{"TASK", "WAS", "IS", "NODE", "WHAT"}, Spare: []string{"WHAT", "NODE"}}
	for i := range d.Tasks {
		k := &d.Tasks[i]
		was := term.Dim(view.New)
		if k.Was != task.Unknown {
			was = wording.StateCell(k.Was)
		}
		t.Add(term.Plain(string(k.Task)), was, wording.StateCell(k.Is), term.Plain(k.Node), term.Plain(term.Cut(k.What, 40)))
	}
	if d.More > 0 {
		t.Foot = []string{fmt.Sprintf("and %d more; --limit names more of them", d.More)}
	}
	return t
}
