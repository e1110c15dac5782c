package task

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// The exit codes of a comparison beside [exitOK] are those of diff.
const (
	exitDifferent = 1
	exitTrouble   = 2
)

// comparison lists how two things differ, or one at two moments, in JSON.
type comparison struct {
	Was     side          `json:"was"`
	Is      side          `json:"is"`
	Changes []view.Change `json:"changes"`
}

// side is one of the two compared: its name by what it is, and the moment of the past.
type side map[string]any

func sideOf(what, name string, s *connect.Sight) side {
	is := side{what: name}
	if s.Past != nil {
		is["at"] = s.Past
	}
	return is
}

// Compared describes a kind of things of which two are compared, or one at two moments.
type Compared struct {
	What, Long, Example string
	Complete            connect.Completer
	// Named turns what the user has typed into a name; nil if that is the name.
	Named func(ctx context.Context, cl *client.Client, typed string) (string, error)
	// Read returns what is compared, by its form in JSON.
	Read func(ctx context.Context, s *connect.Sight, name string) (any, error)
	// Good names what one is compared with that stands alone: an earlier run that went well. nil if these are no runs.
	Good func(ctx context.Context, s *connect.Sight, name string) (string, error)
}

// Diff returns the command that compares.
func (a *Commands) Diff(k *Compared) *cobra.Command {
	var o settings.Output
	var at []string
	c := &cobra.Command{
		Use:   "diff NAME [NAME]",
		Short: "Say how two " + k.What + "s differ, or what became of one between two moments",
		Long: k.Long + `

Exit codes are those of diff: 0 without a difference, 1 with one, 2 if it could not be compared.`,
		Example: k.Example, Args: settings.Takes(1, -1, k.What), ValidArgsFunction: k.Complete,
	}
	if k.Named != nil {
		c.Use, c.Args = "diff ID [ID]", settings.Takes(1, -1, k.What+" id")
	}
	c.Flags().StringArrayVar(&at, "at", nil, connect.AtUsage+" (give it twice for two moments)")
	o.Flags(c)
	compare := a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		return a.compare(ctx, cl, k, args, at, &o)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if n := len(args); n > 2 || n == 2 && len(at) > 0 || len(at) > 2 || n == 1 && len(at) == 0 && k.Good == nil {
			return term.Misuse(c, "want two %ss, or one and --at once or twice", k.What)
		}
		if err := a.Moments(c, at...); err != nil {
			return err
		}
		return troubled(compare(c, args))
	}
	return c
}

func (a *Commands) taskDiff() *cobra.Command {
	return a.Diff(&Compared{
		What: "task", Complete: a.CompleteTasks,
		Long: `Compares two tasks field by field, or one at two moments of the past; with one --at, at that
moment and now; or, if you name nothing else, with the last run of its job before it that finished. It compares what
the log says: a field is named by its path in the JSON of "task show", and a list is one field, unless its items have
names, as steps. What differs between any two tasks, such as their ids, is counted, and listed with -o json.`,
		Example: `  millrace task diff ID
  millrace task diff ID ANOTHER
  millrace task diff ID --at -1h
  millrace task diff ID --at 1048211 --at 1048300`,
		Named: func(ctx context.Context, cl *client.Client, typed string) (string, error) {
			if err := connect.PlausibleID(typed); err != nil {
				return "", err
			}
			id, err := a.TaskID(ctx, cl, typed)
			return string(id), err
		},
		Read: func(ctx context.Context, s *connect.Sight, name string) (any, error) {
			return view.GetTask(ctx, s.View, task.ID(name))
		},
		Good: func(ctx context.Context, s *connect.Sight, name string) (string, error) {
			t, err := view.GetTask(ctx, s.View, task.ID(name))
			if err != nil {
				return "", err
			}
			good, err := view.LastGood(ctx, s.View, &t)
			if err == nil && good == nil {
				err = fmt.Errorf("no run of its job before task %s has finished within a month; name another task, or --at", name)
			}
			if err != nil {
				return "", err
			}
			return string(good.ID), nil
		},
	})
}

// compare prints how two things differ now, or one at two moments.
func (a *Commands) compare(ctx context.Context, cl *client.Client, k *Compared, args, at []string, o *settings.Output) error {
	names := slices.Clone(args)
	for i := range names {
		if k.Named != nil {
			var err error
			if names[i], err = k.Named(ctx, cl, args[i]); err != nil {
				return err
			}
		}
	}
	moments := append(slices.Clone(at), "", "") // what is not given means now
	if len(names) == 1 && len(at) == 0 {
		good, err := a.good(ctx, cl, k, names[0])
		if err != nil {
			return err
		}
		names = []string{good, names[0]}
	}
	var sights [2]connect.Sight
	var values [2]any
	var sides [2]side
	for i := range values {
		s, err := a.Sight(ctx, cl, moments[i], connect.Then{})
		if err != nil {
			return err
		}
		name := names[min(i, len(names)-1)]
		asking, cancel := a.Asking(ctx)
		values[i], err = k.Read(asking, &s, name)
		cancel()
		if err != nil {
			return s.Unknown(err)
		}
		sights[i], sides[i] = s, sideOf(k.What, name, &s)
	}
	changes, err := view.DiffValues(values[0], values[1])
	if err != nil {
		return err
	}
	differ := len(changes) > 0
	if o.JSON() {
		err = a.WriteJSON(comparison{sides[0], sides[1], append([]view.Change{}, changes...)})
	} else {
		var always []view.Change
		if k.Good != nil && names[0] != names[len(names)-1] {
			changes, always = view.Telling(changes)
		}
		t := changeTable(changes, len(always))
		for i := range sights {
			sights[i].Mark(&t, a.Now())
		}
		err = a.Print(t)
	}
	if err == nil && differ {
		err = term.ExitWith(exitDifferent)
	}
	return err
}

// good names what a thing is compared with that stands alone.
func (a *Commands) good(ctx context.Context, cl *client.Client, k *Compared, name string) (string, error) {
	s, err := a.Sight(ctx, cl, "", connect.Then{})
	if err != nil {
		return "", err
	}
	asking, cancel := a.Asking(ctx)
	defer cancel()
	good, err := k.Good(asking, &s, name)
	return good, s.Unknown(err)
}

// changeTable lists changes; always is how many more there are between any two.
func changeTable(changes []view.Change, always int) term.Table {
	t := term.Table{Header: []string{"FIELD", "WAS", "IS"}, Foot: []string{wording.Plural(len(changes), "difference")}}
	if always > 0 {
		t.Foot[0] += fmt.Sprintf(", and %d in ids, times, usage and places in the log", always)
	}
	for _, c := range changes {
		t.Add(term.Plain(c.Field), term.Plain(wording.FieldValue(c.Field, c.Was)), term.Plain(wording.FieldValue(c.Field, c.Is)))
	}
	return t
}

// troubled gives any error of a comparison the code that diff uses, unless it is an interruption or
// was printed already.
func troubled(err error) error {
	f := term.FaultOf(err)
	if f == nil || f.Err == nil {
		return err
	}
	return &term.Fault{Code: exitTrouble, Err: f.Err, Hint: f.Hint}
}
