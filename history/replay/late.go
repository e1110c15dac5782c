package replay

import (
	"context"
	"fmt"
	"time"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/value"
)

// late finds the moments at which a duty on a task became overdue. They lie between the facts:
// behind the last one that the log had by then.
func (s *Span) late(ctx context.Context, rules view.Rules) ([]hit, error) {
	l := lateness{
		span:  s,
		rules: rules,
		pass:  s.start(),
		by:    map[task.ID]time.Time{},
		due:   value.Heap[deadline]{Before: func(a, b deadline) bool { return a.by.Before(b.by) }},
	}
	for pos := range s.facts {
		if err := s.pause(ctx, pos); err != nil {
			return nil, err
		}
		if err := l.passed(ctx, pos-1, s.time(pos)); err != nil {
			return nil, err
		}
		if err := l.fact(ctx, pos); err != nil {
			return nil, err
		}
	}
	return l.hits, nil
}

type lateness struct {
	span  *Span
	rules view.Rules
	pass  pass
	by    map[task.ID]time.Time // the present deadline of each task; other entries in due are outdated
	due   value.Heap[deadline]
	nodes []node.Node
	stale bool // nodes
	hits  []hit
}

// fact processes the next fact.
func (l *lateness) fact(ctx context.Context, pos int) error {
	r := l.span.record(pos)
	ref, _, is := l.pass.add(&r)
	switch ref.Kind {
	case view.Tasks:
		if err := l.owes(ctx, pos, is.Task, l.span.time(pos)); err != nil {
			return err
		}
		l.pass.ended(ref, is)
	case view.Nodes:
		l.stale = true
		return l.touched(ctx, pos, ref.ID)
	case view.Queues:
		return l.touched(ctx, pos, "")
	}
	return nil
}

// touched checks the waiting tasks again, and those that run on a node.
func (l *lateness) touched(ctx context.Context, pos int, on string) error {
	for ref, item := range l.pass.items {
		if ref.Kind != view.Tasks || item.Task.State != task.Pending && (on == "" || item.Task.Node != on) {
			continue
		}
		if err := l.owes(ctx, pos, item.Task, l.span.time(pos)); err != nil {
			return err
		}
	}
	return nil
}

// duty is the duty on a task after a fact, at a time.
func (l *lateness) duty(ctx context.Context, pos int, t *task.Task, at time.Time) (duties.Duty, error) {
	if l.stale {
		l.nodes, l.stale = l.pass.known(), false
	}
	return view.Owed(ctx, l.span.worldOf(pos, at, func() []node.Node { return l.nodes }), t, l.rules)
}

// owes records the duty of a task.
func (l *lateness) owes(ctx context.Context, pos int, t *task.Task, at time.Time) error {
	delete(l.by, t.ID)
	if t.State.Terminal() {
		return nil
	}
	d, err := l.duty(ctx, pos, t, at)
	if err != nil {
		return err
	}
	if d.Look || d.By.IsZero() {
		return nil
	}
	by := d.By
	if !by.After(at) { // it is due at once, which takes a moment
		by = at.Add(l.rules.Task.Slack)
	}
	l.by[t.ID] = by
	l.due.Push(deadline{by, t.ID})
	return nil
}

// passed finds the duties that became overdue after a fact, before the log had the next one.
func (l *lateness) passed(ctx context.Context, pos int, next time.Time) error {
	for l.due.Len() > 0 && l.due.First().by.Before(next) {
		first := l.due.Pop()
		by, current := l.by[first.id]
		if !current || !by.Equal(first.by) {
			continue
		}
		delete(l.by, first.id)
		at := first.by
		if had := l.span.time(pos); at.Before(had) {
			at = had
		}
		ref := view.Task(first.id)
		d, err := l.duty(ctx, pos, l.pass.items[ref].Task, at)
		switch {
		case err != nil:
			return err
		case d.Look || d.By.IsZero():
		case d.By.After(first.by):
			l.by[first.id] = d.By
			l.due.Push(deadline{d.By, first.id})
		case pos >= l.span.begin:
			l.hits = append(l.hits, hit{point: point{pos, at}, about: ref,
				why: fmt.Sprintf("%s has not done this by then: %s; else: %s", d.Who, d.What, d.Else)})
		}
	}
	return nil
}

// deadline is the deadline of a duty on a task.
type deadline struct {
	by time.Time
	id task.ID
}
