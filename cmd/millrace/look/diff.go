package look

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
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
	Task task.ID           `json:"task"`
	At   *reach.ShownPoint `json:"at,omitempty"`
}

func (a *Commands) taskDiff() *cobra.Command {
	var o typed.Output
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
		Args: typed.Takes(1, -1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	c.Flags().StringArrayVar(&at, "at", nil, reach.AtUsage+" (give it twice for two moments)")
	o.Flags(c)
	compare := a.WithTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error {
		return a.compare(ctx, cl, ids, at, &o)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if two := len(args) == 2 && len(at) == 0; !two && (len(args) != 1 || len(at) == 0 || len(at) > 2) {
			return exit.Misuse(c, "want two tasks, or one and --at once or twice")
		}
		if err := a.Moments(c, at...); err != nil {
			return err
		}
		return troubled(compare(c, args))
	}
	return c
}

// compare prints how two tasks differ now, or one at two moments.
func (a *Commands) compare(ctx context.Context, cl *client.Client, ids []task.ID, at []string, o *typed.Output) error {
	moments := append(slices.Clone(at), "", "") // what is not given is now
	var sights [2]reach.Sight
	var tasks [2]task.Task
	for i := range tasks {
		s, err := a.Sight(ctx, cl, moments[i], reach.Single)
		if err != nil {
			return err
		}
		asking, cancel := a.Asking(ctx)
		tasks[i], err = view.GetTask(asking, s.View, ids[min(i, len(ids)-1)])
		cancel()
		if err != nil {
			return s.Unknown(err)
		}
		sights[i] = s
	}
	was, is := &tasks[0], &tasks[1]
	changes, err := view.DiffItems(view.Item{Task: was}, view.Item{Task: is})
	if err != nil {
		return err
	}
	if o.JSON() {
		err = a.WriteJSON(comparison{side{was.ID, sights[0].Past}, side{is.ID, sights[1].Past}, append([]view.Change{}, changes...)})
	} else {
		t := changeTable(changes)
		for i := range sights {
			sights[i].Mark(&t, a.Now())
		}
		err = a.Print(t)
	}
	if err == nil && len(changes) > 0 {
		err = exit.With(exitDifferent)
	}
	return err
}

func changeTable(changes []view.Change) term.Table {
	t := term.Table{Header: []string{"FIELD", "WAS", "IS"}, Foot: []string{told.Plural(len(changes), "difference")}}
	for _, c := range changes {
		t.Add(term.Plain(c.Field), term.Plain(told.Value(c.Was)), term.Plain(told.Value(c.Is)))
	}
	return t
}

// troubled is an error of a comparison: that of diff, whatever is the matter, unless somebody has interrupted it or
// all is said.
func troubled(err error) error {
	f := exit.Of(err)
	if f == nil || f.Err == nil {
		return err
	}
	return &exit.Fault{Code: exitTrouble, Err: f.Err, Hint: f.Hint}
}
