package projections

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"millrace/task"
)

// Parents returns the parents that have not ended, in the order of their ids, at
// most limit of them. They run on no node.
func (s *Store) Parents(ctx context.Context, limit int) ([]task.ID, error) {
	return s.ids(ctx, "list parents", "SELECT id FROM tasks WHERE state IN (?, ?) AND "+inStateIndex+" AND node = '' ORDER BY id LIMIT ?",
		int64(task.Running), int64(task.Cancelling), limit)
}

// statesAtOnce is how many tasks one query asks for.
const statesAtOnce = 250

// endReason is the reason code where that makes a difference: in the row it is not a column.
var endReason = fmt.Sprintf("CASE WHEN state >= %d THEN ifnull(json_extract(doc, '$.reason'), '') ELSE '' END", task.Finished)

// Ends returns how far tasks have come, and the sequence that reflects. What is not
// known is not there.
func (s *Store) Ends(ctx context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	ends := make(map[task.ID]task.End, len(ids))
	var at uint64
	err := s.view(ctx, "look at the states of tasks", func(tx *sql.Tx, seq uint64) error {
		at = seq
		for len(ids) > 0 {
			n := min(len(ids), statesAtOnce)
			args := make([]any, n)
			for i, id := range ids[:n] {
				args[i] = string(id)
			}
			ids = ids[n:]
			var id task.ID
			var end task.End
			query := "SELECT id, state, " + endReason + " FROM tasks WHERE id IN (?" + strings.Repeat(", ?", n-1) + ")"
			if err := each(ctx, tx, query, args, []any{&id, &end.State, &end.Reason}, func() error {
				if end.State != task.Unknown {
					ends[id] = end
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return ends, at, err
}

// Busy tells whether a queue, or a route in its place, has tasks that have not ended.
func (s *Store) Busy(ctx context.Context, queue string) (bool, error) {
	busy := false
	ended := fmt.Sprintf("%d, %d, %d, %d", task.Finished, task.Error, task.Cancelled, task.Abnormal)
	err := s.view(ctx, "look whether a route is in use", func(tx *sql.Tx, _ uint64) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) > 0 FROM counts WHERE queue = ? AND n > 0 AND state NOT IN ("+ended+")", queue).Scan(&busy)
	})
	return busy, err
}
