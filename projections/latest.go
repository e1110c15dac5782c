package projections

import (
	"context"
	"database/sql"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// Kinds of rows in table latest.
const (
	latestOfJob      = "job"      // the job's latest task without a parent, by its submission
	latestOfSchedule = "schedule" // the schedule's latest task, by its tick, and its latest decided tick
)

// never is the time, in microseconds since 1970, of what there is none of.
const never = math.MinInt64

// keepSkips is how long ticks without a task are counted.
const keepSkips = 31 * 24 * time.Hour

// latestColumns is how many columns the table has.
const latestColumns = 6

// laterTask is the condition of an update that the new row has a later task.
const laterTask = "(excluded.at, excluded.number) > (at, number)"

// latestKey names it.
type latestKey struct{ kind, name string }

// latest is a row for a name.
type latest struct {
	view.Latest         // at never if there is no task
	task        task.ID // "" if there is none
	decided     int64   // the tick, in microseconds since 1970
}

func (f *fold) latest(kind, name string, l latest) {
	if name == "" {
		return
	}
	is, ok := f.latests[latestKey{kind, name}]
	if !ok || l.After(is.Latest) {
		is.Latest, is.task = l.Latest, l.task
	}
	if !ok || l.decided > is.decided {
		is.decided = l.decided
	}
	f.latests[latestKey{kind, name}] = is
}

// noteLatest records for which names a task is the latest. Call it whenever the index of the past
// gets the task's origin anew.
func (f *fold) noteLatest(c *change) {
	if t := &c.task; t.Parent == "" {
		f.latest(latestOfJob, t.Job, latest{view.Latest{At: t.SubmittedAt.UnixMicro(), Number: c.has.Number}, t.ID, never})
		f.latest(latestOfSchedule, t.Schedule, latest{view.Latest{At: t.Tick.UnixMicro(), Number: c.has.Number}, t.ID, never})
	}
}

// writeLatest writes the latest tasks of jobs and schedules, and the results of ticks. A batch has
// few names, so this costs a few rows for any number of tasks.
func (f *fold) writeLatest(ctx context.Context, records []events.Record) error {
	for i := range records {
		d, ok := view.DecidedOn(&records[i])
		if !ok {
			continue
		}
		f.latest(latestOfSchedule, d.Schedule, latest{view.Latest{At: never}, "", d.Until.UnixMicro()})
		if d.Skipped > 0 {
			if err := f.writeSkip(ctx, d.Schedule, d.Until, d.Reason, d.Skipped); err != nil {
				return err
			}
		}
	}
	w := f.w
	w.args = w.args[:0]
	for k, l := range f.latests {
		w.args = append(w.args, k.kind, k.name, string(l.task), l.At, int64(l.Number), l.decided)
		if len(w.args) == rowsAtOnce*latestColumns {
			if err := w.execRows(ctx, w.latest[0], w.args); err != nil {
				return err
			}
			w.args = w.args[:0]
		}
	}
	for row := range slices.Chunk(w.args, latestColumns) {
		if err := w.execRows(ctx, w.latest[1], row); err != nil {
			return err
		}
	}
	return nil
}

// writeSkip counts ticks without a task, and deletes old counts.
func (f *fold) writeSkip(ctx context.Context, schedule string, until time.Time, reason string, n int) error {
	if err := f.w.exec(ctx, "INSERT OR REPLACE INTO skips VALUES (?, ?, ?, ?)", schedule, until.UnixMicro(), reason, n); err != nil {
		return err
	}
	return f.w.exec(ctx, "DELETE FROM skips WHERE schedule = ? AND until < ?", schedule, until.Add(-keepSkips).UnixMicro())
}

// Schedules returns the results of each schedule's ticks; skipped ones are counted from since.
// Removed schedules are included.
func (s *Store) Schedules(ctx context.Context, since time.Time) (map[string]*view.Ticks, uint64, error) {
	all := map[string]*view.Ticks{}
	of := func(name string) *view.Ticks {
		if all[name] == nil {
			all[name] = &view.Ticks{Skipped: map[string]int{}}
		}
		return all[name]
	}
	var at uint64
	err := s.view(ctx, "look at the ticks of schedules", func(tx *sql.Tx, seq uint64) error {
		at = seq
		var name, reason string
		var n int
		var decided int64
		last, err := s.latest(ctx, tx, latestOfSchedule)
		if err != nil {
			return err
		}
		for name, t := range last {
			of(name).Last = t
		}
		if err := each(ctx, tx, "SELECT name, decided FROM latest WHERE kind = ? AND decided > ?", []any{latestOfSchedule, int64(never)}, []any{&name, &decided}, func() error {
			of(name).Decided = time.UnixMicro(decided).UTC()
			return nil
		}); err != nil {
			return err
		}
		return each(ctx, tx, "SELECT schedule, reason, sum(n) FROM skips WHERE until >= ? GROUP BY schedule, reason", []any{since.UnixMicro()},
			[]any{&name, &reason, &n}, func() error {
				of(name).Skipped[reason] = n
				return nil
			})
	})
	return all, at, err
}

// LastOfJobs returns the latest task without a parent of each job.
func (s *Store) LastOfJobs(ctx context.Context) (last map[string]task.Task, at uint64, err error) {
	err = s.view(ctx, "look at the latest tasks of jobs", func(tx *sql.Tx, seq uint64) (err error) {
		at = seq
		last, err = s.latest(ctx, tx, latestOfJob)
		return err
	})
	return last, at, err
}

// latest returns the latest tasks of a kind, by name.
func (s *Store) latest(ctx context.Context, tx *sql.Tx, kind string) (map[string]task.Task, error) {
	rows, err := tx.QueryContext(ctx, "SELECT latest.name, "+rowColumns+" FROM latest JOIN tasks ON tasks.id = latest.task WHERE kind = ?", kind)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]task.Task{}
	for rows.Next() {
		var name string
		t, err := scanTask(led[string]{rows, &name}, s.form)
		if err != nil {
			return nil, err
		}
		all[name] = t
	}
	return all, rows.Err()
}

