package pages

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

var (
	schedulesPage = page{name: "schedules", path: "/schedules", entry: "Schedules", verb: rights.ScheduleList, show: showSchedules, inFiles: true}
	schedulePage  = page{name: "schedule", path: "/schedules/{name}", verb: rights.ScheduleGet, show: showSchedule, inFiles: true}
)

// Bounds of what the page of a schedule shows.
const (
	shownTicks  = 200 // of a week: the latest past and the first future ones
	listedTicks = 8   // of a day, one by one; more are counted
	// countedTicks is how many ticks to come of a week are counted: those of every 30 s, and some.
	countedTicks = 25_000
)

type schedulesData struct {
	list[client.ScheduleRow]
	Grid gridData
}

func showSchedules(ctx context.Context, l *look) (any, error) {
	d := &schedulesData{Grid: l.grid(ctx, client.GridRequest{})}
	d.Rows, d.Broken = summed(&d.panel, l.Sums, func(sums view.Summed) ([]client.ScheduleRow, error) {
		return client.ScheduleRowsOf(ctx, l.View, sums, l.Now)
	})
	d.columns = term.Choose(wording.ScheduleColumns(l.Now), "schedule", "when", "zone", "last", "missed", "next", "runs")
	return d, nil
}

// there is when the next tick of a schedule comes on the clock of its zone; "" if that is UTC.
func there(is client.ScheduleRow) string {
	plan, err := is.Plan()
	if err != nil || is.Next == nil || plan.Zone() == time.UTC {
		return ""
	}
	return is.Next.Due.In(plan.Zone()).Format(time.DateTime)
}

type scheduleData struct {
	schedule.Stored
	Timing, Zone, DST, CatchUp, Runs string
	Buttons                          []button
	Week                             week
	// Ticks are the week's past ticks, the latest first, and Coming the next ones, whatever the
	// week.
	Ticks, Coming []tickRow
	TicksWrong    panel
	// More tells that there are more ticks in the week than are shown.
	More     bool
	Backfill backfill
}

// backfill is what a backfill of some time would do.
type backfill struct {
	panel
	From, To string
	Ticks    []tickRow
	// Missing is how many of them have no task.
	Missing int
	More    bool
	// Done is the present progress of all of them; nil for the past.
	Done *client.Backfilled
}

// week is seven days in the schedule's time zone.
type week struct {
	From, Before, After string // dates
	Days                []day
}

type day struct {
	Date  string // with its name
	Today bool
	Ticks []tickRow // if they are few
	// Sums count the ticks by their outcome.
	Sums []tickSum
}

type tickSum struct {
	became
	N int
	// More tells that there are more.
	More bool
}

// became is the outcome of a tick: a word, and the state that it looks like.
type became struct {
	Word  string
	State task.State
}

// tickRow is a tick, with times in the schedule's time zone.
type tickRow struct {
	became
	// At is the tick, Due when its task was to be made if that is later, and Clock its time of day.
	At, Due, Clock string
	// Late is how much later than due its task was made.
	Late    time.Duration
	Task    task.ID
	Of      task.State
	Trigger string
	Why     string

	at time.Time
}

// nameOf returns the name of a definition in the path of a request.
func (l *look) nameOf(kind string) (string, error) {
	name := l.r.PathValue("name")
	if err := value.ValidName(kind, name); err != nil {
		return "", client.Wrong(err)
	}
	return name, nil
}

