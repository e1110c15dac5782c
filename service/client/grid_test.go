package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
)

// gridWorld has schedules, and what is known of their ticks.
type gridWorld struct {
	view.View
	defined map[task.Def]task.Definition
	facts   map[string][]events.Record
	skips   []view.TickDecision
	made    map[task.ID]view.Planned
	failed  []view.Run
}

func (w *gridWorld) List(context.Context, view.Query) (view.Page, error) {
	return view.Page{Definitions: w.defined}, nil
}

func (w *gridWorld) Records(_ context.Context, ref view.Ref, _ view.Range, each func(*events.Record) error) error {
	for _, r := range w.facts[task.Def(ref.ID).Name()] {
		if err := each(&r); err != nil {
			return err
		}
	}
	return nil
}

func (w *gridWorld) Skips(context.Context, time.Time) ([]view.TickDecision, error) {
	return w.skips, nil
}

func (w *gridWorld) Planned(_ context.Context, ids []task.ID) (map[task.ID]view.Planned, error) {
	return w.made, nil
}

func (w *gridWorld) Runs(context.Context, view.Filter) ([]view.Run, error) { return w.failed, nil }

func (w *gridWorld) define(d schedule.Definition) {
	text, _ := json.Marshal(d)
	if w.defined == nil {
		w.defined = map[task.Def]task.Definition{}
	}
	w.defined[task.Named(task.DefSchedule, d.Name)] = task.Definition{Edition: task.Edition{Revision: 1, Text: text}, Head: 1, Changed: d.Since}
}

// ran notes the task of a tick.
func (w *gridWorld) ran(name string, tick time.Time, state task.State, late time.Duration) {
	if w.made == nil {
		w.made = map[task.ID]view.Planned{}
	}
	w.made[schedule.TaskID(name, tick)] = view.Planned{Origin: task.Origin{Schedule: name, Tick: tick.UTC(), Trigger: task.TriggerSchedule}, State: state, Made: tick.Add(late)}
}

// said are the cells of a row: the worst of each with its number.
func said(row *GridRow) string {
	var cells []string
	for i := range row.Cells {
		c := &row.Cells[i]
		word := c.Worst()
		if n := c.N[word]; n > 1 {
			word = fmt.Sprintf("%d %s", n, word)
		}
		if c.Many {
			word = strings.TrimSpace("many " + word)
		}
		cells = append(cells, word)
	}
	return strings.Join(cells, "|")
}

