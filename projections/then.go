package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/quota"
)

// rows are the rows of a store, for its index of the past: those of a transaction, or as they are.
type rows struct {
	store *Store
	tx    *sql.Tx // nil outside of one
}

// Reached implements [past.Rows].
func (r rows) Reached(ctx context.Context, seq uint64) (of past.Index, size int64, err error) {
	err = r.store.from(ctx, seq, func(tx *sql.Tx) error {
		var reached position
		err := reached.load(ctx, tx)
		of, size = r.store.past, reached.Past.Size
		if seq < reached.Whole {
			err = errors.Join(err, view.Forgotten{Seq: reached.Whole})
		}
		return err
	})
	return of, size, err
}

// from calls f with a transaction that sees the rows at a sequence or later.
func (s *Store) from(ctx context.Context, seq uint64, f func(tx *sql.Tx) error) error {
	if err := s.Wait(ctx, seq); err != nil {
		return err
	}
	return s.view(ctx, "look into the past", func(tx *sql.Tx, reached uint64) error {
		if reached < seq {
			return fmt.Errorf("the read model is made again and has come to sequence %d, before %d", reached, seq)
		}
		return f(tx)
	})
}

// Known implements [past.Rows].
func (r rows) Known(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if r.tx == nil {
		return r.store.Known(ctx, ids)
	}
	return rowsByID(ctx, r.tx, r.store.form, ids)
}

// Numbers implements [past.Rows].
func (r rows) Numbers(ctx context.Context, ids []task.ID) (map[task.ID]uint32, error) {
	numbers := make(map[task.ID]uint32, len(ids))
	return numbers, r.store.view(ctx, "look at the numbers of tasks", func(tx *sql.Tx, _ uint64) error {
		var id task.ID
		var number uint32
		return inParts(ids, func(in string, args []any) error {
			return each(ctx, tx, "SELECT id, number FROM tasks WHERE "+in, args, []any{&id, &number}, func() error {
				numbers[id] = number
				return nil
			})
		})
	})
}

// now asks the index of the past about the place that the rows have reached. One question is answered at a
// time.
func (s *Store) now(ctx context.Context, what string, ask func(p *past.View) error) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	return s.view(ctx, what, func(tx *sql.Tx, seq uint64) error {
		var reached position
		if err := reached.load(ctx, tx); err != nil {
			return err
		}
		p, err := s.past.Now(ctx, view.Point{Seq: seq}, reached.Past.Size, rows{s, tx})
		if err != nil {
			return err
		}
		return ask(p)
	})
}

// LastFailed returns at most most tasks that have failed, those that failed last first.
func (s *Store) LastFailed(ctx context.Context, most int) (last []task.Task, err error) {
	err = s.now(ctx, "list failures", func(p *past.View) error { last, err = p.LastFailed(ctx, most); return err })
	return last, err
}

// Traces returns the sequences of the messages that a choice may choose, the latest before a sequence or
// the earliest after it, at most most.
func (s *Store) Traces(ctx context.Context, c view.Trace, beyond uint64, most int) (found []uint64, err error) {
	err = s.now(ctx, "look for facts", func(p *past.View) error { found, err = p.Traces(ctx, c, beyond, most); return err })
	return found, err
}

// Schedules returns the results of each schedule's ticks; skipped ones are counted from since.
// Removed schedules are included.
func (s *Store) Schedules(ctx context.Context, since time.Time) (all map[string]*view.Ticks, at uint64, err error) {
	err = s.now(ctx, "look at the planned runs of schedules", func(p *past.View) error { all, at, err = p.Schedules(ctx, since); return err })
	return all, at, err
}

// Skips returns the decisions since a time by which ticks got no task.
func (s *Store) Skips(ctx context.Context, since time.Time) (all []view.TickDecision, err error) {
	err = s.now(ctx, "look at the planned runs of schedules", func(p *past.View) error { all, err = p.Skips(ctx, since); return err })
	return all, err
}

// Planned returns what is known of these tasks.
func (s *Store) Planned(ctx context.Context, ids []task.ID) (map[task.ID]view.Planned, error) {
	now, err := s.Known(ctx, ids)
	all := make(map[task.ID]view.Planned, len(now))
	for i := range now {
		all[now[i].ID] = view.PlannedOf(&now[i])
	}
	return all, err
}

// LastOfJobs returns the latest task without a parent of each job.
func (s *Store) LastOfJobs(ctx context.Context) (last map[string]task.Task, at uint64, err error) {
	err = s.now(ctx, "look at the latest tasks of jobs", func(p *past.View) error { last, at, err = p.LastOfJobs(ctx); return err })
	return last, at, err
}

// then is a place in the log: the index of the past tells of its tasks, and the rows of its nodes, queues
// and definitions.
type then struct {
	*view.World
	*past.View
	store *Store
	at    view.Point
	log   Log
}

var _ view.Whole = (*then)(nil)

// Log is what [Store.At] reads of the log.
type Log = past.Log

// At answers from the index of the past about a place in the log, once the rows have reached it. It
// reads single messages and tasks from the log.
func (s *Store) At(p view.Point, log Log) view.Whole {
	s.mu.RLock()
	defer s.mu.RUnlock()
	is := &then{store: s, at: p, log: log}
	is.World = view.At(is, is.facts, p.Seq)
	is.View = s.past.At(p, rows{s, nil}, log)
	return is
}

// Standing implements [view.View].
func (p *then) Standing(ctx context.Context, id task.ID, holders int) (*quota.Standing, error) {
	return view.Standing(ctx, p, id, holders)
}

// Steps implements [view.Whole], for two places of one index.
func (p *then) Steps(ctx context.Context, earlier view.Whole, f view.Filter, most int) (view.Steps, error) {
	before, same := earlier.(*then)
	if !same {
		return view.Steps{}, view.ErrUnindexed
	}
	return p.View.Steps(ctx, before.View, f, most)
}

// List implements [view.Model].
func (p *then) List(ctx context.Context, q view.Query) (page view.Page, err error) {
	if !q.Kind.Few() {
		return p.View.List(ctx, q)
	}
	page.Point = p.at
	if q.AtLeast > p.at.Seq {
		return page, fmt.Errorf("%w: at_least is %d, and this is as of sequence %d", view.ErrQuery, q.AtLeast, p.at.Seq)
	}
	if _, err := q.Most(); err != nil {
		return page, err
	}
	err = p.store.from(ctx, p.at.Seq, func(tx *sql.Tx) error { return addSubjects(ctx, tx, q, p.at.Seq, &page) })
	return page, err
}