func showSchedule(ctx context.Context, l *look) (any, error) {
	name, err := l.nameOf("schedule")
	if err != nil {
		return nil, err
	}
	is, err := l.Get(ctx, view.Definition(task.Named(task.DefSchedule, name)))
	if err != nil {
		return nil, err
	}
	d := &scheduleData{}
	if d.Stored, err = definitions.ScheduleIn(name, *is.Definition); err != nil {
		return nil, err
	}
	plan, err := d.Plan()
	if err != nil {
		return nil, err
	}
	l.Title = "Schedule " + name
	d.Timing, d.Zone, d.DST, d.Runs = wording.Planned(&d.When), plan.Zone().String(), plan.Policy(), wording.What(&d.Definition)
	if d.CatchUp = cmp.Or(d.When.CatchUp, job.CatchUpLast); d.CatchUp != job.CatchUpNone {
		d.CatchUp += ", within " + wording.Span(cmp.Or(d.When.CatchUpWindow.Std(), job.DefaultCatchUpWindow))
	}
	d.Buttons = l.buttons("schedules", name, &d.Stored)
	now := l.Now.In(plan.Zone())
	from, err := weekOf(l.Asked("week"), now)
	if err != nil {
		return nil, err
	}
	until := from.AddDate(0, 0, 7)
	past, err := l.ticks(ctx, &d.Stored, plan, from, until)
	d.TicksWrong.fail(err)
	d.More = len(past) >= shownTicks
	var coming []tickRow
	if until.After(now) {
		after := from
		if now.After(after) {
			after = now
		}
		ticks, _ := plan.Between(after, until.Add(-time.Nanosecond), shownTicks)
		coming = rowsOf(ticks, plan, d.toCome())
	}
	d.Week = week{From: from.Format(time.DateOnly), Before: from.AddDate(0, 0, -7).Format(time.DateOnly), After: until.Format(time.DateOnly)}
	d.Week.Days = daysOf(from, now, slices.Concat(past, coming))
	if len(coming) >= shownTicks {
		d.Week.count(from, now, plan, d.toCome())
	}
	if d.More {
		d.TicksWrong.fail(d.Week.made(ctx, l, d.Name, from, past[0].at))
	}
	slices.Reverse(past)
	d.Ticks = past
	d.Coming = comingOf(plan, l.Now, d.toCome())
	d.Backfill = backfill{From: l.Asked("from"), To: l.Asked("to")}
	if d.Backfill.From != "" {
		d.Backfill.fail(d.Backfill.find(ctx, l, &d.Stored, plan))
		d.Backfill.progress(ctx, l, d.Name)
	}
	return d, nil
}

// nextShown is how many future ticks are shown, whatever the week.
const nextShown = 5

// find lists the ticks of the requested time that have no task.
func (b *backfill) find(ctx context.Context, l *look, of *schedule.Stored, plan *schedule.Plan) error {
	now := l.Now.In(plan.Zone())
	from, err := view.ParseTime(b.From, now)
	until := now
	if err == nil && b.To != "" {
		until, err = view.ParseTime(b.To, now)
	}
	if err != nil {
		return client.Wrong(err)
	}
	ticks, more, err := of.Passed(from, until, now, shownTicks)
	if err != nil {
		return err
	}
	b.Ticks, b.More = rowsOf(ticks, plan, became{"no task", task.Unknown}), more
	for i := range b.Ticks {
		row := &b.Ticks[i]
		made, err := view.GetTask(ctx, l.View, schedule.TaskID(of.Name, row.at))
		switch {
		case errors.Is(err, task.ErrUnknown):
			b.Missing++
		case err != nil:
			return err
		default:
			row.Task, row.Of, row.became = made.ID, made.State, becameOf(&client.TickReport{Outcome: client.TickTask, State: made.State})
		}
	}
	return nil
}

// progress finds out how the ticks stand; that time may hold more of them than are shown.
func (b *backfill) progress(ctx context.Context, l *look, name string) {
	if b.Wrong != nil || l.Past {
		return
	}
	done := &client.Backfilled{}
	err := l.ask(ctx, rights.ScheduleProgress, client.Backfill{Name: name, From: b.From, To: b.To}, done)
	if b.fail(err); err == nil {
		b.Done = done
	}
}

// toCome is the outcome shown for future ticks.
func (d *scheduleData) toCome() became {
	if d.Paused != nil {
		return became{"paused", task.Held}
	}
	return became{"to come", task.Scheduled}
}

// comingOf returns the next ticks of a plan.
func comingOf(plan *schedule.Plan, after time.Time, becomes became) (rows []tickRow) {
	ticks, _ := plan.Between(after, after.AddDate(100, 0, 0), nextShown)
	return rowsOf(ticks, plan, becomes)
}

func rowsOf(ticks []schedule.Tick, plan *schedule.Plan, becomes became) (rows []tickRow) {
	for i := range ticks {
		row := tickRow{became: becomes, Why: ticks[i].Note}
		row.times(ticks[i].At, ticks[i].Due, plan.Zone())
		rows = append(rows, row)
	}
	return rows
}

// ticks returns the past ticks of some time: by the current definition since it applies, and before
// that those with a task.
func (l *look) ticks(ctx context.Context, of *schedule.Stored, plan *schedule.Plan, from, until time.Time) (rows []tickRow, err error) {
	reports, err := l.Ticks(ctx, of, from.Add(-time.Nanosecond), until.Add(-time.Nanosecond), shownTicks)
	if err != nil {
		return nil, err
	}
	seen := map[task.ID]bool{}
	for i := range reports {
		r := &reports[i]
		row := tickRow{became: becameOf(r), Task: r.Task, Of: r.State, Trigger: r.Trigger, Why: r.Why}
		if r.Task != "" && r.Trigger == task.TriggerSchedule {
			row.Late = max(r.Made.Sub(r.Due), 0)
		}
		row.times(r.Tick, r.Due, plan.Zone())
		seen[r.Task] = true
		rows = append(rows, row)
	}
	earlier, err := l.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Schedule: of.Name, Since: from, Limit: shownTicks}})
	for i := range earlier.Tasks {
		t := &earlier.Tasks[i]
		if t.Tick.Before(from) || !t.Tick.Before(until) || seen[t.ID] {
			continue
		}
		row := tickRow{became: becameOf(&client.TickReport{Outcome: client.TickTask, State: t.State}), Task: t.ID, Of: t.State, Trigger: t.Trigger}
		row.times(t.Tick, time.Time{}, plan.Zone())
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b tickRow) int { return a.at.Compare(b.at) })
	return rows[max(0, len(rows)-shownTicks):], err
}

