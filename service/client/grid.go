package client

import (
	"cmp"
	"context"
	"slices"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Bounds of a [Grid].
const (
	MostGridColumns = 48
	MostGridRows    = 100
	gridRows        = 50             // by default
	gridRuns        = 8              // planned runs of a cell that it names one by one
	gridLooked      = 1500           // planned runs of an answer that are looked up one by one
	gridComputed    = 2 * gridLooked // those that are computed for it, at most
	gridRead        = 25             // schedules of an answer of which older definitions, or decisions, are read
)

// GridRequest asks what became of planned runs, by schedules and days or hours.
type GridRequest struct {
	// Name is one schedule, and Job a job whose schedules are meant. Default: all schedules.
	Name string `json:"name,omitempty"`
	Job  string `json:"job,omitempty"`
	// Jobs leaves out schedules of commands.
	Jobs bool `json:"jobs,omitempty"`
	// By is day, the default, or hour: what a column is.
	By string `json:"by,omitempty"`
	// Columns is how many there are: 1 to 48, by default 14 days or 24 hours.
	Columns int `json:"columns,omitempty"`
	// Until is a time in the last column, as people type times of the past. Default: the moment.
	Until string `json:"until,omitempty"`
	// Zone is the IANA name of the zone whose days and hours columns are. Default: that of most schedules.
	Zone string `json:"zone,omitempty"`
	// At is the moment of the answer: a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
	// Limit is how many schedules a page has: 1 to 100, default 50. Cursor is the Next of the page before.
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// Check completes a request, and says what is wrong with it.
func (r *GridRequest) Check() error {
	r.By = cmp.Or(r.By, "day")
	r.Columns, r.Limit = cmp.Or(r.Columns, map[string]int{"hour": 24}[r.By], 14), cmp.Or(r.Limit, gridRows)
	switch {
	case r.By != "day" && r.By != "hour":
		return Wrongf("by is %q, want day or hour", r.By)
	case r.Columns < 1 || r.Columns > MostGridColumns:
		return Wrongf("columns is %d, want 1 to %d", r.Columns, MostGridColumns)
	case r.Limit < 1 || r.Limit > MostGridRows:
		return Wrongf("limit is %d, want 1 to %d", r.Limit, MostGridRows)
	case r.Name != "" && r.Job != "":
		return Wrongf("name and job are both set: choose one")
	}
	if _, err := time.LoadLocation(r.Zone); err != nil || r.Zone == "Local" {
		return Wrongf("zone is %q, want an IANA name such as Europe/Berlin", r.Zone)
	}
	return nil
}

// Grid is what became of the planned runs of schedules.
type Grid struct {
	// By is day or hour, and Zone the zone whose days or hours these are.
	By   string `json:"by"`
	Zone string `json:"zone"`
	// Rows are schedules by name. Broken names those that are not valid.
	Rows   []GridRow `json:"rows"`
	Broken string    `json:"broken,omitempty"`
	// Columns are when the columns begin, and End is when the last one ends.
	Columns []time.Time `json:"columns"`
	End     time.Time   `json:"end"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
}

// GridRow is a schedule.
type GridRow struct {
	// Schedule is its name, Job what it makes tasks of, "" for a command, and Paused tells that it makes none.
	Schedule string `json:"schedule"`
	Job      string `json:"job,omitempty"`
	Paused   bool   `json:"paused,omitempty"`
	// Cells are its planned runs in each column.
	Cells []GridCell `json:"cells"`
	// Partly tells that it has more planned runs than are looked up: failed and skipped ones are counted alone.
	Partly bool `json:"partly,omitempty"`
}

// Key is by what rows are in order.
func (r *GridRow) Key() string { return r.Schedule }

// GridCell is what became of the planned runs of a schedule in a day or hour.
type GridCell struct {
	// N counts them by [TickReport.Word]. Runs are all of them, if they are few.
	N    map[string]int `json:"n,omitempty"`
	Runs []TickReport   `json:"runs,omitempty"`
	// Many tells that there are planned runs which are not looked up.
	Many bool `json:"many,omitempty"`
}

// What became of planned runs, in a word. The worst comes first.
const (
	PlannedMissed    = "missed"
	PlannedFailed    = "failed"
	PlannedCancelled = "cancelled"
	PlannedSkipped   = "skipped"
	PlannedRunning   = "running"
	PlannedWaiting   = "waiting"
	PlannedDue       = "due"
	PlannedRan       = "ran"
	PlannedForgot    = "not kept"
	PlannedNext      = "next"
)

// PlannedWords are these words, the worst first.
var PlannedWords = []string{PlannedMissed, PlannedFailed, PlannedCancelled, PlannedSkipped, PlannedRunning, PlannedWaiting, PlannedDue, PlannedRan, PlannedForgot, PlannedNext}

// Word says in a word what became of a planned run.
func (r *TickReport) Word() string {
	switch r.Outcome {
	case TickTask:
		switch {
		case r.State == task.Finished:
			return PlannedRan
		case r.State.Failed():
			return PlannedFailed
		case r.State == task.Cancelled:
			return PlannedCancelled
		case r.State == task.Running, r.State == task.Cancelling:
			return PlannedRunning
		}
		return PlannedWaiting
	case TickSkipped:
		if r.Reason == task.SkipMissed || r.Reason == task.SkipWindow {
			return PlannedMissed
		}
		return PlannedSkipped
	case TickHole:
		return PlannedMissed
	case TickForgot:
		return PlannedForgot
	case TickNext:
		return PlannedNext
	case TickDue:
		return PlannedDue
	}
	return PlannedWaiting
}

// Worst is the worst word of a cell; "" if nothing is known of it.
func (c *GridCell) Worst() string {
	for _, word := range PlannedWords {
		if c.N[word] > 0 {
			return word
		}
	}
	return ""
}

// add counts a planned run.
func (c *GridCell) add(word string, n int) {
	if c.N == nil {
		c.N = map[string]int{}
	}
	c.N[word] += n
}

// Grid asks a server what became of planned runs. The error wraps [jet.ErrNoService] if none answers.
func (c *Client) Grid(ctx context.Context, r GridRequest) (g Grid, err error) {
	return g, c.ask(ctx, rights.ScheduleGrid, r, &g)
}

// Gridded is the world of a grid: a place in the log.
type Gridded struct {
	view.View
	Sums view.Ticked
	// Decided reads the decisions on ticks of a schedule since a time.
	Decided func(ctx context.Context, name string, from time.Time) ([]events.Record, error)
	// At is the place, without a sequence for the present, and Begins when the log begins.
	At     view.Point
	Begins time.Time
}

// gridRow is a row that is being made.
type gridRow struct {
	stored  *schedule.Stored
	plan    *schedule.Plan
	ticks   []gridTick
	is      *GridRow
	decided []view.TickDecision
}

// gridTick is a tick that the schedule owed, or that is shown if it has a task.
type gridTick struct {
	schedule.Tick
	owed bool
}

// GridOf makes a grid. The error wraps [definitions.ErrNoSchedule] if the one that is asked for does not exist.
func GridOf(ctx context.Context, w *Gridded, r GridRequest) (g Grid, err error) {
	if err := r.Check(); err != nil {
		return g, err
	}
	all, broken := SchedulesOf(ctx, w.View)
	if broken != nil && len(all) == 0 {
		return g, broken
	}
	if broken != nil && r.Name == "" {
		g.Broken = broken.Error()
	}
	all = slices.DeleteFunc(all, func(s schedule.Stored) bool {
		return r.Name != "" && s.Name != r.Name || r.Job != "" && s.Make.Job != r.Job || r.Jobs && s.Make.Job == ""
	})
	if r.Name != "" && len(all) == 0 {
		return g, &definitions.Absent{Kind: definitions.ErrNoSchedule, Name: r.Name}
	}
	if all, g.Next, err = view.Section(all, func(s *schedule.Stored) string { return s.Name }, r.Limit, r.Cursor); err != nil {
		return g, err
	}
	if err := g.lay(all, &r, w.At.At); err != nil {
		return g, err
	}
	return g, g.fill(ctx, w, all)
}

// lay lays out the columns.
func (g *Grid) lay(all []schedule.Stored, r *GridRequest, now time.Time) error {
	zones := map[string]int{}
	g.By, g.Zone = r.By, r.Zone
	for i := range all {
		zone := cmp.Or(all[i].When.Timezone, "UTC")
		if zones[zone]++; r.Zone == "" && (g.Zone == "" || zones[zone] > zones[g.Zone]) {
			g.Zone = zone
		}
	}
	zone, err := time.LoadLocation(g.Zone)
	if err != nil {
		return Wrong(err)
	}
	g.Zone = zone.String()
	last := now.In(zone)
	if r.Until != "" {
		if last, err = view.ParsePast(r.Until, last); err != nil {
			return Wrongf("until: %w", err)
		}
		last = last.In(zone)
	}
	begin := func(n int) time.Time { // of the n-th column after the last
		if r.By == "hour" {
			offset := time.Duration(last.Minute())*time.Minute + time.Duration(last.Second())*time.Second + time.Duration(last.Nanosecond())
			return last.Add(-offset).Add(time.Duration(n) * time.Hour)
		}
		return time.Date(last.Year(), last.Month(), last.Day()+n, 0, 0, 0, 0, zone)
	}
	for n := 1 - r.Columns; n <= 0; n++ {
		g.Columns = append(g.Columns, begin(n))
	}
	g.End = begin(1)
	return nil
}

// column returns the column of a time; -1 for none.
func (g *Grid) column(at time.Time) int {
	if !at.Before(g.End) {
		return -1
	}
	n, exact := slices.BinarySearchFunc(g.Columns, at, func(begins, at time.Time) int { return begins.Compare(at) })
	if exact {
		return n
	}
	return n - 1
}

// fill finds out what became of the planned runs.
func (g *Grid) fill(ctx context.Context, w *Gridded, all []schedule.Stored) error {
	from := g.Columns[0]
	skips, err := w.Sums.Skips(ctx, from)
	if err != nil {
		return err
	}
	g.Rows = make([]GridRow, 0, len(all))
	rows, read, left := []*gridRow{}, gridRead, gridComputed
	for i := range all {
		row := &gridRow{stored: &all[i]}
		if row.plan, err = all[i].Plan(); err != nil {
			continue // the list of schedules names it
		}
		g.Rows = append(g.Rows, GridRow{Schedule: all[i].Name, Job: all[i].Make.Job, Paused: all[i].Paused != nil, Cells: make([]GridCell, len(g.Columns))})
		row.is = &g.Rows[len(g.Rows)-1]
		for _, s := range skips {
			if s.Schedule == all[i].Name {
				row.decided = append(row.decided, s)
			}
		}
		most := min(left/(len(all)-i), gridLooked)
		if row.ticks, err = ticksIn(ctx, w, row, from, g.End, most+1, &read); err != nil {
			return err
		}
		row.is.Partly = len(row.ticks) > most
		left -= len(row.ticks)
		rows = append(rows, row)
	}
	// Rare runs are looked up first: so one schedule of every second hides no other.
	slices.SortStableFunc(rows, func(a, b *gridRow) int { return cmp.Compare(len(a.ticks), len(b.ticks)) })
	var ids []task.ID
	for _, row := range rows {
		row.is.Partly = row.is.Partly || len(ids)+len(row.ticks) > gridLooked
		if !row.is.Partly {
			for i := range row.ticks {
				if !row.ticks[i].At.After(w.At.At) {
					ids = append(ids, schedule.TaskID(row.stored.Name, row.ticks[i].At))
				}
			}
		}
	}
	made, err := w.Sums.Planned(ctx, ids)
	if err != nil {
		return err
	}
	read = gridRead
	for _, row := range rows {
		if row.is.Partly {
			err = g.count(ctx, w, row)
		} else {
			err = g.report(ctx, w, row, made, &read)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// owing is a span of time whose ticks a definition owed.
type owing struct {
	plan         *schedule.Plan
	since, until time.Time
}

// owingsOf are the spans of a schedule since a time. Older definitions than the present are read from the log.
func owingsOf(ctx context.Context, w *Gridded, row *gridRow, from time.Time, read *int) (all []owing, err error) {
	for _, l := range row.stored.Owing(w.At.At) {
		all = append(all, owing{row.plan, l.Since, l.Until})
	}
	first := w.At.At
	if len(all) > 0 {
		first = all[0].since
	}
	if !first.After(from) || *read == 0 {
		return all, nil
	}
	*read--
	records, err := view.All(ctx, w.View, view.Definition(task.Named(task.DefSchedule, row.stored.Name)))
	if err != nil {
		return nil, err
	}
	var at task.Definition
	for i := range records {
		r := &records[i]
		e, ok := r.Fact.Event.(task.DefinitionEvent)
		if !ok || r.Err != nil {
			continue
		}
		if is, err := definitions.ScheduleIn(row.stored.Name, at); err == nil && at.Exists() && is.Paused == nil {
			if plan, err := is.Plan(); err == nil {
				all = append(all, owing{plan, is.Since, value.Earlier(r.Fact.At, first)})
			}
		}
		at = task.EvolveDefinition(at, r.Seq, r.Fact.At, r.Fact.Actor, e)
	}
	return all, nil
}

// ticksIn returns the ticks of a row in some time: those that it owed, those to come, and those that a task
// may have been made for later: at most most.
func ticksIn(ctx context.Context, w *Gridded, row *gridRow, from, until time.Time, most int, read *int) (ticks []gridTick, err error) {
	spans, err := owingsOf(ctx, w, row, from, read)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(spans, func(a, b owing) int { return a.since.Compare(b.since) })
	before, end := from.Add(-time.Nanosecond), until.Add(-time.Nanosecond)
	gap := func(since, until time.Time) error { // nothing was owed then
		if until = value.Earlier(until, end); !since.Before(until) || len(ticks) >= most {
			return nil
		}
		some, _, err := row.stored.Passed(since.Add(time.Nanosecond), until, w.At.At, most)
		for i := range some {
			ticks = append(ticks, gridTick{some[i], false})
		}
		return err
	}
	reached := before
	for _, o := range spans {
		if err := gap(reached, o.since); err != nil {
			return nil, err
		}
		if len(ticks) < most {
			some, _ := o.plan.Between(value.Later(before, o.since), value.Earlier(o.until, end), most)
			for i := range some {
				ticks = append(ticks, gridTick{some[i], o.until.Equal(w.At.At) || !some[i].Due.After(o.until)})
			}
		}
		reached = value.Later(reached, o.until)
	}
	if err := gap(reached, w.At.At); err != nil {
		return nil, err
	}
	if row.stored.Paused == nil {
		next, _ := row.plan.Between(value.Later(before, w.At.At), end, most)
		for i := range next {
			ticks = append(ticks, gridTick{next[i], true})
		}
	}
	slices.SortStableFunc(ticks, func(a, b gridTick) int { return a.At.Compare(b.At) }) // owed ones first
	ticks = slices.CompactFunc(ticks, func(a, b gridTick) bool { return a.At.Equal(b.At) })
	return ticks[:min(len(ticks), most)], nil
}

// report says of each tick of a row what became of it.
func (g *Grid) report(ctx context.Context, w *Gridded, row *gridRow, made map[task.ID]view.Planned, read *int) error {
	skipped := skippedAmong(row.ticks, row.decided)
	var decisions []events.Record
	for i := range row.ticks {
		t := &row.ticks[i]
		var has *view.Planned
		if is, ok := made[schedule.TaskID(row.stored.Name, t.At)]; ok {
			has = &is
		}
		if has == nil && !t.owed {
			continue
		}
		r := reportOn(row.stored.Name, t.Tick, skipped[i], has, w.At.At)
		if r.Outcome == TickHole && has == nil {
			if t.Due.Before(w.Begins) {
				r.Outcome, r.Why = TickForgot, "the log has forgotten that time"
			} else if row.plan.Watches() { // it may wait for tasks of earlier ticks
				if decisions == nil && *read > 0 {
					*read--
					var err error
					if decisions, err = w.Decided(ctx, row.stored.Name, t.At.Add(-time.Minute)); err != nil {
						return err
					}
					decisions = append([]events.Record{}, slices.DeleteFunc(decisions, func(r events.Record) bool { return w.At.Seq > 0 && r.Seq > w.At.Seq })...)
				}
				r = reportOn(row.stored.Name, t.Tick, decidedOn(decisions, t.At), nil, w.At.At)
			}
		}
		if n := g.column(t.At); n >= 0 {
			cell := &row.is.Cells[n]
			cell.add(r.Word(), 1)
			cell.Runs = append(cell.Runs, r)
		}
	}
	for i := range row.is.Cells {
		if c := &row.is.Cells[i]; len(c.Runs) > gridRuns {
			c.Runs = nil
		}
	}
	return nil
}

// skippedAmong returns the decisions by which ticks got no task, in their order: one for n ticks is of the n
// up to its last.
func skippedAmong(ticks []gridTick, decided []view.TickDecision) []TickReport {
	said := make([]TickReport, len(ticks))
	for _, d := range decided {
		last, exact := slices.BinarySearchFunc(ticks, d.Until, func(t gridTick, at time.Time) int { return t.At.Compare(at) })
		if !exact {
			last--
		}
		for n := d.Skipped; last >= 0 && n > 0; last-- {
			if ticks[last].owed {
				said[last] = TickReport{Outcome: TickSkipped, Why: d.Reason, Reason: d.Reason}
				n--
			}
		}
	}
	return said
}

// count counts the failed and skipped ticks of a row that has too many to look at each.
func (g *Grid) count(ctx context.Context, w *Gridded, row *gridRow) error {
	for i := range row.is.Cells {
		end := g.End
		if i+1 < len(g.Columns) {
			end = g.Columns[i+1]
		}
		for _, o := range row.stored.Owing(w.At.At) {
			some, _ := row.plan.Between(value.Later(g.Columns[i], o.Since), value.Earlier(end.Add(-time.Nanosecond), o.Until), 1)
			row.is.Cells[i].Many = row.is.Cells[i].Many || len(some) > 0
		}
	}
	for _, d := range row.decided {
		if n := g.column(d.Until); n >= 0 {
			word := (&TickReport{Outcome: TickSkipped, Reason: d.Reason}).Word()
			row.is.Cells[n].add(word, d.Skipped)
		}
	}
	failed, err := view.Runs(ctx, w.View, view.Filter{
		Schedule: row.stored.Name, States: []task.State{task.Error, task.Abnormal}, OldestFirst: true,
		After: task.ID(events.NewID(g.Columns[0].Add(-time.Millisecond))), Limit: view.MaxLimit,
	})
	for i := range failed { // the id of such a task has the time of its tick
		if n := g.column(failed[i].ID.Time()); n >= 0 {
			row.is.Cells[n].add(PlannedFailed, 1)
		}
	}
	return err
}
