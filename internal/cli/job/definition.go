package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	definition "millrace/task"
)

// The commands that all kinds of definitions share: apply and history.

// applied describes a kind of definitions that are stored from files.
type applied[D any] struct {
	what, use string
	read      func(c *cobra.Command, paths []string) ([]settings.FileOf[D], error)
	name      func(*D) string
	store     func(cl *client.Client, ctx context.Context, file string, d D, seen ...uint64) (revision uint64, changed bool, err error)
	// flags, before and after, if not nil, are called with the command, with all of them and with
	// each. What before returns, if not nil, is called at the end, and returns what was removed; with
	// errDone nothing is stored.
	flags  func(*cobra.Command)
	before func(c *cobra.Command, cl *client.Client, read []settings.FileOf[D], paths []string, json bool) (end func(context.Context) ([]string, error), err error)
	after  func(context.Context, *client.Client, *D)
}

// errDone says that there is nothing left to do.
var errDone = errors.New("done")

// applying returns the command that stores definitions.
func applying[D any](a *Commands, k *applied[D]) *cobra.Command {
	var o settings.Output
	var files []string
	var seen settings.Seen
	c := &cobra.Command{
		Use: k.use, Aliases: []string{"put", "set"},
		Short: "Store the " + k.what + "s of files, or of all files in a folder",
		Long: `Stores the ` + k.what + `s of files; of a folder, those of every .yaml, .yml and .json file in it;
with "-", those from stdin. If any file is wrong, nothing is stored.`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "`file`, folder, or - for stdin (repeat it)")
	seen.Flag(c, k.what)
	if k.flags != nil {
		k.flags(c)
	}
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		paths := append(files, args...)
		read, err := k.read(c, paths)
		if err != nil {
			return err
		}
		if n := countOf(read); seen.Given && n != 1 {
			return term.Misuse(c, "--if-revision is for one %s, and there are %d", k.what, n)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		var end func(context.Context) ([]string, error)
		if k.before != nil {
			if end, err = k.before(c, cl, read, paths, o.JSON()); errors.Is(err, errDone) {
				return nil
			} else if err != nil {
				return err
			}
		}
		type row struct {
			Name     string `json:"name"`
			Revision uint64 `json:"revision"`
			Changed  bool   `json:"changed"`
			File     string `json:"file,omitempty"`
			Removed  bool   `json:"removed,omitempty"`
		}
		done := []row{}
		for _, f := range read {
			for i := range f.All {
				is := &f.All[i]
				asking, cancel := a.Asking(c.Context())
				revision, changed, err := k.store(cl, asking, f.Name, *is, seen.Revisions()...)
				cancel()
				if err != nil {
					return err
				}
				if k.after != nil {
					k.after(c.Context(), cl, is)
				}
				done = append(done, row{Name: k.name(is), Revision: revision, Changed: changed, File: f.Name})
				if o.JSON() {
					continue
				}
				what := "unchanged"
				if changed {
					what = "stored"
				}
				if _, err := fmt.Fprintf(a.Out, "%s %s %s (revision %d)\n", k.what, k.name(is), what, revision); err != nil {
					return err
				}
			}
		}
		if end != nil {
			gone, err := end(c.Context())
			for _, name := range gone {
				done = append(done, row{Name: name, Changed: true, Removed: true})
			}
			if err != nil {
				return err
			}
		}
		if o.JSON() {
			return a.WriteJSON(done)
		}
		return nil
	}
	return c
}

// countOf returns how many definitions are in files.
func countOf[D any](files []settings.FileOf[D]) (n int) {
	for i := range files {
		n += len(files[i].All)
	}
	return n
}

// definitionFacts returns the changes of a definition of a kind.
func definitionFacts(ctx context.Context, v view.View, kind, name string) ([]events.Record, error) {
	return view.All(ctx, v, view.Definition(definition.Named(kind, name)))
}

// edition is one state of a definition, and of what it depends on.
type edition struct {
	revision     uint64
	changed      time.Time
	above, below string // comments around those about changes
	text         []byte // in the form that apply reads
	unfit        error  // why it has no such form
	json         any
	changes      []events.Record
}

