package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/exit"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/jobfile"
	"millrace/task/schedule"
)

// Calendars is millrace calendar.
func (a *Commands) Calendars() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "calendar", Aliases: []string{"calendars", "cal"},
		Short: "Calendars: named hours, for jobs and queues whose tasks start only in them",
		Example: `  millrace calendar apply night.yaml
  millrace calendar ls
  millrace calendar show night > night.yaml`,
	})
	c.AddCommand(a.calendarApply(), a.calendarList(), a.calendarShow(),
		a.history("calendar", definitions.ErrNoCalendar, a.CompleteCalendars),
		difference(a, task.DefCalendar, a.CompleteCalendars, definitions.CalendarIn))
	return c
}

func (a *Commands) calendarApply() *cobra.Command {
	name := func(is *schedule.Calendar) string { return is.Name }
	return applying(a, &applied[schedule.Calendar]{
		what: "calendar", use: "apply FILE|DIR|-...", name: name,
		store: func(cl *client.Client, ctx context.Context, _ string, is schedule.Calendar, seen ...uint64) (uint64, bool, error) {
			return cl.ApplyCalendar(ctx, is, seen...)
		},
		read: func(c *cobra.Command, paths []string) ([]settings.FileOf[schedule.Calendar], error) {
			return settings.ReadFiles(a.In, c, paths, jobfile.ParseCalendars, "calendar", exit.Hint("docs/calendars.md says what a calendar may hold"), name)
		},
	})
}

func (a *Commands) calendarList() *cobra.Command {
	var o settings.Output
	var names bool
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the calendars, and whether they are open", Args: settings.Takes(0, 0, "")}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names")
	sight := a.AtFlag(c, connect.Then{Folds: []view.Kind{view.Definitions}})
	o.Flags(c)
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		ctx, cancel := a.Asking(ctx)
		defer cancel()
		all, broken := client.CalendarsOf(ctx, s.View)
		if broken != nil && len(all) == 0 {
			return broken
		}
		rows := []wording.Calendar{}
		t := term.Table{
			Header: []string{"CALENDAR", "TITLE", "NOW", "ZONE", "RULES", "REVISION", "CHANGED"},
			Spare:  []string{"CHANGED", "REVISION", "RULES"},
			Foot:   []string{wording.Plural(len(all), "calendar")},
		}
		for _, is := range all {
			row := wording.CalendarOf(is, s.Now())
			rows = append(rows, row)
			t.Add(term.Plain(is.Name), term.Plain(term.Cut(is.Title, 40)), term.Plain(row.Standing()), term.Plain(cmp.Or(is.Timezone, "UTC")), term.Plain(fmt.Sprint(len(is.Rules))),
				term.Plain(fmt.Sprint(is.Revision)), term.Plain(wording.Age(is.Changed, s.Now())))
		}
		s.Mark(&t, a.Now())
		switch {
		case o.JSON():
			a.NoteMoment(&s)
			err = a.WriteJSON(rows)
		case names:
			for i := range rows {
				fmt.Fprintln(a.Out, rows[i].Name)
			}
		default:
			err = a.Print(t)
		}
		return errors.Join(err, broken)
	})
	return c
}

func (a *Commands) calendarShow() *cobra.Command {
	var o settings.Output
	var revision uint64
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info", "cat"},
		Short: "Print a calendar, in the form that apply reads, whether it is open, and who changed it last",
		Args:  settings.Takes(1, 1, "calendar"), ValidArgsFunction: a.CompleteCalendars,
	}
	c.Flags().Uint64Var(&revision, "revision", 0, "as it was at a `revision`; default: as it is now")
	sight := a.AtFlag(c, connect.Then{})
	c.MarkFlagsMutuallyExclusive("at", "revision")
	o.Flags(c, "yaml", "json")
	c.RunE = a.Brief(func(ctx context.Context, cl *client.Client, args []string) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		changes, err := definitionFacts(ctx, s.View, task.DefCalendar, args[0])
		if err != nil {
			return err
		}
		is, err := editionOf(&s, changes, args[0], definitions.CalendarIn, func() (schedule.StoredCalendar, error) { return cl.CalendarAt(ctx, args[0], revision) })
		if err != nil {
			return err
		}
		row := wording.CalendarOf(is, s.Now())
		if o.JSON() {
			return a.WriteJSON(struct {
				wording.Calendar
				Changes []client.ShownFact  `json:"changes"`
				At      *connect.ShownPoint `json:"at,omitempty"`
			}{row, client.ShowFacts(changes), s.Past})
		}
		text, err := jobfile.MarshalCalendar(&is.Calendar)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "%s# revision %d, stored %s\n# %s\n%s%s", thenLine(&s, a.Now()), is.Revision, wording.Clock(is.Changed), row.Standing(), changeLines(changes, wording.Clock), text)
		return err
	})
	return c
}
