package projections

import (
	"context"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
)

// shift is the effect of a record of the batch on the attempts of a task under budgets.
type shift struct {
	limit.Shift
	counters []limit.Counter
}

// follow applies a record to its task, and records the task's new place.
func (f *fold) follow(r *events.Record, c *change) {
	said := saidOf(&c.task)
	f.spend(r, &c.task)
	if f.past.note(r, c, said) {
		f.noteLatest(c)
	}
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
		f.past.shift(r.Seq, &f.shifts[len(f.shifts)-1])
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
