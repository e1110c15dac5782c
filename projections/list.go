package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/placement"
)

var (
	_ view.Model  = (*Store)(nil)
	_ view.Summed = (*Store)(nil)
	_ view.Ticked = (*Store)(nil)
)

// Point implements [view.Model]. It does not know when the log stored the last message.
func (s *Store) Point(context.Context) (view.Point, error) { return view.Point{Seq: s.Reached()}, nil }

// List implements [view.Model], except for definitions.
func (s *Store) List(ctx context.Context, q view.Query) (page view.Page, err error) {
	if err := s.Wait(ctx, q.AtLeast); err != nil {
		return page, err
	}
	switch q.Kind {
	case view.Tasks:
		return s.tasks(ctx, q.Filter)
	case view.Nodes:
		page.Nodes, page.Point.Seq, err = s.Nodes(ctx)
	case view.Queues:
		page.Point.Seq = s.Reached()
		page.Queues, err = s.SaidOfQueues(ctx)
	case view.Messages:
		var most int
		if most, err = q.Most(); err == nil {
			page.Messages, page.Point.Seq, err = s.messages(ctx, q.Before, most)
		}
	default:
		err = fmt.Errorf("%w: the read model has no list of %s", view.ErrQuery, q.Kind)
	}
	return page, err
}

// Count implements [view.Model]. Counting all tasks, or those of a queue, takes constant time. With
// filters that the index of the past can tell, it takes some ns for each task; with others it visits
// the tasks one by one.
func (s *Store) Count(ctx context.Context, q view.Query) (c view.Counts, err error) {
	if q.Kind != view.Tasks {
		return c, fmt.Errorf("%w: the read model has no count of %s", view.ErrQuery, q.Kind)
	}
	if err := s.Wait(ctx, q.AtLeast); err != nil {
		return c, err
	}
	if queue, only := q.OnlyQueue(); only && !placement.IsSelectorQueue(queue) {
		c.Of, c.Point.Seq, err = s.Counts(ctx)
		if queue != "" {
			maps.DeleteFunc(c.Of, func(name string, _ map[task.State]int) bool { return name != queue })
		}
		return c, err
	}
	if q.Rowed() {
		return s.countEach(ctx, &q.Filter)
	}
	err = s.now(ctx, "count tasks", func(p *past.View) error { c, err = p.Count(ctx, q); return err })
	if errors.Is(err, view.ErrUnindexed) {
		c, err = s.countEach(ctx, &q.Filter)
	}
	return c, err
}

// countEach counts the tasks that match a filter by visiting each candidate.
func (s *Store) countEach(ctx context.Context, f *view.Filter) (c view.Counts, err error) {
	l := list{filter: f, want: 1, count: func(t *task.Task) { c.Add(t.QueueName(), t.State, 1) }}
	c.Point.Seq, err = s.run(ctx, "count tasks", &l)
	return c, err
}

// run finds in the rows what a list wants, as of a sequence.
func (s *Store) run(ctx context.Context, what string, l *list) (at uint64, err error) {
	err = s.view(ctx, what, func(tx *sql.Tx, seq uint64) (err error) {
		at, l.ctx, l.tx, l.form, l.spans = seq, ctx, tx, s.form, s.texts.spans(textsIn(l.filter)...)
		if !l.filter.OldestFirst {
			slices.Reverse(l.spans)
		}
		if l.routes, err = routesOf(ctx, tx, l.filter.Queue); err == nil {
			err = l.run()
		}
		return err
	})
	return at, err
}

// tasks returns a page of the tasks that match a filter.
func (s *Store) tasks(ctx context.Context, f view.Filter) (page view.Page, err error) {
	most, err := f.Most()
	if err != nil {
		return page, fmt.Errorf("list tasks: %w", err)
	}
	after, err := f.Start()
	if err != nil {
		return page, fmt.Errorf("list tasks: %w", err)
	}
	if list, ok := jobListOf(&f); ok {
		return s.ofJob(ctx, list, f)
	}
	if numbers(&f) {
		err = s.now(ctx, "list tasks", func(p *past.View) error { page, err = p.List(ctx, view.Query{Kind: view.Tasks, Filter: f}); return err })
		if !errors.Is(err, view.ErrUnindexed) {
			return page, err
		}
	}
	return s.inRows(ctx, f, after, most)
}

// ofJob returns the first page of the tasks of a job.
func (s *Store) ofJob(ctx context.Context, list jobList, f view.Filter) (page view.Page, err error) {
	page, age, ok := s.jobs.get(list, s.Reached())
	if ok {
		return page, nil
	}
	err = s.now(ctx, "list tasks", func(p *past.View) error { page, err = p.List(ctx, view.Query{Kind: view.Tasks, Filter: f}); return err })
	if err == nil {
		s.jobs.put(list, page, age)
	}
	return page, err
}

// inRows returns a page of the tasks that match a filter, by the rows alone.
func (s *Store) inRows(ctx context.Context, f view.Filter, after task.ID, most int) (page view.Page, err error) {
	l := list{filter: &f, after: after, want: most + 1}
	page.Point.Seq, err = s.run(ctx, "list tasks", &l)
	page.Tasks, page.Next = f.Cut(l.found, most)
	return page, err
}