func TestGrid(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := func(d, h, m int) time.Time { return time.Date(2026, 3, d, h, m, 0, 0, berlin) }
	now := day(10, 12, 0)
	long := day(1, 0, 0)
	nightly := schedule.Definition{Name: "nightly", When: job.Schedule{Cron: "0 3 * * *", Timezone: "Europe/Berlin"}, Make: birth.Submission{Job: "backup"}, Since: long}
	with := func(change func(d *schedule.Definition)) schedule.Definition {
		d := nightly
		change(&d)
		return d
	}
	decided := func(d schedule.Definition, at time.Time, seq uint64) events.Record {
		text, _ := json.Marshal(d)
		return events.Record{Seq: seq, Stored: at, Fact: events.Fact{At: at, Event: task.DefinitionApplied{Edition: task.Edition{Revision: seq, Text: text}}}}
	}
	for name, c := range map[string]struct {
		def     schedule.Definition
		set     func(w *gridWorld)
		begins  time.Time
		request GridRequest
		want    string
	}{
		"each night ended in its way": {nightly, func(w *gridWorld) {
			w.ran("nightly", day(6, 3, 0), task.Finished, 0)
			w.ran("nightly", day(7, 3, 0), task.Error, 0)
			w.ran("nightly", day(8, 3, 0), task.Cancelled, 0)
			w.ran("nightly", day(10, 3, 0), task.Running, 0)
		}, time.Time{}, GridRequest{}, "ran|failed|cancelled|missed|running"},
		"of one that was only just stored nothing is missed": {with(func(d *schedule.Definition) { d.Since = day(9, 12, 0) }), nil, time.Time{}, GridRequest{}, "||||missed"},
		"a backfill of the time before shows":                {with(func(d *schedule.Definition) { d.Since = day(9, 12, 0) }), func(w *gridWorld) { w.ran("nightly", day(7, 3, 0), task.Finished, 72*time.Hour) }, time.Time{}, GridRequest{}, "|ran|||missed"},
		"one decision leaves out several": {nightly, func(w *gridWorld) {
			w.skips = []view.TickDecision{{Schedule: "nightly", Until: day(8, 3, 0), Skipped: 2, Reason: task.SkipOverlap}, {Schedule: "other", Until: day(10, 3, 0), Skipped: 9}}
		}, time.Time{}, GridRequest{}, "missed|skipped|skipped|missed|missed"},
		"an outage is no skip": {nightly, func(w *gridWorld) {
			w.skips = []view.TickDecision{{Schedule: "nightly", Until: day(10, 3, 0), Skipped: 5, Reason: task.SkipMissed}}
		}, time.Time{}, GridRequest{}, "missed|missed|missed|missed|missed"},
		"what the log has forgotten is not missed": {nightly, func(w *gridWorld) { w.ran("nightly", day(10, 3, 0), task.Finished, 0) }, day(9, 0, 0), GridRequest{}, "not kept|not kept|not kept|missed|ran"},
		"another task under the id is a hole": {nightly, func(w *gridWorld) {
			w.made = map[task.ID]view.Planned{schedule.TaskID("nightly", day(10, 3, 0)): {State: task.Finished}}
		}, time.Time{}, GridRequest{Columns: 1}, "missed"},
		"what comes today":                          {with(func(d *schedule.Definition) { d.When.Cron = "0 18 * * *" }), nil, time.Time{}, GridRequest{Columns: 1}, "next"},
		"hours, of the day when clocks change, too": {with(func(d *schedule.Definition) { d.When.Cron = "*/30 * * * *" }), nil, time.Time{}, GridRequest{By: "hour", Columns: 2}, "2 missed|due"},
		"paused, it has no next, and the pause is not missed": {with(func(d *schedule.Definition) {
			d.When.Cron = "0 3,18 * * *"
			d.Paused = &schedule.Pause{At: day(9, 12, 0)}
		}), nil, time.Time{}, GridRequest{Columns: 3}, "2 missed|missed|"},
		"older definitions had other times": {with(func(d *schedule.Definition) { d.When.Cron = "0 5 * * *"; d.Since = day(8, 12, 0) }), func(w *gridWorld) {
			w.facts = map[string][]events.Record{"nightly": {decided(nightly, long, 1), decided(with(func(d *schedule.Definition) { d.When.Cron = "0 5 * * *"; d.Since = day(8, 12, 0) }), day(8, 12, 0), 2)}}
			w.ran("nightly", day(7, 3, 0), task.Finished, 0)
			w.ran("nightly", day(9, 5, 0), task.Finished, 0)
		}, time.Time{}, GridRequest{}, "missed|ran|missed|ran|missed"},
		"of one of every second only failures are counted": {with(func(d *schedule.Definition) {
			d.When = job.Schedule{Every: 1e9}
			d.Anchor, d.Since = day(9, 12, 0), day(9, 12, 0)
		}), func(w *gridWorld) {
			w.failed = []view.Run{{ID: schedule.TaskID("nightly", day(9, 13, 0))}, {ID: schedule.TaskID("nightly", day(9, 14, 0))}}
			w.skips = []view.TickDecision{{Schedule: "nightly", Until: day(10, 3, 0), Skipped: 7, Reason: task.SkipOverlap}}
		}, time.Time{}, GridRequest{Columns: 3, Zone: "Europe/Berlin"}, "|many 2 failed|many 7 skipped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &gridWorld{}
			w.define(c.def)
			if c.set != nil {
				c.set(w)
			}
			if c.request.Columns == 0 {
				c.request.Columns = 5
			}
			g, err := GridOf(t.Context(), &Gridded{View: w, Sums: w, At: view.Point{At: now}, Begins: c.begins}, c.request)
			if err != nil || len(g.Rows) != 1 {
				t.Fatalf("%v, %+v", err, g)
			}
			if got := said(&g.Rows[0]); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}

// Columns are the days and hours of a zone, whatever its clocks do, and bad requests are refused.
func TestGridColumns(t *testing.T) {
	t.Parallel()
	w := &gridWorld{}
	w.define(schedule.Definition{Name: "nightly", When: job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}, Make: birth.Submission{Job: "backup"}, Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	ask := func(at string, r GridRequest) (Grid, error) {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		return GridOf(t.Context(), &Gridded{View: w, Sums: w, At: view.Point{At: now}}, r)
	}
	for _, c := range []struct {
		at      string
		request GridRequest
		last    string // column
		end     string
	}{
		{"2026-03-29T12:00:00Z", GridRequest{}, "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"2026-03-29T00:59:59Z", GridRequest{By: "hour"}, "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"2026-10-25T00:30:00Z", GridRequest{By: "hour"}, "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"2026-03-29T12:00:00Z", GridRequest{Zone: "Asia/Kolkata", By: "hour"}, "2026-03-29T17:00:00+05:30", "2026-03-29T18:00:00+05:30"},
		{"2026-03-29T12:00:00Z", GridRequest{Until: "2026-02-02"}, "2026-02-02T00:00:00+01:00", "2026-02-03T00:00:00+01:00"},
	} {
		g, err := ask(c.at, c.request)
		if err != nil {
			t.Fatal(err)
		}
		if last, end := g.Columns[len(g.Columns)-1].Format(time.RFC3339), g.End.Format(time.RFC3339); last != c.last || end != c.end {
			t.Errorf("at %s, %+v: from %s to %s, want from %s to %s", c.at, c.request, last, end, c.last, c.end)
		}
	}
	for _, r := range []GridRequest{{By: "week"}, {Columns: 49}, {Columns: -1}, {Limit: 101}, {Zone: "Mars"}, {Zone: "Local"}, {Name: "a", Job: "b"}, {Until: "soon"}} {
		if _, err := ask("2026-03-29T12:00:00Z", r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v is answered with %v", r, err)
		}
	}
	if _, err := ask("2026-03-29T12:00:00Z", GridRequest{Name: "none"}); !errors.Is(err, definitions.ErrNoSchedule) {
		t.Errorf("a schedule that there is not is answered with %v", err)
	}
}
