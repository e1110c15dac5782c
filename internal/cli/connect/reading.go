package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task/value"
)

// Reading is a command that shows something, as it is or as it was at a moment of the past: a list of
// things, or one thing that its argument names. It declares what is special about it. Its arguments,
// completion, connection, --at, --names, --watch, -o, the bounds of its requests, and what it says of a
// name that there is not are those of all such commands.
type Reading[A any] struct {
	// Use is the command with what it takes, as "show NAME". A list has the other name list, and show
	// has view and info, beside Aliases.
	Use                  string
	Aliases              []string
	Short, Long, Example string
	// Of is what its argument names, in errors and for completion; "" takes none, and Maybe lets it
	// be left out. Valid refuses a name before anything is asked. Default: any may be asked for.
	Of       string
	Maybe    bool
	Complete Completer
	Valid    func(name string) error
	// Flags adds its own flags, and Check says what is wrong with them before anything is asked.
	Flags func(c *cobra.Command)
	Check func() error
	// Then describes its answer about the past, with which the flags of Apart do not go.
	Then  Then
	Apart []string
	// Watch adds --watch.
	Watch bool
	// Request asks a server. Read looks for itself: at all if there is no Request, else at the present.
	Request func(ctx context.Context, cl *client.Client, name string, q Question) (A, error)
	Read    func(ctx context.Context, cl *client.Client, s *Sight, name string) (A, error)
	// Slow says that Read may fold the log, and bounds its other requests itself.
	Slow bool
	// Names adds --names, which prints these. An answer with names is shown, and an error beside it
	// comes at the end. Called is what the flag prints.
	Names  func(A, *Sight) []string
	Called string
	// Alone says what is not known where no server answers, and the rest is shown. Default: nothing is.
	Alone string
	// Table shows an answer. Print, if it is there, does so instead, and names the moment itself.
	Table func(A, *Sight) term.Table
	Print func(A, *Sight) error
	// JSON is an answer for -o json. Default: the answer.
	JSON func(A, *Sight) any
	// Forms are those of -o. Default: table and json.
	Forms []string
}

// List shows answers that are lists: a row for each thing. [Reading.Names] are what stands in the first column.
type List[A, R any] struct {
	Of      func(A) []R
	Columns func(*Sight) []term.Column[R]
	Foot    func(A, *Sight) []string // lines below the rows
}

// ListOf shows a list of things of a noun, whose columns are those of a moment.
func ListOf[R any](noun string, columns func(time.Time) []term.Column[R]) List[[]R, R] {
	return List[[]R, R]{
		func(all []R) []R { return all },
		func(s *Sight) []term.Column[R] { return columns(s.Now()) },
		func(all []R, _ *Sight) []string { return []string{wording.Plural(len(all), noun)} },
	}
}

// Table is for [Reading.Table], and Names for its Names.
func (l *List[A, R]) Table(answer A, s *Sight) term.Table {
	t := term.List(l.Of(answer), l.Columns(s)...)
	t.Foot = l.Foot(answer, s)
	return t
}

func (l *List[A, R]) Names(answer A, s *Sight) (names []string) {
	for _, row := range term.List(l.Of(answer), l.Columns(s)[0]).Rows {
		names = append(names, row[0].Text)
	}
	return names
}

// usual are the other names of commands by their first word.
var usual = map[string][]string{"ls": {"list"}, "show": {"view", "info"}}