func (r *tickRow) times(at, due time.Time, zone *time.Location) {
	r.at, r.At, r.Clock = at, at.In(zone).Format("2006-01-02 15:04:05 -07:00"), at.In(zone).Format("15:04")
	if at.Second() > 0 {
		r.Clock = at.In(zone).Format(time.TimeOnly)
	}
	if due.After(at) {
		r.Due = due.In(zone).Format(time.TimeOnly)
	}
}

// count counts the ticks to come of each day.
func (w *week) count(from, now time.Time, plan *schedule.Plan, becomes became) {
	left := countedTicks
	for i := range w.Days {
		on, next := from.AddDate(0, 0, i), from.AddDate(0, 0, i+1)
		if !next.After(now) {
			continue
		}
		after := on.Add(-time.Nanosecond)
		if now.After(after) {
			after = now
		}
		ticks, more := plan.Between(after, next.Add(-time.Nanosecond), left)
		left -= len(ticks)
		w.Days[i].sum(tickSum{becomes, len(ticks), more})
	}
}

// made counts the tasks of each day by their ticks, up to the day of a tick before which ticks are not
// read singly. The id of such a task has the time of its tick.
func (w *week) made(ctx context.Context, l *look, name string, from, read time.Time) error {
	all, left, until := make([]map[became]int, 7), countedTicks, from
	for i := range all {
		if all[i] = map[became]int{}; !read.Before(until) {
			until = from.AddDate(0, 0, i+1)
		}
	}
	f := view.Filter{Schedule: name, After: task.ID(events.NewID(until)), Limit: view.MaxLimit}
	for more := true; more; {
		page, err := l.List(ctx, view.Query{Kind: view.Tasks, Filter: f})
		if err != nil {
			return err
		}
		more = page.Next != "" && left > 0
		for i := range page.Tasks {
			t := &page.Tasks[i]
			if f.After = t.ID; t.Tick.Before(from) && !t.Tick.IsZero() {
				more = false
				break
			}
			for on := range all {
				if !t.Tick.Before(from.AddDate(0, 0, on)) && t.Tick.Before(from.AddDate(0, 0, on+1)) {
					all[on][becameOf(&client.TickReport{Outcome: client.TickTask, State: t.State}).counted()]++
				}
			}
			left--
		}
	}
	for i, sums := range all {
		for is, n := range sums {
			w.Days[i].sum(tickSum{is, n, left <= 0})
		}
	}
	return nil
}

// sum replaces the number of a day's ticks with an outcome.
func (d *day) sum(is tickSum) {
	d.Ticks = nil
	d.Sums = slices.DeleteFunc(d.Sums, func(old tickSum) bool { return old.Word == is.Word })
	if is.N > 0 || is.More {
		d.Sums = append(d.Sums, is)
	}
	slices.SortFunc(d.Sums, func(a, b tickSum) int { return cmp.Compare(a.Word, b.Word) })
}

// becameOf returns the outcome of a tick.
func becameOf(r *client.TickReport) became {
	switch r.Outcome {
	case client.TickTask:
		if r.State.Failed() {
			return became{"failed", r.State}
		}
		if r.State.Terminal() || r.State == task.Unknown {
			return became{"ran", r.State}
		}
		return became{r.State.String(), r.State}
	case client.TickSkipped:
		return became{"skipped", task.Cancelled}
	case client.TickHole:
		return became{"missed", task.Abnormal}
	}
	return became{r.Outcome, task.Pending}
}

// counted is the outcome under which a day counts one: those of one word are one number.
func (b became) counted() became {
	switch b.Word {
	case "ran":
		b.State = task.Finished
	case "failed":
		b.State = task.Error
	}
	return b
}

