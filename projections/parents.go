package projections

import (
	"context"
	"database/sql"
	"fmt"

	"millrace/task"
)

// Parents returns at most limit parents that have not ended, by id. They run on no node.
func (s *Store) Parents(ctx context.Context, limit int) ([]task.ID, error) {
	return s.ids(ctx, "list parents", "SELECT id FROM tasks WHERE state IN (?, ?) AND "+inStateIndex+" AND node = '' ORDER BY id LIMIT ?",
		int64(task.Running), int64(task.Cancelling), limit)
}

// Spawned returns the tasks that have not ended and name a task as parent, with an id derived from
// its own: children that its program has spawned, and steps. Such ids are close together, so the
// query is cheap.
func (s *Store) Spawned(ctx context.Context, parent task.ID) ([]task.ID, error) {
	from, to := task.DerivedRange(parent)
	return s.ids(ctx, "list the children of a task", "SELECT id FROM tasks WHERE id >= ? AND id < ? AND state NOT IN (?, ?, ?, ?) AND instr(words, ?) ORDER BY id",
		string(from), string(to), int64(task.Finished), int64(task.Error), int64(task.Cancelled), int64(task.Abnormal),
		mark(markParent, string(parent)))
}

// endColumns are the columns of a [task.End]. The document is read only for tasks that failed or
// ended for a reason; for the rest the state is enough.
var endColumns = fmt.Sprintf("id, state, CASE WHEN state IN (%d, %d) OR instr(words, '%s') THEN doc END", task.Error, task.Abnormal, anyMark(markReason))

// Ends returns the progress of tasks, and the sequence that this reflects. Unknown tasks are
// missing.
func (s *Store) Ends(ctx context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	ends := make(map[task.ID]task.End, len(ids))
	var at uint64
	err := s.view(ctx, "look at the states of tasks", func(tx *sql.Tx, seq uint64) error {
		at = seq
		var id task.ID
		var state task.State
		var doc []byte
		return inParts(ids, func(in string, args []any) error {
			return each(ctx, tx, "SELECT "+endColumns+" FROM tasks WHERE "+in, args, []any{&id, &state, &doc}, func() error {
				t := task.Task{State: state}
				if doc != nil {
					if err := s.form.Read(doc, &t); err != nil {
						return fmt.Errorf("row of task %s: %w", id, err)
					}
				}
				if state != task.Unknown {
					ends[id] = task.EndOf(&t)
				}
				return nil
			})
		})
	})
	return ends, at, err
}

// Busy tells whether a queue, or a route, has tasks that have not ended.
func (s *Store) Busy(ctx context.Context, queue string) (bool, error) {
	busy := false
	ended := fmt.Sprintf("%d, %d, %d, %d", task.Finished, task.Error, task.Cancelled, task.Abnormal)
	err := s.view(ctx, "look whether a route is in use", func(tx *sql.Tx, _ uint64) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) > 0 FROM counts WHERE queue = ? AND n > 0 AND state NOT IN ("+ended+")", queue).Scan(&busy)
	})
	return busy, err
}
