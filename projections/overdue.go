package projections

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"millrace/task"
)

// Bounds of the rows read for a figure.
const (
	maxOldest  = 10_000 // waiting tasks of a queue, in the order of their ids
	maxOverdue = 1000   // tasks whose deadline has passed
)

// Oldest returns, for each queue with pending tasks (named as in [Store.Counts]), since when the
// longest waiting one has been pending. It reads the first 10,000 tasks of a queue in the order of
// their ids, which is that of submission.
func (s *Store) Oldest(ctx context.Context) (map[string]time.Time, error) {
	oldest := map[string]time.Time{}
	err := s.view(ctx, "find the oldest waiting tasks", func(tx *sql.Tx, seq uint64) error {
		homes, err := pendingHomes(ctx, tx)
		if err != nil {
			return err
		}
		note := func(home string, since time.Time) {
			if before, ok := oldest[home]; !ok || since.Before(before) {
				oldest[home] = since
			}
		}
		for q, of := range homes {
			if len(of) > 1 { // each task names its queue
				err := eachTask(ctx, tx, s.form, "SELECT "+rowColumns+" FROM tasks WHERE queue = ? AND waits IS NOT NULL ORDER BY id LIMIT ?", []any{q, maxOldest},
					func(t *task.Task) { note(t.QueueName(), t.Since) })
				if err != nil {
					return err
				}
				continue
			}
			var since sql.NullInt64
			err := tx.QueryRowContext(ctx,
				"SELECT min(waits) FROM (SELECT waits FROM tasks WHERE queue = ? AND waits IS NOT NULL ORDER BY id LIMIT ?)", q, maxOldest).Scan(&since)
			if err != nil {
				return err
			}
			if since.Valid {
				note(of[0], time.UnixMicro(since.Int64).UTC())
			}
		}
		return nil
	})
	return oldest, err
}

// Overdue counts, by state, the tasks whose own deadline (see [Store.Due]) passed before a time:
// the 1000 longest overdue of them.
func (s *Store) Overdue(ctx context.Context, before time.Time) (map[task.State]int, error) {
	overdue := map[task.State]int{}
	err := s.view(ctx, "count overdue tasks", func(tx *sql.Tx, seq uint64) error {
		var state task.State
		var n int
		return each(ctx, tx, fmt.Sprintf("SELECT state, count(*) FROM (SELECT state FROM tasks WHERE deadline < ? ORDER BY deadline LIMIT %d) GROUP BY state", maxOverdue),
			[]any{before.UnixMicro()}, []any{&state, &n}, func() error {
				overdue[state] = n
				return nil
			})
	})
	return overdue, err
}
