package projections

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/quota"
)

// shift is the effect of a record of the batch on the attempts of a task under budgets.
type shift struct {
	limit.Shift
	counters []limit.Counter
}

// writeLimits writes admissions of limits, and deletes them when the tasks are offered.
func (f *fold) writeLimits(ctx context.Context, records []events.Record) error {
	granted := map[task.ID]bool{}
	for i := range records {
		e, ok := records[i].Fact.Event.(task.Granted)
		if !ok || records[i].Kind != events.KindLimit {
			continue
		}
		for _, g := range e.Grants {
			granted[g.Task] = true
			if err := f.w.exec(ctx, "INSERT OR REPLACE INTO grants VALUES (?, ?, ?)", string(g.Task), int64(g.Turn), int64(g.Rated)); err != nil {
				return err
			}
		}
		for name, used := range e.Rates {
			if err := f.w.exec(ctx, "INSERT OR REPLACE INTO rates VALUES (?, ?)", name, used.UnixNano()); err != nil {
				return err
			}
		}
		if len(e.Rates) > 0 {
			// Usage that ended before the time of the fact no longer matters.
			if err := f.w.exec(ctx, "DELETE FROM rates WHERE used < ?", records[i].Stored.Add(-time.Minute).UnixNano()); err != nil {
				return err
			}
		}
	}
	for i := range f.changes {
		c := &f.changes[i]
		if c.task.Admissible() {
			continue
		}
		forgotten := true // before, if there was something to delete
		switch c.before.state {
		case task.Pending, task.Running, task.Cancelling:
		case task.Held: // perhaps by the rate of its queue
			forgotten = false
		default:
			forgotten = !c.task.Spec.Limited()
		}
		if forgotten && !granted[c.task.ID] {
			continue
		}
		if err := f.w.exec(ctx, "DELETE FROM grants WHERE task = ?", string(c.task.ID)); err != nil {
			return err
		}
	}
	return nil
}

// spend applies a record to its task, and records the effect on attempts under budgets.
func (f *fold) spend(r *events.Record, t *task.Task) {
	if !t.Budgeted() {
		t.Apply(r.Task())
		return
	}
	if took := t.Shift(r.Task()); !took.None() {
		counters, _ := t.Counters() // a task without valid counters cannot have been admitted
		f.shifts = append(f.shifts, shift{took, counters})
		f.move.Spent, f.move.Counters = took, counters
	}
}

// writeBudgets writes the batch's usage of budgets.
func (f *fold) writeBudgets(ctx context.Context, last *events.Record) error {
	used := limit.Tallies{}
	for _, took := range f.shifts {
		for _, c := range took.counters {
			if err := f.loadBudget(ctx, used, c.Name); err != nil {
				return err
			}
		}
		used.Spend(took.counters, took.Shift)
	}
	if len(used) == 0 {
		return nil
	}
	for name, y := range used {
		p, _ := limit.PeriodOf(name)
		doc, err := tallyForm.Append(nil, &y)
		if err != nil {
			return err
		}
		if err := f.w.exec(ctx, "INSERT OR REPLACE INTO budgets VALUES (?, ?, ?)", name, doc, y.Blank(p).UnixNano()); err != nil {
			return err
		}
	}
	return f.w.exec(ctx, "DELETE FROM budgets WHERE blank < ?", last.Stored.Add(-time.Minute).UnixNano())
}

// loadBudget reads the usage of a counter before the batch, if it is a budget.
func (f *fold) loadBudget(ctx context.Context, used limit.Tallies, name string) error {
	if _, known := used[name]; known {
		return nil
	}
	if _, ok := limit.PeriodOf(name); !ok {
		return nil
	}
	used[name] = limit.Tally{}
	return eachBudget(ctx, f.w.conn, " WHERE name = ?", []any{name}, func(_ string, y limit.Tally) { used[name] = y })
}

// EachLimited calls each for every task under limits that has not ended, with its latest admission
// if no offer is known to have followed, else nil. It returns the remaining usage of rates and
// budgets, and the sequence that all of this reflects.
func (s *Store) EachLimited(ctx context.Context, each quota.Each) (used quota.Used, seq uint64, err error) {
	used = quota.Used{Rates: map[string]time.Time{}, Budgets: limit.Tallies{}}
	err = s.view(ctx, "list limited tasks", func(tx *sql.Tx, at uint64) error {
		seq = at
		if err := eachRate(ctx, tx, used.Rates); err != nil {
			return err
		}
		if err := eachBudget(ctx, tx, "", nil, func(name string, y limit.Tally) { used.Budgets[name] = y }); err != nil {
			return err
		}
		grants, err := allGrants(ctx, tx)
		if err != nil {
			return err
		}
		for _, where := range []string{
			"state IN (?, ?, ?, ?, ?) AND " + inStateIndex,
			"waits IS NOT NULL",
		} {
			var args []any
			if strings.Contains(where, "?") {
				args = []any{int64(task.Scheduled), int64(task.Held), int64(task.Running), int64(task.Retrying), int64(task.Cancelling)}
			}
			err := eachTask(ctx, tx, s.form, "SELECT "+rowColumns+" FROM tasks WHERE "+where+" AND instr(words, ?)", append(args, mark(markLimited, "")), func(t *task.Task) {
				each(quota.StandOf(t), t.Counters, grants[t.ID])
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return used, seq, err
}

func eachRate(ctx context.Context, tx *sql.Tx, into map[string]time.Time) error {
	var name string
	var used int64
	return each(ctx, tx, "SELECT name, used FROM rates", nil, []any{&name, &used}, func() error {
		into[name] = time.Unix(0, used)
		return nil
	})
}

func eachBudget(ctx context.Context, q querier, where string, args []any, f func(name string, y limit.Tally)) error {
	var name string
	var doc []byte
	return each(ctx, q, "SELECT name, doc FROM budgets"+where, args, []any{&name, &doc}, func() error {
		var y limit.Tally
		if err := tallyForm.Read(doc, &y); err != nil {
			return err
		}
		f(name, y)
		return nil
	})
}

func allGrants(ctx context.Context, tx *sql.Tx) (map[task.ID]*task.Grant, error) {
	grants := map[task.ID]*task.Grant{}
	var id task.ID
	var turn, rated int64
	err := each(ctx, tx, "SELECT task, turn, rated FROM grants", nil, []any{&id, &turn, &rated}, func() error {
		grants[id] = &task.Grant{Task: id, Turn: uint64(turn), Rated: uint64(rated)}
		return nil
	})
	return grants, err
}

func eachTask(ctx context.Context, tx querier, form *rowForm, query string, args []any, f func(*task.Task)) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		t, err := scanTask(rows, form)
		if err != nil {
			return err
		}
		f(&t)
	}
	return rows.Err()
}
