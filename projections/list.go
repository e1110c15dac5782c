package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task"
)

// Tasks returns a page of the tasks that meet a filter, in the order of their
// ids. The error wraps [ErrCursor] if the filter's cursor is none.
func (s *Store) Tasks(ctx context.Context, f Filter) (Page, error) {
	limit, err := f.limit()
	if err != nil {
		return Page{}, fmt.Errorf("list tasks: %w", err)
	}
	after, err := f.after()
	if err != nil {
		return Page{}, fmt.Errorf("list tasks: %w", err)
	}
	var page Page
	err = s.view(ctx, "list tasks", func(tx *sql.Tx, seq uint64) error {
		l := list{ctx: ctx, tx: tx, form: s.form, filter: &f, after: after, want: limit + 1, spans: s.texts.spans(f.Text)}
		if !f.OldestFirst {
			slices.Reverse(l.spans)
		}
		if err := l.run(); err != nil {
			return err
		}
		page = Page{Tasks: l.found, Seq: seq}
		return nil
	})
	if len(page.Tasks) > limit {
		page.Tasks = page.Tasks[:limit]
		page.Next = f.CursorAfter(page.Tasks[limit-1].ID)
	}
	return page, err
}

// list finds the first tasks that meet a filter. Each state, and each queue of
// the pending ones, has a range of its own in an index, in the order of ids; so
// the first of each range are taken and the first of those found.
type list struct {
	ctx    context.Context
	tx     *sql.Tx
	form   *rowForm
	filter *Filter
	after  string
	want   int
	// spans are the ranges of ids to look at, one after the other.
	spans []span
	found []task.Task
}

func (l *list) run() error {
	states := slices.Clone(l.filter.States)
	if l.filter.Dead {
		states = []task.State{task.Abnormal}
	}
	if l.filter.Suspect != nil {
		states = among(states, []task.State{task.Pending, task.Running, task.Cancelling})
		if len(states) == 0 {
			return nil // no others depend on a node
		}
	}
	slices.Sort(states)
	states = slices.Compact(states)
	if len(states) == 0 || len(states) == len(task.States()) {
		return l.add("state <> 0")
	}
	for _, state := range states {
		var err error
		switch {
		case state != task.Pending:
			err = l.add(l.ofState(state))
		case l.filter.Queue != "":
			for _, queue := range append([]string{l.filter.Queue}, l.filter.Routes...) {
				err = errors.Join(err, l.add("waits IS NOT NULL AND queue = ?", queue))
			}
		default:
			err = l.pending()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// among are those of the states that are in a set, and all of it if none are given.
func among(states, set []task.State) []task.State {
	if len(states) == 0 {
		return set
	}
	return slices.DeleteFunc(states, func(s task.State) bool { return !slices.Contains(set, s) })
}

// ofState states the state so that SQLite sees which index holds it.
func (l *list) ofState(state task.State) string {
	if state == task.Finished {
		return fmt.Sprintf("state = %d", state)
	}
	return fmt.Sprintf("state = %d AND %s", state, inStateIndex)
}

func (l *list) pending() error {
	queues, err := pendingQueues(l.ctx, l.tx)
	if err != nil {
		return err
	}
	for _, queue := range queues {
		if _, own := task.NodeOf(queue); l.filter.Suspect != nil && !own {
			continue // waits for nobody in particular
		}
		if err := l.add("waits IS NOT NULL AND queue = ?", queue); err != nil {
			return err
		}
	}
	return nil
}

// add merges the first tasks of a range into those found.
func (l *list) add(where string, args ...any) error {
	var part []task.Task
	for _, of := range l.spans {
		if len(part) >= l.want {
			break
		}
		var err error
		if part, err = l.look(part, of, where, args...); err != nil {
			return err
		}
	}
	l.found = l.merge(l.found, part)
	return nil
}

// look appends the first tasks of a range that have ids of a span, until there are as many as wanted.
func (l *list) look(part []task.Task, of span, where string, args ...any) ([]task.Task, error) {
	c := l.filter.conditions(l.after)
	c.and(where, args...)
	if of.first != "" {
		c.and("id >= ?", of.first)
	}
	if of.end != "" {
		c.and("id < ?", of.end)
	}
	if len(l.found) == l.want {
		c.and("id "+reverse(l.filter.beyond())+" ?", string(l.found[l.want-1].ID))
	}
	rows, err := l.tx.QueryContext(l.ctx, "SELECT "+rowColumns+" FROM tasks WHERE "+c.text.String()+" "+l.filter.order(), c.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for len(part) < l.want && rows.Next() {
		if part == nil {
			part = make([]task.Task, 0, l.want) // a task is large, and copying it dear
		}
		part = part[:len(part)+1]
		t := &part[len(part)-1]
		if err := scanInto(rows, l.form, t); err != nil {
			return nil, err
		}
		if !l.filter.matches(t) {
			*t = task.Task{}
			part = part[:len(part)-1]
		}
	}
	return part, rows.Err()
}

func reverse(relation string) string {
	if relation == "<" {
		return ">"
	}
	return "<"
}

func (l *list) merge(a, b []task.Task) []task.Task {
	if len(a) == 0 {
		return b
	}
	all := append(a, b...)
	slices.SortFunc(all, func(a, b task.Task) int {
		if l.filter.OldestFirst {
			return strings.Compare(string(a.ID), string(b.ID))
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	return all[:min(len(all), l.want)]
}
