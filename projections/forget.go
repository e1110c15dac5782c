package projections

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/projections/past"
	"millrace/task"
)

// What the log has removed goes from the rows as soon as the log says that it is gone: tasks all of whose
// facts are gone, versions of subjects before the last one, unreadable messages, and what the index of the
// past has of them. The log removes a bounded number of messages at a time, and so do the rows.

// forget removes what lies before the horizon of the log.
func (f *fold) forget(ctx context.Context) error {
	if f.complete || f.at.Below <= max(f.at.Forgot, f.at.First) {
		return nil
	}
	below, next := f.at.Below, f.at
	next.Forgot, next.Whole = below, max(f.at.Whole, below)
	next.Trims++
	if err := f.past.Begin(f.at.Past); err != nil {
		return err
	}
	born, err := f.past.Born(ctx, f.at.Past, below)
	if err != nil {
		return err
	}
	var trimmed past.Index
	var gone []task.ID
	locked := false
	err = f.w.transact(ctx, func(ctx context.Context) error {
		var live []past.Born
		if live, gone, err = f.forgetTasks(ctx, born, below); err != nil {
			return err
		}
		for _, stmt := range []string{
			"DELETE FROM versions AS v WHERE seq < ? AND EXISTS (SELECT 1 FROM versions AS w WHERE w.kind = v.kind AND w.id = v.id AND w.seq > v.seq AND w.seq <= ?)",
			"DELETE FROM poison WHERE seq < ?",
		} {
			if err := f.w.exec(ctx, stmt, slices.Repeat([]any{int64(below)}, strings.Count(stmt, "?"))...); err != nil {
				return err
			}
		}
		numbers := make([]uint32, len(live))
		for i := range live {
			numbers[i] = live[i].Number
		}
		if trimmed, next.Past, numbers, err = f.past.Trim(ctx, f.store.pastPath(next.Trims), f.at.Past, below, numbers); err != nil {
			return err
		}
		for i, number := range numbers {
			if err := f.w.exec(ctx, "UPDATE tasks SET number = ? WHERE id = ?", int64(number), string(live[i].ID)); err != nil {
				return err
			}
			f.live.renumber(live[i].ID, number)
		}
		f.store.mu.Lock()
		locked = true // whoever reads the rows reads the index that belongs to them
		return f.writePosition(ctx, next)
	})
	if locked {
		defer f.store.mu.Unlock()
	}
	if err != nil {
		f.live = newCache(f.live.size)
		if trimmed != nil {
			err = errors.Join(err, trimmed.Close(), f.store.removePast(f.at.Trims))
		}
		return err
	}
	// The index of before may be answering: its file is closed with the last answer, and removed now, or,
	// where an open file cannot be, at the next start.
	f.at, f.past, f.store.past = next, trimmed, trimmed
	f.store.jobs.reset()
	f.store.texts.forget(gone)
	_ = f.store.removePast(next.Trims)
	return nil
}

