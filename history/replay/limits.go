package replay

import (
	"context"
	"slices"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/quota"
)

// The limits at a point follow from all tasks, so they need a fold of everything up to there. A
// session keeps the last one: going forward adds the facts between, going back folds anew.

// crowd is everything up to a place.
type crowd struct {
	memory *view.Memory
	pos    int
}

// limiter is the state of all limits after a fact.
func (x *Session) limiter(ctx context.Context, pos int) (*quota.Limiter, error) {
	c := &x.crowd
	if c.memory == nil || c.pos > pos {
		*c = crowd{view.NewMemory(), -1}
	}
	for ; c.pos < pos; c.pos++ {
		if c.pos%patience == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r := x.span.record(c.pos + 1)
		c.memory.Add(&r)
	}
	is, _, err := view.LimiterOf(ctx, c.memory, c.memory)
	return is, err
}

// held says in the duties of a task that its limits hold what these wait for.
func (x *Session) held(ctx context.Context, o *Owed, ref view.Ref, before int, p point) error {
	if o == nil || ref.Kind != view.Tasks || x.config.Limited == nil {
		return nil
	}
	for _, at := range []struct {
		pos  int
		duty *Duty
	}{{before, o.Before}, {p.pos, o.After}} {
		t := x.span.fold(ref, at.pos).Task
		if at.duty == nil || t == nil || !t.Admissible() {
			continue
		}
		limits, err := x.limiter(ctx, at.pos)
		if err != nil {
			return err
		}
		if s, ok := limits.Standing(t.ID, p.at, x.config.Holders); ok {
			at.duty.What = x.config.Limited(t, &s, p.at)
		}
	}
	return nil
}

// limited is the state of a limit at a point; nil if nothing is under it.
func (x *Session) limited(ctx context.Context, name string, p point) (*quota.CounterState, error) {
	limits, err := x.limiter(ctx, p.pos)
	if err != nil {
		return nil, err
	}
	is, ok := limits.Counter(name, p.at, max(x.config.Holders, 1))
	if !ok {
		return nil, nil
	}
	return &is, nil
}

// under are the places of the facts about tasks under a limit, and of its admissions.
func (s *Span) under(name string) (all []int32) {
	for ref, c := range s.chains {
		if ref.Kind != view.Tasks {
			continue
		}
		if t := s.fold(ref, int(c.at[0])).Task; t != nil && counts(t, name) {
			all = append(all, c.at...)
		}
	}
	for pos := range s.facts {
		if s.facts[pos].kind != events.KindLimit {
			continue
		}
		r := s.record(pos)
		if e, ok := r.Fact.Event.(task.Granted); ok && slices.ContainsFunc(e.Grants, func(g task.Grant) bool { return slices.ContainsFunc(g.Limits, named(name)) }) {
			all = append(all, int32(pos)) // a span of more facts does not go into memory
		}
	}
	slices.Sort(all)
	from, _ := slices.BinarySearch(all, int32(s.begin)) // likewise
	return all[from:]
}

func counts(t *task.Task, name string) bool {
	all, err := t.Counters()
	return err == nil && slices.ContainsFunc(all, func(c limit.Counter) bool { return named(name)(c.Name) })
}

func named(name string) func(counter string) bool {
	return func(counter string) bool { return counter == name || limit.Shown(counter) == name }
}

// LimitWords says what a task that its limits hold waits for.
type LimitWords func(t *task.Task, s *quota.Standing, now time.Time) string
