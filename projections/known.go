package projections

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"millrace/task"
)

// knownAtOnce is how many tasks one query reads.
const knownAtOnce = 250

// Known returns the known tasks among the given ones, in no particular order.
func (s *Store) Known(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	var tasks []task.Task
	err := s.view(ctx, "look at tasks", func(tx *sql.Tx, _ uint64) error {
		for some := range slices.Chunk(ids, knownAtOnce) {
			args := make([]any, len(some))
			for i, id := range some {
				args[i] = string(id)
			}
			if err := s.knownOf(ctx, tx, args, &tasks); err != nil {
				return err
			}
		}
		return nil
	})
	return tasks, err
}

func (s *Store) knownOf(ctx context.Context, tx *sql.Tx, ids []any, tasks *[]task.Task) error {
	rows, err := tx.QueryContext(ctx, "SELECT "+rowColumns+" FROM tasks WHERE id IN (?"+strings.Repeat(", ?", len(ids)-1)+")", ids...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		t, err := scanTask(rows, s.form)
		if err != nil {
			return err
		}
		if t.State != task.Unknown {
			*tasks = append(*tasks, t)
		}
	}
	return rows.Err()
}