// writeTallies writes the sums of what is forgotten.
func (f *fold) writeTallies(ctx context.Context, records []events.Record) error {
	for i := range records {
		e, ok := records[i].Fact.Event.(task.JobTallied)
		if !ok {
			continue
		}
		doc, err := forgottenForm.Append(nil, &e)
		if err == nil {
			err = f.w.exec(ctx, "INSERT OR REPLACE INTO tallies VALUES (?, ?)", records[i].Fact.Job, string(doc))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Tallies implements [view.Tallied].
func (s *Store) Tallies(ctx context.Context) (map[string]task.JobTallied, error) {
	all := map[string]task.JobTallied{}
	return all, s.view(ctx, "look at the sums of jobs", func(tx *sql.Tx, _ uint64) error {
		var job string
		var doc []byte
		return each(ctx, tx, "SELECT job, doc FROM tallies", nil, []any{&job, &doc}, func() error {
			var is task.JobTallied
			err := forgottenForm.Read(doc, &is)
			all[job] = is
			return err
		})
	})
}

// mayBeOff is how far the clocks of servers and workers may differ.
const mayBeOff = time.Minute

// RunsSince returns a time before which no attempt of a known task has begun; zero if the log has forgotten
// nothing yet.
func (s *Store) RunsSince(ctx context.Context) (since time.Time, err error) {
	err = s.view(ctx, "look how far back tasks go", func(tx *sql.Tx, _ uint64) error {
		var p position
		if err := p.load(ctx, tx); err != nil || p.Below == 0 {
			return err
		}
		since = time.UnixMicro(p.Before)
		// The few that are older were carried. Ids are by the clocks of submitters.
		return eachTask(ctx, tx, s.form, "SELECT "+rowColumns+" FROM tasks WHERE id < ? ORDER BY id", []any{firstID(since)}, func(t *task.Task) {
			if t.Attempt > 0 && t.SubmittedAt.Before(since) {
				since = t.SubmittedAt
			}
		})
	})
	if !since.IsZero() {
		since = since.Add(-mayBeOff)
	}
	return since, err
}

// isRare chooses tasks whose columns do not tell how they are counted: dead letters, and those on routes of
// selectors, which begin so.
const isRare = "dead IS NOT NULL OR queue >= '~'"

// forgetTasks removes the rows of the tasks that were born and have changed for the last time before a
// sequence. It returns the others of those that were born before, by number, and the ids of those that are
// gone.
func (f *fold) forgetTasks(ctx context.Context, born []past.Born, below uint64) (live []past.Born, gone []task.ID, err error) {
	counts, dead := map[counted]int{}, map[task.Letter]int{}
	for some := range slices.Chunk(born, idsAtOnce) {
		ids := make([]task.ID, len(some))
		for i := range some {
			ids[i] = some[i].ID
		}
		err := inParts(ids, func(in string, args []any) error {
			var c counted
			var n int
			before, others := append(args, int64(below)), len(ids)
			err := each(ctx, f.w.conn, "SELECT queue, state, count(*) FROM tasks WHERE "+in+" AND seq < ? AND NOT ("+isRare+") GROUP BY queue, state",
				before, []any{&c.queue, &c.state, &n}, func() error {
					c.home = c.queue
					counts[c] -= n
					others -= n
					return nil
				})
			if err == nil && others > 0 {
				var stay []past.Born
				stay, err = f.forgetOthers(ctx, in, before, counts, dead)
				live = append(live, stay...)
				ids = slices.DeleteFunc(ids, func(id task.ID) bool {
					return slices.ContainsFunc(stay, func(b past.Born) bool { return b.ID == id })
				})
			}
			if err != nil {
				return err
			}
			return f.w.exec(ctx, "DELETE FROM tasks WHERE "+in+" AND seq < ?", before...)
		})
		if err != nil {
			return nil, nil, err
		}
		gone = append(gone, ids...)
	}
	slices.SortFunc(live, func(a, b past.Born) int { return cmp.Compare(a.Number, b.Number) })
	return live, gone, f.writeCounts(ctx, counts, dead)
}

// forgetOthers counts those of some tasks that go and whose columns do not tell how they are counted, and
// returns those that stay.
func (f *fold) forgetOthers(ctx context.Context, in string, before []any, counts map[counted]int, dead map[task.Letter]int) (stay []past.Born, err error) {
	var is past.Born
	var lives bool
	var rare []*change
	err = each(ctx, f.w.conn, "SELECT id, number, seq >= ? FROM tasks WHERE "+in+" AND (seq >= ? OR "+isRare+")",
		slices.Concat([]any{before[len(before)-1]}, before), []any{&is.ID, &is.Number, &lives}, func() error {
			if lives {
				stay = append(stay, is)
			} else {
				rare = append(rare, &change{task: task.Task{ID: is.ID}})
			}
			return nil
		})
	if err == nil {
		err = f.w.loadTasks(ctx, f.store.form, rare)
	}
	for _, c := range rare {
		counts[countedOf(&c.task)]--
		if kind := deadOf(&c.task); kind != "" {
			dead[kind]--
		}
	}
	return stay, err
}

// vacuum gives at most so many pages of the file that rows left back to the file system, and tells whether there
// may be more of them. SQLite frees one with each row of the answer.
func (f *fold) vacuum(ctx context.Context, most int) (more bool, err error) {
	freed := 0
	err = each(context.WithoutCancel(ctx), f.w.conn, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", most), nil, nil, func() error {
		freed++
		return nil
	})
	return freed == most, err
}

// vacuumed is how many pages are given back at once: 64 MB.
const vacuumed = 16_384
