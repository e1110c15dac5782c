package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/queue"
	"millrace/task/where"
)

// writeQueues writes the settings of queues.
func (f *fold) writeQueues(ctx context.Context, records []events.Record) error {
	for i := range records {
		r := &records[i]
		if r.Kind != events.KindQueue || r.Fact.Queue == "" {
			continue
		}
		q, err := loadQueue(ctx, f.w.conn, r.Fact.Queue)
		if err != nil {
			return err
		}
		e, _ := r.Fact.Event.(queue.Event)
		q = queue.Evolve(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
		doc, err := queueForm.Append(nil, &q)
		if err != nil {
			return fmt.Errorf("queue %s: %w", q.Name, err)
		}
		if err := f.w.exec(ctx, "INSERT OR REPLACE INTO queues VALUES (?, ?)", q.Name, string(doc)); err != nil {
			return err
		}
	}
	return nil
}

// loadQueue returns the stored queue, or one without facts.
func loadQueue(ctx context.Context, conn *sql.Conn, name string) (queue.Queue, error) {
	var doc []byte
	err := conn.QueryRowContext(ctx, "SELECT doc FROM queues WHERE name = ?", name).Scan(&doc)
	if errors.Is(err, sql.ErrNoRows) {
		return queue.Queue{Name: name}, nil
	}
	q := queue.Queue{}
	if err == nil {
		err = queueForm.Read(doc, &q)
	}
	return q, err
}

// Lanes returns the lanes with tasks that have not ended, and when the last timer in each is due.
// It reads all such tasks.
func (s *Store) Lanes(ctx context.Context) (map[where.Lane]time.Time, error) {
	used := map[where.Lane]time.Time{}
	err := s.view(ctx, "list the lanes that are used", func(tx *sql.Tx, _ uint64) error {
		for _, where := range []string{"waits IS NOT NULL", inStateIndex} {
			var doc []byte
			var state task.State
			err := each(ctx, tx, "SELECT state, doc FROM tasks WHERE "+where, nil, []any{&state, &doc}, func() error {
				if state.Terminal() {
					return nil
				}
				t := task.Task{State: state}
				if err := s.form.Read(doc, &t); err != nil {
					return err
				}
				l, until := t.Lane(), used[t.Lane()]
				if t.Due.After(until) {
					until = t.Due
				}
				used[l] = until
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return used, err
}

// SaidOfQueues returns the queues that have facts.
func (s *Store) SaidOfQueues(ctx context.Context) (queues []queue.Queue, err error) {
	err = s.view(ctx, "list what was said of queues", func(tx *sql.Tx, _ uint64) error {
		var doc []byte
		return each(ctx, tx, "SELECT doc FROM queues ORDER BY name", nil, []any{&doc}, func() error {
			var q queue.Queue
			if err := queueForm.Read(doc, &q); err != nil {
				return err
			}
			queues = append(queues, q)
			return nil
		})
	})
	return queues, err
}
