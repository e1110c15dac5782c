package pages

import (
	"cmp"
	"context"
	"time"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/jobfile"
	"millrace/task/schedule"
)

var (
	calendarsPage = page{name: "calendars", path: "/calendars", entry: "Calendars", verb: rights.CalendarList, show: showCalendars, inFiles: true}
	calendarPage  = page{name: "calendar", path: "/calendars/{name}", verb: rights.CalendarGet, show: showCalendar, inFiles: true}
)

// Bounds of what the pages of calendars show.
const (
	shownSpans  = 10 // of a calendar, in spansWithin
	spansWithin = 365 * 24 * time.Hour
)

type calendarsData struct {
	list[wording.Calendar]
	// Uses is what goes by each, and UsesWrong why that is not known.
	Uses      map[string]*client.CalendarUses
	UsesWrong panel
}

func showCalendars(ctx context.Context, l *look) (any, error) {
	d := &calendarsData{}
	all, err := client.CalendarsOf(ctx, l.View)
	switch {
	case err != nil && len(all) == 0:
		d.fail(err)
	case err != nil:
		d.Broken = err.Error()
	}
	d.Uses, err = client.CalendarUsesOf(ctx, l.View)
	d.UsesWrong.fail(err)
	for i := range all {
		d.Rows = append(d.Rows, wording.CalendarOf(all[i], l.Now))
	}
	d.columns = term.Choose(wording.CalendarColumns(l.Now), "calendar", "now", "until", "zone", "used by")
	return d, nil
}

type calendarData struct {
	wording.Calendar
	Zone string
	Uses *client.CalendarUses
	// Text is its file.
	Text      string
	Spans     []spanRow
	UsesWrong panel
	Buttons   []button
	Revisions []revision
	// Older is how many revisions are not shown.
	Older int
}

// spanRow is a time for which a calendar is open or closed, on the clock of its zone. The first one
// began earlier; To is "" if it does not end within a year.
type spanRow struct {
	Is, From, To string
	Lasts        time.Duration
}

func showCalendar(ctx context.Context, l *look) (any, error) {
	name, err := l.nameOf(task.DefCalendar)
	if err != nil {
		return nil, err
	}
	is, revisions, older, err := definedOf(ctx, l, task.DefCalendar, name, definitions.CalendarIn, func(c *schedule.StoredCalendar) any { return c.Calendar })
	if err != nil {
		return nil, err
	}
	l.Title = "Calendar " + name
	uses, err := client.CalendarUsesOf(ctx, l.View)
	d := &calendarData{Calendar: wording.CalendarOf(is, l.Now), Zone: cmp.Or(is.Timezone, "UTC"), Uses: cmp.Or(uses[name], &client.CalendarUses{}), Text: fileOfCalendar(&is.Calendar), Spans: spansOf(&is.Calendar, l.Now), Revisions: revisions, Older: older}
	d.UsesWrong.fail(err)
	d.Buttons = l.buttons("calendars", name, nil)
	return d, nil
}

// spansOf returns when a calendar is open and when it is closed, from a moment on.
func spansOf(c *schedule.Calendar, now time.Time) (rows []spanRow) {
	hours, err := c.Hours()
	if err != nil {
		return nil // no stored calendar is invalid
	}
	clock := func(at time.Time) string { return at.In(hours.Zone()).Format("Mon 2006-01-02 15:04 -07:00") }
	for i, s := range hours.Spans(now, shownSpans, spansWithin) {
		row := spanRow{Is: schedule.Closed}
		if s.Open {
			row.Is = schedule.Open
		}
		if i > 0 {
			row.From = clock(s.From)
		}
		if !s.To.IsZero() {
			row.To = clock(s.To)
			if i > 0 {
				row.Lasts = s.To.Sub(s.From)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// fileOfCalendar returns a calendar in the form of its file, or as it is stored if that is impossible.
func fileOfCalendar(c *schedule.Calendar) string {
	text, err := jobfile.MarshalCalendar(c)
	if err != nil {
		return pretty(c)
	}
	return string(text)
}

var calendarEditor = editor{
	Kind: task.DefCalendar, Verb: rights.CalendarApply, Pages: "calendars", Command: "millrace calendar apply FILE", none: definitions.ErrNoCalendar,
	Schema: "openapi.json#/components/schemas/schedule.Calendar",
	Blank:  "name: office\nrules:\n  - open: mon-fri 08:00-18:00\notherwise: closed\n",
	parse: func(name, text string) (draft, error) {
		is, err := jobfile.ParseCalendar(name, []byte(text))
		return draft{name: is.Name, value: is, opens: &is}, err
	},
	stored: func(ctx context.Context, l *look, name string) (draft, string, uint64, error) {
		of, err := l.Get(ctx, view.Definition(task.Named(task.DefCalendar, name)))
		if err != nil {
			return draft{}, "", 0, err
		}
		is, err := definitions.CalendarIn(name, *of.Definition)
		return draft{name: is.Name, value: is.Calendar, opens: &is.Calendar}, fileOfCalendar(&is.Calendar), is.Revision, err
	},
}