// Command makes the command, for one run.
func (r *Reading[A]) Command(a *App) *cobra.Command {
	var o settings.Output
	var names, watch bool
	word, _, _ := strings.Cut(r.Use, " ")
	least, most := 1, 1
	switch {
	case r.Of == "":
		least, most = 0, 0
	case r.Maybe:
		least = 0
	}
	c := &cobra.Command{
		Use: r.Use, Aliases: append(usual[word], r.Aliases...), Short: r.Short, Long: r.Long, Example: r.Example,
		Args: settings.Takes(least, most, r.Of), ValidArgsFunction: r.Complete,
	}
	if r.Names != nil {
		c.Flags().BoolVar(&names, "names", false, "print nothing but "+r.Called)
	}
	if r.Watch {
		WatchFlag(c, &watch)
	}
	if r.Flags != nil {
		r.Flags(c)
	}
	sight := a.AtFlag(c, r.Then)
	o.Flags(c, r.Forms...)
	for _, flag := range r.Apart {
		c.MarkFlagsMutuallyExclusive("at", flag)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		name := strings.Join(args, "")
		if err := r.check(name); err != nil {
			return term.Misuse(c, "%w", err)
		}
		return a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
			s, err := sight(ctx, cl)
			if err != nil {
				return err
			}
			err = r.show(ctx, a, cl, &s, name, &o, names, watch)
			return a.Meant(ctx, cl, s.Unknown(err), name)
		})(c, args)
	}
	return c
}

// check says what is wrong with what was typed.
func (r *Reading[A]) check(name string) error {
	if r.Valid != nil {
		if err := r.Valid(name); err != nil {
			return err
		}
	}
	if r.Check != nil {
		return r.Check()
	}
	return nil
}

// show prints what is asked for in a sight.
func (r *Reading[A]) show(ctx context.Context, a *App, cl *client.Client, s *Sight, name string, o *settings.Output, names, watch bool) error {
	look := func(asking context.Context) (A, error) {
		if r.Slow {
			asking = ctx
		}
		return r.Read(asking, cl, s, name)
	}
	if r.Request != nil && (s.Past != nil || r.Read == nil) {
		look = Look(ctx, a, cl, s, func(ctx context.Context, q Question) (A, error) { return r.Request(ctx, cl, name, q) })
	}
	var broken error // beside what is shown
	alone := false
	whole := func(ctx context.Context) (A, error) {
		answer, err := look(ctx)
		alone = r.Alone != "" && errors.Is(err, jet.ErrNoService)
		switch {
		case alone:
			err = nil
		case r.Names != nil && len(r.Names(answer, s)) > 0:
			broken, err = err, nil
		}
		return answer, err
	}
	err := r.print(ctx, a, s, o, names, watch, whole)
	if alone && !names {
		a.Note("%s", r.Alone)
	}
	if broken != nil {
		err = errors.Join(err, broken)
	}
	return err
}

// print prints answers in the form that is asked for.
func (r *Reading[A]) print(ctx context.Context, a *App, s *Sight, o *settings.Output, names, watch bool, look func(context.Context) (A, error)) error {
	if names || r.Print != nil && !o.JSON() {
		asking, cancel := a.Asking(ctx)
		defer cancel()
		answer, err := look(asking)
		switch {
		case err != nil:
			return err
		case !names:
			return r.Print(answer, s)
		}
		for _, name := range r.Names(answer, s) {
			fmt.Fprintln(a.Out, name)
		}
		return nil
	}
	return a.Show(ctx, watch, o, func(ctx context.Context) (Frame, error) {
		answer, err := look(ctx)
		if err != nil {
			return Frame{}, err
		}
		if o.JSON() {
			return Frame{JSON: r.json(a, answer, s)}, nil
		}
		t := r.Table(answer, s)
		s.Mark(&t, a.Now())
		return Frame{Table: t}, nil
	})
}

// json is an answer as JSON. Of the past, an object says the moment; a list has no place for it.
func (r *Reading[A]) json(a *App, answer A, s *Sight) any {
	var is any = answer
	if r.JSON != nil {
		is = r.JSON(answer, s)
	}
	switch {
	case s.Past == nil:
		return is
	case reflect.TypeOf(is).Kind() == reflect.Slice:
		a.NoteMoment(s)
		return is
	}
	return dated{is, s.Past}
}

// dated is an object with its moment.
type dated struct {
	answer any
	at     *ShownPoint
}

// MarshalJSON implements [json.Marshaler]: the moment is the last field.
func (d dated) MarshalJSON() ([]byte, error) {
	text, err := value.JSON(d.answer)
	if err != nil {
		return nil, err
	}
	at, err := value.JSON(d.at)
	return bytes.Join([][]byte{bytes.TrimSuffix(text, []byte("}")), []byte(`,"at":`), at, []byte("}")}, nil), err
}