// rowsBytes is roughly how many bytes of rows a page has. A larger row is a page of its own.
const rowsBytes = 256 << 10

// Rows returns a page of all tasks, as they are stored. Of the filter only After, OldestFirst and Limit
// count. It copies the documents, and reads none.
func (s *Store) Rows(ctx context.Context, f view.Filter) (page view.Rows, err error) {
	most, err := f.Most()
	if err != nil {
		return page, fmt.Errorf("list rows: %w", err)
	}
	c := conditions(&view.Filter{OldestFirst: f.OldestFirst}, nil, f.After)
	c.and("state <> 0")
	err = s.view(ctx, "list rows", func(tx *sql.Tx, seq uint64) error {
		page.Seq = seq
		rows, err := tx.QueryContext(ctx, "SELECT "+rowColumns+" FROM tasks WHERE "+c.text.String()+" "+order(&f)+" LIMIT ?", append(c.args, most+1)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		text := make([]byte, 0, rowsBytes) // of all rows
		last := task.ID("")
		for rows.Next() {
			var r storedRow
			if err := r.scan(rows); err != nil {
				return err
			}
			n := len(page.Rows)
			if n == most || n > 0 && len(text)+len(r.doc) > rowsBytes {
				page.Next = last
				break
			}
			begins := len(text)
			if text, err = r.append(text); err != nil {
				return err
			}
			page.Rows, last = append(page.Rows, text[begins:len(text):len(text)]), r.id
		}
		return rows.Err()
	})
	return page, err
}

// numbers tells whether a filter is for the index of the past, which knows of all tasks what a few
// rows would tell: few tasks may match, and no index of the rows finds these. Such an index has the
// pending tasks and the dead letters of a queue, but not what has ended in it.
func numbers(f *view.Filter) bool {
	rows := []string{"States", "Dead"}
	if f.Dead || len(f.States) == 0 || slices.Contains(f.States, task.Pending) {
		rows = append(rows, "Queue")
	}
	return f.IDPart == "" && !f.Rowed() && f.Sets(func(k *view.Field) bool { return !slices.Contains(rows, k.Name) })
}

// list finds the first tasks that match a filter. Each state, and each queue of pending tasks, is a
// range of an index in the order of ids; list takes the first of each range, and the first among
// these.
type list struct {
	ctx    context.Context
	tx     *sql.Tx
	form   *rowForm
	filter *view.Filter
	// routes are the routes on which tasks of the filter's queue wait.
	routes []string
	after  task.ID
	want   int
	// spans are the ranges of ids to search, in order.
	spans []span
	found []task.Task
	// count, if set, is called for all matches, and none is kept.
	count func(*task.Task)
}

func (l *list) run() error {
	if l.filter.Dead {
		return l.add("dead = 1")
	}
	if l.filter.Approval {
		return l.add("approval = 1")
	}
	states := slices.Clone(l.filter.States)
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
			for _, queue := range l.routes {
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

// among returns the states that are in a set, and the whole set if states is empty.
func among(states, set []task.State) []task.State {
	if len(states) == 0 {
		return set
	}
	return slices.DeleteFunc(states, func(s task.State) bool { return !slices.Contains(set, s) })
}

// ofState states the state so that SQLite sees which index applies.
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
		if _, own := placement.NodeOf(queue); l.filter.Suspect != nil && !own {
			continue // not waiting for a single node
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

// look appends the first tasks of a range with ids in a span, until there are enough.
func (l *list) look(part []task.Task, of span, where string, args ...any) ([]task.Task, error) {
	c := conditions(l.filter, l.routes, l.after)
	c.and(where, args...)
	if of.first != "" {
		c.and("id >= ?", of.first)
	}
	if of.end != "" {
		c.and("id < ?", of.end)
	}
	if len(l.found) == l.want {
		c.and("id "+reverse(l.filter.Beyond())+" ?", string(l.found[l.want-1].ID))
	}
	rows, err := l.tx.QueryContext(l.ctx, "SELECT "+rowColumns+" FROM tasks WHERE "+c.text.String()+" "+order(l.filter), c.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if l.count != nil {
		return nil, l.countAll(rows)
	}
	for len(part) < l.want && rows.Next() {
		if part == nil {
			part = make([]task.Task, 0, l.want) // a task is large and expensive to copy
		}
		part = part[:len(part)+1]
		t := &part[len(part)-1]
		if err := scanInto(rows, l.form, t); err != nil {
			return nil, err
		}
		if !l.filter.Match(t) {
			*t = task.Task{}
			part = part[:len(part)-1]
		}
	}
	return part, rows.Err()
}

func (l *list) countAll(rows *sql.Rows) error {
	for t := new(task.Task); rows.Next(); *t = (task.Task{}) {
		if err := scanInto(rows, l.form, t); err != nil {
			return err
		}
		if l.filter.Match(t) {
			l.count(t)
		}
	}
	return rows.Err()
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
