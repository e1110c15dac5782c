package projections

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
)

// UnknownType begins the name of the counter of an unknown type of facts; the type follows.
const UnknownType = "unknown_type."

// deadTasks begins the name of the counter of a kind of dead letters that were not dismissed; the
// kind follows.
const deadTasks = "dead_tasks."

// Bounds of the rows read for a figure.
const (
	maxOldest  = 10_000 // waiting tasks of a queue, in the order of their ids
	maxOverdue = 1000   // tasks whose deadline has passed
)

// Counts returns the numbers of tasks by queue and state; a missing one is 0. Tasks that wait for
// nodes with certain labels count for the queue of these nodes; tasks that wait for one node count
// under [placement.NodeQueue]. It takes constant time. The second result is the sequence that it
// reflects.
func (s *Store) Counts(ctx context.Context) (map[string]map[task.State]int, uint64, error) {
	counts := map[string]map[task.State]int{}
	var at uint64
	err := s.view(ctx, "count tasks", func(tx *sql.Tx, seq uint64) error {
		at = seq
		var queue string
		var state task.State
		var n int
		return each(ctx, tx, "SELECT home, state, sum(n) FROM counts GROUP BY home, state", nil, []any{&queue, &state, &n}, func() error {
			if counts[queue] == nil {
				counts[queue] = map[task.State]int{}
			}
			counts[queue][state] = n
			return nil
		})
	})
	return counts, at, err
}

// Ended returns when the task ended that is the n-th of the ended ones behind the latest, in the order
// of their ids; zero if there are no more than n. It is looked for from the nearer end: to pass a million tasks
// takes a second.
func (s *Store) Ended(ctx context.Context, n int) (at time.Time, err error) {
	err = s.view(ctx, "find what ended long ago", func(tx *sql.Tx, _ uint64) error {
		var all int
		err := tx.QueryRowContext(ctx, "SELECT ifnull(sum(n), 0) FROM counts WHERE state >= ?", task.Finished).Scan(&all)
		if err != nil || all <= n {
			return err
		}
		passed, order := n, "DESC"
		if before := all - n - 1; before < n {
			passed, order = before, "ASC"
		}
		return eachTask(ctx, tx, s.form, "SELECT "+rowColumns+" FROM tasks WHERE state >= ? ORDER BY id "+order+" LIMIT 1 OFFSET ?", []any{task.Finished, passed}, func(t *task.Task) { at = t.EndedAt })
	})
	return at, err
}

// Routes returns the routes on which tasks of a queue wait or have waited: the queue itself, and
// those of selectors among its nodes.
func (s *Store) Routes(ctx context.Context, queue string) (routes []string, err error) {
	err = s.view(ctx, "list the routes of a queue", func(tx *sql.Tx, _ uint64) error {
		routes, err = routesOf(ctx, tx, queue)
		return err
	})
	return routes, err
}

// routesOf returns the routes of a queue; none for "".
func routesOf(ctx context.Context, tx *sql.Tx, queue string) ([]string, error) {
	if queue == "" {
		return nil, nil
	}
	routes := []string{queue}
	var route string
	err := each(ctx, tx, "SELECT DISTINCT queue FROM counts WHERE home = ? AND queue <> home ORDER BY queue", []any{queue}, []any{&route}, func() error {
		routes = append(routes, route)
		return nil
	})
	return routes, err
}

// Lanes returns the lanes with tasks that have not ended, and when the last timer in each is due.
// It reads all such tasks.
func (s *Store) Lanes(ctx context.Context) (map[placement.Lane]time.Time, error) {
	used := map[placement.Lane]time.Time{}
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

// messages returns the unreadable messages that were not dismissed, the latest first, at most
// limit; only those before a sequence if that is not 0.
func (s *Store) messages(ctx context.Context, before uint64, limit int) ([]view.Message, uint64, error) {
	if before == 0 || before > math.MaxInt64 {
		before = math.MaxInt64
	}
	var all []view.Message
	var at uint64
	err := s.view(ctx, "list poison", func(tx *sql.Tx, seq uint64) error {
		at = seq
		var p view.Message
		return each(ctx, tx, "SELECT seq, place, reason, raw FROM poison WHERE seq < ? ORDER BY seq DESC LIMIT ?", []any{int64(before), limit},
			[]any{&p.Seq, &p.Place, &p.Reason, &p.Raw}, func() error {
				all = append(all, p)
				return nil
			})
	})
	return all, at, err
}

// Dead counts the dead letters, without dismissed ones: tasks by kind, and unreadable messages.
func (s *Store) Dead(ctx context.Context) (tasks map[task.Letter]int, messages int, err error) {
	tasks = map[task.Letter]int{}
	err = s.view(ctx, "count dead letters", func(tx *sql.Tx, seq uint64) error {
		for _, kind := range task.Letters() {
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(n), 0) FROM counters WHERE name = ?", deadTasks+string(kind)).Scan(&n); err != nil {
				return err
			}
			tasks[kind] = n
		}
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM poison").Scan(&messages)
	})
	return tasks, messages, err
}