// show returns the command that prints a definition in the form that apply reads. read finds its edition
// of a revision, 0 for the current one, with its changes.
func (a *Commands) show(kind, short string, complete connect.Completer, read func(ctx context.Context, cl *client.Client, s *connect.Sight, name string, revision uint64, changes []events.Record) (edition, error)) *cobra.Command {
	var revision uint64
	return (&connect.Reading[edition]{
		Use: "show NAME", Aliases: []string{"cat"}, Short: short,
		Of: kind, Complete: complete, Apart: []string{"revision"}, Forms: []string{"yaml", "json"},
		Flags: func(c *cobra.Command) {
			c.Flags().Uint64Var(&revision, "revision", 0, "as it was at a `revision`; default: as it is now")
		},
		Read: func(ctx context.Context, cl *client.Client, s *connect.Sight, name string) (edition, error) {
			changes, err := definitionFacts(ctx, s.View, kind, name)
			if err != nil {
				return edition{}, err
			}
			is, err := read(ctx, cl, s, name, revision, changes)
			is.changes = changes
			return is, err
		},
		Print: func(is edition, s *connect.Sight) error {
			if is.unfit != nil {
				return is.unfit
			}
			then := ""
			if s.Past != nil {
				then = "# " + s.Words(a.Now()) + "\n"
			}
			_, err := fmt.Fprintf(a.Out, "%s# revision %d, stored %s\n%s%s%s%s", then, is.revision, wording.Clock(is.changed), is.above, changeLines(is.changes, wording.Clock), is.below, is.text)
			return err
		},
		JSON: func(is edition, _ *connect.Sight) any { return is.json },
	}).Command(a.App)
}

// editionOf returns a definition as of a sight: for the past the state of its facts, for the
// present the result of present.
func editionOf[D any](s *connect.Sight, changes []events.Record, name string, read func(string, definition.Definition) (D, error), present func() (D, error)) (D, error) {
	if s.Past == nil {
		return present()
	}
	return read(name, events.FoldDefinition(changes))
}

// some is a list that is not nil, so that it is one in JSON.
func some[T any](list []T, err error) ([]T, error) { return append([]T{}, list...), err }

// difference returns the command that compares definitions.
func difference[D any](a *Commands, kind string, complete connect.Completer, read func(string, definition.Definition) (D, error)) *cobra.Command {
	return task.Of(a.App).Diff(&task.Compared{
		What: kind, Complete: complete,
		Long: `Compares two ` + kind + `s field by field, or one at two moments of the past; with one --at, at that
moment and now. A field is named by its path in the JSON of "` + kind + ` show", and a list is one field, unless its items have names, as steps and parameters.`,
		Example: "  millrace " + kind + " diff nightly weekly\n  millrace " + kind + " diff nightly --at -1h",
		Read: func(ctx context.Context, s *connect.Sight, name string) (any, error) {
			is, err := s.View.Get(ctx, view.Definition(definition.Named(kind, name)))
			if err != nil {
				return nil, err
			}
			return read(name, *is.Definition)
		},
	})
}

// history returns the command that lists the changes of a definition.
func (a *Commands) history(what string, none error, complete connect.Completer) *cobra.Command {
	return (&connect.Reading[[]events.Record]{
		Use: "history NAME", Aliases: []string{"log"},
		Short: "List the changes of a " + what + ": when, by whom, and what to show them by",
		Of:    what, Complete: complete,
		Read: func(ctx context.Context, _ *client.Client, s *connect.Sight, name string) ([]events.Record, error) {
			changes, err := definitionFacts(ctx, s.View, what, name)
			if err == nil && len(changes) == 0 {
				err = &definitions.Absent{Kind: none, Name: name}
			}
			return changes, err
		},
		JSON: func(changes []events.Record, _ *connect.Sight) any { return client.ShowFacts(changes) },
		Table: func(changes []events.Record, _ *connect.Sight) term.Table {
			t := term.Table{Header: []string{"REVISION", "WHEN", "CHANGE", "BY"}, Foot: []string{wording.Plural(len(changes), "change")}}
			for i := range changes {
				r, revision := &changes[i], ""
				if is := events.FoldDefinition(changes[i : i+1]); is.Revision > 0 {
					revision = fmt.Sprint(is.Revision)
				}
				t.Add(term.Plain(revision), term.Plain(wording.Clock(wording.FactTime(r))), term.Plain(wording.FactType(r)), term.Plain(wording.Actor(r)))
			}
			return t
		},
	}).Command(a.App)
}

// changesShown is how many changes of a job are shown with it.
const changesShown = 5

// changeLines are the last changes of a definition as comments, the latest first, on a clock.
func changeLines(changes []events.Record, clock func(time.Time) string) string {
	var b strings.Builder
	for i := len(changes) - 1; i >= max(0, len(changes)-changesShown); i-- {
		r := &changes[i]
		fmt.Fprintf(&b, "# %s %s by %s: %s\n", clock(wording.FactTime(r)), wording.FactType(r), term.Printable(cmp.Or(wording.Actor(r), "somebody")), term.Printable(wording.FactDetails(r)))
	}
	return b.String()
}
