package main

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
	"millrace/view"
)

// The exit codes of a comparison beside [exitOK] are those of diff.
const (
	exitDifferent = 1
	exitTrouble   = 2
)

// comparison is how two tasks differ, or one at two moments, in JSON.
type comparison struct {
	Was     side          `json:"was"`
	Is      side          `json:"is"`
	Changes []view.Change `json:"changes"`
}

// side is one of the two that are compared.
type side struct {
	Task task.ID     `json:"task"`
	At   *shownPoint `json:"at,omitempty"`
}

func (a *app) taskDiff() *cobra.Command {
	var o output
	var at []string
	c := &cobra.Command{
		Use:   "diff ID [ID]",
		Short: "Say how two tasks differ, or what became of one between two moments",
		Long: `Compares two tasks field by field, or one at two moments of the past; with one --at, at that
moment and now. It compares what the log says: a field is named by its path in the JSON of
"task show", and a list is one field. Two tasks differ at least in their ids.

Ends as diff does: with 0 if there is no difference, with 1 if there is, with 2 if that cannot be said.`,
		Example: `  millrace task diff ID ANOTHER
  millrace task diff ID --at -1h
  millrace task diff ID --at 1048211 --at 1048300`,
		Args: takes(1, -1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	c.Flags().StringArrayVar(&at, "at", nil, atUsage+" (give it twice for two moments)")
	o.flags(c)
	compare := a.withTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error {
		return a.compare(ctx, cl, ids, at, &o)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if two := len(args) == 2 && len(at) == 0; !two && (len(args) != 1 || len(at) == 0 || len(at) > 2) {
			return misuse(c, "want two tasks, or one and --at once or twice")
		}
		if err := a.moments(c, at...); err != nil {
			return err
		}
		return troubled(compare(c, args))
	}
	return c
}

// compare prints how two tasks differ now, or one at two moments.
func (a *app) compare(ctx context.Context, cl *client.Client, ids []task.ID, at []string, o *output) error {
	moments := append(slices.Clone(at), "", "") // what is not given is now
	var sights [2]sight
	var tasks [2]task.Task
	for i := range tasks {
		s, err := a.sight(ctx, cl, moments[i], single)
		if err != nil {
			return err
		}
		asking, cancel := a.asking(ctx)
		tasks[i], err = view.GetTask(asking, s.view, ids[min(i, len(ids)-1)])
		cancel()
		if err != nil {
			return s.unknown(err)
		}
		sights[i] = s
	}
	was, is := &tasks[0], &tasks[1]
	changes, err := view.DiffItems(view.Item{Task: was}, view.Item{Task: is})
	if err != nil {
		return err
	}
	if o.json() {
		err = a.writeJSON(comparison{side{was.ID, sights[0].past}, side{is.ID, sights[1].past}, append([]view.Change{}, changes...)})
	} else {
		t := changeTable(changes)
		for i := range sights {
			sights[i].mark(&t, a.now())
		}
		err = a.print(t)
	}
	if err == nil && len(changes) > 0 {
		err = exit(exitDifferent)
	}
	return err
}

// longValue is how much of a value is worth a cell.
const longValue = 80

func changeTable(changes []view.Change) table {
	t := table{header: []string{"FIELD", "WAS", "IS"}, foot: []string{plural(len(changes), "difference")}}
	for _, c := range changes {
		t.add(plain(c.Field), plain(valueText(c.Was)), plain(valueText(c.Is)))
	}
	return t
}

// valueText is a value of JSON for people: a text without its quotes; "" for none.
func valueText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	return cut(text, longValue)
}

// troubled is an error of a comparison: that of diff, whatever is the matter, unless somebody has interrupted it or
// all is said.
func troubled(err error) error {
	f := faultOf(err)
	if f == nil || f.err == nil {
		return err
	}
	return &fault{code: exitTrouble, err: f.err, hint: f.hint}
}