// Due returns the tasks whose own deadline has passed at now, the longest overdue first, at most
// limit: the deadline of [duties.Owes] with no slack and a served queue. Read a task from the log
// before acting on it.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]task.ID, error) {
	return s.ids(ctx, "list tasks due", "SELECT id FROM tasks WHERE deadline <= ? ORDER BY deadline LIMIT ?", now.UnixMicro(), limit)
}

// Oldest returns, for each queue with pending tasks (named as in [Store.Counts]), since when the
// longest waiting one has been pending. It reads the first 10,000 tasks of a queue in the order of
// their ids, which is that of submission.
func (s *Store) Oldest(ctx context.Context) (map[string]time.Time, error) {
	oldest := map[string]time.Time{}
	err := s.view(ctx, "find the oldest waiting tasks", func(tx *sql.Tx, seq uint64) error {
		if was, known := s.oldest.at(seq); known {
			maps.Copy(oldest, was)
			return nil
		}
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
		s.oldest.keep(seq, maps.Clone(oldest))
		return nil
	})
	return oldest, err
}

// Naming implements [node.Routed]. All tasks on a route of a selector ask for the same, so one of
// each is looked at.
func (s *Store) Naming(ctx context.Context, id node.ID) (by task.ID, err error) {
	const unended = "state NOT IN (?, ?, ?, ?)"
	ended := []any{int64(task.Finished), int64(task.Error), int64(task.Cancelled), int64(task.Abnormal)}
	err = s.view(ctx, "look for tasks that name a node", func(tx *sql.Tx, _ uint64) error {
		var route string
		var routes []string
		err := each(ctx, tx, "SELECT DISTINCT queue FROM counts WHERE n > 0 AND "+unended+" ORDER BY queue", ended, []any{&route}, func() error {
			if route == id.Queue() || placement.IsSelectorQueue(route) {
				routes = append(routes, route)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, route := range routes {
			for _, of := range []string{"waits IS NOT NULL", inStateIndex + " AND " + unended} {
				args := []any{route}
				if of != "waits IS NOT NULL" {
					args = append(args, ended...)
				}
				err := eachTask(ctx, tx, s.form, "SELECT "+rowColumns+" FROM tasks WHERE queue = ? AND "+of+" ORDER BY id LIMIT 1", args, func(t *task.Task) {
					if by == "" && t.Names(string(id)) {
						by = t.ID
					}
				})
				if err != nil || by != "" {
					return err
				}
			}
		}
		return nil
	})
	return by, err
}

// PendingRoutes implements [node.Routed]. It reads the first 10,000 tasks of a route.
func (s *Store) PendingRoutes(ctx context.Context) (all []node.Route, err error) {
	err = s.view(ctx, "list the routes on which tasks wait", func(tx *sql.Tx, seq uint64) error {
		if was, known := s.routes.at(seq); known {
			all = slices.Clone(was)
			return nil
		}
		var home, route string
		var n int
		routes := map[string]*node.Route{}
		err := each(ctx, tx, "SELECT queue, home, n FROM counts WHERE state = ? AND n > 0 ORDER BY queue, home", []any{int64(task.Pending)}, []any{&route, &home, &n}, func() error {
			if is := routes[route]; is != nil {
				is.Tasks += n // of one selector
				return nil
			}
			routes[route] = &node.Route{Home: home, Tasks: n}
			return nil
		})
		if err != nil {
			return err
		}
		for _, route := range slices.Sorted(maps.Keys(routes)) {
			is := routes[route]
			err := eachTask(ctx, tx, s.form, "SELECT "+rowColumns+" FROM tasks WHERE queue = ? AND waits IS NOT NULL ORDER BY id LIMIT 1", []any{route}, func(t *task.Task) { is.First = *t })
			if err != nil {
				return err
			}
			var since sql.NullInt64
			err = tx.QueryRowContext(ctx, "SELECT min(waits) FROM (SELECT waits FROM tasks WHERE queue = ? AND waits IS NOT NULL ORDER BY id LIMIT ?)", route, maxOldest).Scan(&since)
			if err != nil {
				return err
			}
			if since.Valid {
				is.Oldest = time.UnixMicro(since.Int64).UTC()
				all = append(all, *is)
			}
		}
		s.routes.keep(seq, slices.Clone(all))
		return nil
	})
	return all, err
}

// latest is an answer that is the same until the next message, and that one page asks for several times.
type latest[V any] struct {
	mu  sync.Mutex
	seq uint64 // guarded by mu; 0 for none
	is  V      // guarded by mu; it does not change
}

func (l *latest[V]) at(seq uint64) (is V, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is, seq > 0 && l.seq == seq
}

func (l *latest[V]) keep(seq uint64, is V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq, l.is = seq, is
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

// Waiting returns the tasks of a queue that have been pending since before a time, with ids after the
// given one, by id, at most limit.
func (s *Store) Waiting(ctx context.Context, queue string, before time.Time, after task.ID, limit int) ([]task.ID, error) {
	return s.ids(ctx, "list waiting tasks", "SELECT id FROM tasks WHERE queue = ? AND waits < ? AND id > ? ORDER BY id LIMIT ?",
		queue, before.UnixMicro(), string(after), limit)
}

// Unassigned returns the tasks of a queue whose [task.Task.AssignBy] has passed at now, by that time, at
// most limit.
func (s *Store) Unassigned(ctx context.Context, queue string, now time.Time, limit int) ([]task.ID, error) {
	return s.ids(ctx, "list tasks that busy nodes have left", "SELECT id FROM tasks WHERE queue = ? AND assign <= ? ORDER BY assign LIMIT ?", queue, now.UnixMicro(), limit)
}

// Held returns the held tasks with ids after the given one, by id, at most limit.
func (s *Store) Held(ctx context.Context, after task.ID, limit int) ([]task.ID, error) {
	return s.ids(ctx, "list held tasks", "SELECT id FROM tasks WHERE state = ? AND "+inStateIndex+" AND id > ? ORDER BY id LIMIT ?",
		int64(task.Held), string(after), limit)
}

// inTimed are the states of tasks that wait for their timers.
var inTimed = fmt.Sprintf("state IN (%d, %d)", task.Scheduled, task.Retrying)

// Timed returns the tasks that wait for their timers with ids after the given one, by id, at most
// limit.
func (s *Store) Timed(ctx context.Context, after task.ID, limit int) ([]task.ID, error) {
	return s.ids(ctx, "list tasks with timers", "SELECT id FROM tasks WHERE "+inTimed+" AND "+inStateIndex+" AND id > ? ORDER BY id LIMIT ?", string(after), limit)
}

// TimedCount is how many tasks wait for their timers. It takes constant time.
func (s *Store) TimedCount(ctx context.Context) (n int, err error) {
	err = s.view(ctx, "count tasks with timers", func(tx *sql.Tx, _ uint64) error {
		return tx.QueryRowContext(ctx, "SELECT coalesce(sum(n), 0) FROM counts WHERE "+inTimed).Scan(&n)
	})
	return n, err
}

// Coming returns the tasks that wait for their timers and are due after from and no later than
// until, the earliest first. It omits a task whose total deadline comes first.
func (s *Store) Coming(ctx context.Context, from, until time.Time) ([]task.ID, error) {
	return s.ids(ctx, "list tasks due soon", "SELECT id FROM tasks WHERE deadline > ? AND deadline <= ? AND "+inTimed+" ORDER BY deadline",
		from.UnixMicro(), until.UnixMicro())
}

// OnNode returns the tasks that are running or cancelling on a node.
func (s *Store) OnNode(ctx context.Context, id node.ID) ([]task.ID, error) {
	return s.ids(ctx, "list tasks of a node", "SELECT id FROM tasks WHERE "+onNode+" ORDER BY id", nodeArgs(id)...)
}

// onNode selects the tasks under way on a node, with nodeArgs.
var onNode = "state IN (?, ?) AND " + inStateIndex + " AND node = ?"

func nodeArgs(id node.ID) []any {
	return []any{int64(task.Running), int64(task.Cancelling), string(id)}
}

// onUnknown selects the tasks under way on nodes of which there is no fact.
var onUnknown = "state IN (?, ?) AND " + inStateIndex + " AND node <> '' AND node NOT IN (SELECT id FROM subjects WHERE kind = ?)"

// Astray returns the tasks that are running or cancelling on a node under another session; with ""
// all of them. Without an id it returns those on nodes of which there is no fact.
func (s *Store) Astray(ctx context.Context, id node.ID, session string) ([]task.ID, error) {
	switch {
	case id == "":
		return s.ids(ctx, "list tasks of unknown nodes", "SELECT id FROM tasks WHERE "+onUnknown+" ORDER BY id",
			int64(task.Running), int64(task.Cancelling), int64(view.Nodes))
	case session == "":
		return s.OnNode(ctx, id)
	}
	var ids []task.ID
	err := s.view(ctx, "list tasks astray", func(tx *sql.Tx, _ uint64) error {
		ids = nil
		return eachTask(ctx, tx, s.form, "SELECT "+rowColumns+" FROM tasks WHERE "+onNode+" ORDER BY id", nodeArgs(id), func(t *task.Task) {
			if t.Session != session {
				ids = append(ids, t.ID)
			}
		})
	})
	return ids, err
}

// Queues returns the queues with pending tasks, by name.
func (s *Store) Queues(ctx context.Context) ([]string, error) {
	var queues []string
	err := s.view(ctx, "list queues", func(tx *sql.Tx, seq uint64) (err error) {
		queues, err = pendingQueues(ctx, tx)
		return err
	})
	return queues, err
}

// pendingHomes returns the display names of the queues for the routes on which tasks wait.
func pendingHomes(ctx context.Context, tx *sql.Tx) (map[string][]string, error) {
	homes := map[string][]string{}
	var queue, home string
	err := each(ctx, tx, "SELECT queue, home FROM counts WHERE state = ?", []any{int64(task.Pending)}, []any{&queue, &home}, func() error {
		homes[queue] = append(homes[queue], home)
		return nil
	})
	return homes, err
}

func pendingQueues(ctx context.Context, tx *sql.Tx) ([]string, error) {
	var queues []string
	var queue string
	err := each(ctx, tx, "SELECT DISTINCT queue FROM counts WHERE state = ? ORDER BY queue", []any{int64(task.Pending)}, []any{&queue}, func() error {
		queues = append(queues, queue)
		return nil
	})
	return queues, err
}

func (s *Store) ids(ctx context.Context, what, query string, args ...any) ([]task.ID, error) {
	var ids []task.ID
	err := s.view(ctx, what, func(tx *sql.Tx, seq uint64) error {
		var id task.ID
		return each(ctx, tx, query, args, []any{&id}, func() error {
			ids = append(ids, id)
			return nil
		})
	})
	return ids, err
}

// idsAtOnce is how many tasks one statement looks up.
const idsAtOnce = 256

// Known returns the known tasks among the given ones, in no particular order.
func (s *Store) Known(ctx context.Context, ids []task.ID) (tasks []task.Task, err error) {
	const what = "look at tasks"
	if len(ids) <= idsAtOnce {
		err = s.glance(what, func(db *sql.DB) error {
			tasks, err = rowsByID(ctx, db, s.form, ids)
			return err
		})
		return tasks, err
	}
	err = s.view(ctx, what, func(tx *sql.Tx, _ uint64) error {
		tasks, err = rowsByID(ctx, tx, s.form, ids)
		return err
	})
	return tasks, err
}

// Since returns those of the tasks that have changed at a sequence or later, and those that are not known.
func (s *Store) Since(ctx context.Context, ids []task.ID, seq uint64) (later map[task.ID]bool, unknown []task.ID, err error) {
	later = map[task.ID]bool{}
	return later, unknown, s.view(ctx, "look when tasks changed", func(tx *sql.Tx, _ uint64) error {
		for part := range slices.Chunk(ids, idsAtOnce) {
			err := inParts(part, func(in string, args []any) error {
				args = append([]any{int64(seq)}, args...)
				older := 0
				err := each(ctx, tx, "SELECT count(*) FROM tasks WHERE state <> 0 AND seq < ? AND "+in, args, []any{&older}, func() error { return nil })
				if err != nil || older == len(part) { // nearly always: to count them takes less than to name them
					return err
				}
				var id task.ID
				var since bool
				known := map[task.ID]bool{}
				err = each(ctx, tx, "SELECT id, seq >= ? FROM tasks WHERE state <> 0 AND "+in, args, []any{&id, &since}, func() error {
					if known[id] = true; since {
						later[id] = true
					}
					return nil
				})
				for _, id := range part {
					if !known[id] {
						unknown = append(unknown, id)
					}
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func rowsByID(ctx context.Context, tx querier, form *rowForm, ids []task.ID) ([]task.Task, error) {
	found := make([]task.Task, 0, len(ids))
	err := inParts(ids, func(in string, args []any) error {
		return eachTask(ctx, tx, form, "SELECT "+rowColumns+" FROM tasks WHERE "+in, args, func(t *task.Task) {
			if t.State != task.Unknown {
				found = append(found, *t)
			}
		})
	})
	return found, err
}

// inParts calls f for parts of ids with a condition that chooses their rows, and its arguments.
// There are few conditions, so that their statements stay prepared: a list is filled up to a power
// of two with its last id.
func inParts(ids []task.ID, f func(in string, args []any) error) error {
	for part := range slices.Chunk(ids, idsAtOnce) {
		n := 1
		for n < len(part) {
			n *= 2
		}
		args := make([]any, n)
		for i := range args {
			args[i] = string(part[min(i, len(part)-1)])
		}
		if err := f("id IN ("+repeat("?", n)+")", args); err != nil {
			return err
		}
	}
	return nil
}

// querier is a transaction for reading or writing, or the file without one.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each scans the rows into the same variables and calls f for each.
func each(ctx context.Context, tx querier, query string, args, into []any, f func() error) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}
