package job

import (
	"context"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/internal/cli/connect"
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
			return settings.ReadFiles(a.In, c, paths, jobfile.ParseCalendars, "calendar", term.Hint("docs/calendars.md says what a calendar may hold"), name)
		},
	})
}

func (a *Commands) calendarList() *cobra.Command {
	return (&connect.Reading[[]wording.Calendar]{
		Use: "ls", Short: "List the calendars, and whether they are open",
		Then: connect.Then{Folds: []view.Kind{view.Definitions}},
		Read: func(ctx context.Context, _ *client.Client, s *connect.Sight, _ string) ([]wording.Calendar, error) {
			all, broken := client.CalendarsOf(ctx, s.View)
			rows := make([]wording.Calendar, len(all))
			for i := range all {
				rows[i] = wording.CalendarOf(all[i], s.Now())
			}
			return rows, broken
		},
		Table: calendarList.Table, Names: calendarList.Names, Called: "names",
	}).Command(a.App)
}

var calendarList = connect.ListOf("calendar", wording.CalendarColumns)

func (a *Commands) calendarShow() *cobra.Command {
	return a.show("calendar", "Print a calendar, in the form that apply reads, whether it is open, and who changed it last", a.CompleteCalendars,
		func(ctx context.Context, cl *client.Client, s *connect.Sight, name string, revision uint64, changes []events.Record) (is edition, err error) {
			c, err := editionOf(s, changes, name, definitions.CalendarIn, func() (schedule.StoredCalendar, error) { return cl.CalendarAt(ctx, name, revision) })
			if err != nil {
				return is, err
			}
			row := wording.CalendarOf(c, s.Now())
			is = edition{revision: c.Revision, changed: c.Changed, above: "# " + row.Standing() + "\n", json: struct {
				wording.Calendar
				Changes []client.ShownFact `json:"changes"`
			}{row, client.ShowFacts(changes)}}
			is.text, is.unfit = jobfile.MarshalCalendar(&c.Calendar)
			return is, nil
		})
}