// jobLists are the first pages of lists of jobs' tasks, kept until a task of the job changes. The
// page of all jobs needs one for each job that had no task lately, and few of these change.
type jobLists struct {
	mu    sync.Mutex
	pages map[jobList]view.Page // guarded by mu
	tasks int                   // guarded by mu; in pages
	// changed has, for each job asked for, the sequence up to which one of its tasks has changed
	// since.
	changed map[string]uint64 // guarded by mu
	age     int               // guarded by mu; counts the calls of reset
}

// jobList names such a page.
type jobList struct {
	job           string
	roots, oldest bool
	limit         int
}

// Bounds of what jobLists keeps.
const (
	mostListedTasks = 5000
	mostListedJobs  = 1000
)

// jobListOf returns the name of the page that a filter asks for; false if it is none of these.
func jobListOf(f *view.Filter) (jobList, bool) {
	only := view.Filter{Job: f.Job, Roots: f.Roots, Limit: f.Limit, OldestFirst: f.OldestFirst}
	return jobList{f.Job, f.Roots, f.OldestFirst, f.Limit}, f.Job != "" && reflect.DeepEqual(only, *f)
}

func (j *jobLists) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.clear()
}

func (j *jobLists) clear() {
	j.pages, j.changed, j.tasks = map[jobList]view.Page{}, map[string]uint64{}, 0
	j.age++
}

// get returns a page if no task of the job has changed up to the sequence reached. Otherwise pass
// age to put with the page that is read now.
func (j *jobLists) get(list jobList, reached uint64) (page view.Page, age int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if page, ok = j.pages[list]; ok && j.changed[list.job] <= page.Point.Seq {
		page.Tasks, page.Point.Seq = slices.Clone(page.Tasks), max(page.Point.Seq, reached)
		return page, j.age, true
	}
	if _, known := j.changed[list.job]; !known {
		if len(j.changed) == mostListedJobs {
			j.clear()
		}
		j.changed[list.job] = 0
	}
	return page, j.age, false
}

// put keeps a page that was read after get.
func (j *jobLists) put(list jobList, page view.Page, age int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.age != age || len(page.Tasks) > mostListedTasks {
		return // changes may have been missed
	}
	j.tasks += len(page.Tasks) - len(j.pages[list].Tasks)
	if j.tasks > mostListedTasks {
		j.pages, j.tasks = map[jobList]view.Page{}, len(page.Tasks)
	}
	page.Tasks = slices.Clone(page.Tasks)
	j.pages[list] = page
}

// note records that tasks have changed, before any answer reflects the sequence seq.
func (j *jobLists) note(changes []change, seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.changed) == 0 {
		return
	}
	for i := range changes {
		for _, job := range []string{changes[i].task.Job, changes[i].was} {
			if _, asked := j.changed[job]; asked {
				j.changed[job] = seq
			}
		}
	}
}