// weekOf returns the Monday of a date's week, "" for today, in now's time zone.
func weekOf(date string, now time.Time) (time.Time, error) {
	on := now
	if date != "" {
		var err error
		if on, err = time.ParseInLocation(time.DateOnly, date, now.Location()); err != nil || on.Year() < 1970 || on.Year() > 9000 {
			return on, client.Wrongf("week is %q, want a date such as 2026-03-01", date)
		}
	}
	y, m, d := on.Date()
	return time.Date(y, m, d-(int(on.Weekday())+6)%7, 0, 0, 0, 0, now.Location()), nil
}

// daysOf lays out ticks over the days of a week.
func daysOf(from, now time.Time, ticks []tickRow) []day {
	days := make([]day, 7)
	for i := range days {
		on := from.AddDate(0, 0, i)
		d := &days[i]
		d.Date, d.Today = on.Format("Mon 2 Jan"), on.Format(time.DateOnly) == now.Format(time.DateOnly)
		for j := range ticks {
			if at := ticks[j].at; at.Before(on) || !at.Before(on.AddDate(0, 0, 1)) {
				continue
			}
			d.Ticks = append(d.Ticks, ticks[j])
			n := slices.IndexFunc(d.Sums, func(s tickSum) bool { return s.Word == ticks[j].Word })
			if n < 0 {
				n, d.Sums = len(d.Sums), append(d.Sums, tickSum{became: ticks[j].became})
			}
			d.Sums[n].N++
		}
		if len(d.Ticks) > listedTicks {
			d.Ticks = nil
		} else {
			d.Sums = nil
		}
	}
	return days
}

// gridRows is how many schedules a page shows.
const gridRows = 25

// gridData is what became of planned runs, as a part of a page.
type gridData struct {
	panel
	client.Grid
	// Shown tells that there is something to show, or why there is not.
	Shown bool
	// Before and After are times in the columns before and after those shown.
	Before, After string
	Legend        []string

	zone *time.Location
}

// grid finds out what became of the planned runs that a request chooses, by the days or hours of the page.
func (l *look) grid(ctx context.Context, r client.GridRequest) (d gridData) {
	r.By, r.Until, r.Cursor, r.Limit = l.Asked("by"), l.Asked("until"), l.Asked("rows"), gridRows
	is, err := l.Sight.Grid(ctx, r)
	d.fail(err)
	d.Grid, d.Shown, d.zone = is, err != nil || len(is.Rows) > 0, time.UTC
	if err != nil {
		return d
	}
	if zone, err := time.LoadLocation(is.Zone); err == nil {
		d.zone = zone
	}
	d.Legend = wording.GridLegend(&is)
	d.Before = is.Columns[0].Add(-time.Second).UTC().Format(time.RFC3339)
	if after := is.End.Add(is.End.Sub(is.Columns[0]) - time.Second); after.Before(l.Now) {
		d.After = after.UTC().Format(time.RFC3339)
	}
	return d
}

// Head is the heading of a column.
func (d *gridData) Head(begins time.Time) string {
	if begins = begins.In(d.zone); d.By == "day" {
		return begins.Format("Mon 2")
	}
	return begins.Format("15:04")
}

// mark is what a cell shows.
type mark struct {
	Mark, Text string
	State      task.State
	// To is the page with more, nil for none. Stop tells that it is a stop of the tabulator: arrow keys go on.
	To   []string
	Stop bool
}

// plannedStates are the states that planned runs look like.
var plannedStates = map[string]task.State{
	client.PlannedRan: task.Finished, client.PlannedFailed: task.Error, client.PlannedMissed: task.Abnormal, client.PlannedCancelled: task.Cancelled,
	client.PlannedRunning: task.Running, client.PlannedWaiting: task.Pending, client.PlannedDue: task.Pending, client.PlannedSkipped: task.Scheduled,
}

// Marks are the cells of a row.
func (d *gridData) Marks(row client.GridRow) []mark {
	marks := make([]mark, len(row.Cells))
	for i := range row.Cells {
		c, begins := &row.Cells[i], d.Columns[i].In(d.zone)
		m := mark{Mark: wording.GridCell(c).Text, State: plannedStates[c.Worst()]}
		if m.Mark != "" {
			m.Text = row.Schedule + ", " + begins.Format(map[string]string{"hour": "Mon 2 Jan 15:04", "day": "Mon 2 Jan"}[d.By]) + ": " + wording.GridText(c, d.zone)
		}
		switch {
		case c.Worst() == client.PlannedNext || c.Worst() == client.PlannedForgot:
		case len(c.Runs) == 1 && c.Runs[0].Task != "":
			m.To = []string{"tasks", string(c.Runs[0].Task)}
		default:
			m.To = []string{"schedules", row.Schedule}
		}
		marks[i] = m
	}
	for i := range slices.Backward(marks) {
		if marks[i].Mark != "" && marks[i].To != nil {
			marks[i].Stop = true
			break
		}
	}
	return marks
}
