package past

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"millrace/projections/view"
	"millrace/task"
)

// indexed refuses queries that the index cannot answer.
func indexed(q *view.Query) error {
	if q.Kind != view.Tasks || q.Suspect != nil {
		return view.ErrUnindexed
	}
	return nil
}

// Count implements [view.Whole].
func (p *View) Count(ctx context.Context, q view.Query) (view.Counts, error) {
	c := view.Counts{Point: p.at}
	if err := indexed(&q); err != nil {
		return c, err
	}
	s, err := p.scene(ctx)
	if err != nil {
		return c, err
	}
	if q.Placed() {
		c = s.count(&q.Filter, slices.Clone(s.n))
	} else {
		c, err = p.countEach(ctx, s, &q.Filter)
	}
	c.Point = p.at
	return c, err
}

// mostAtOnce is of about how many tasks it is found out at once whether they match.
const mostAtOnce = 500

// countEach counts the tasks that match a filter of which the places and origins of tasks do not tell
// everything. Tasks that only may match are read.
func (p *View) countEach(ctx context.Context, s *scene, f *view.Filter) (c view.Counts, err error) {
	w, err := p.walk(s, f, "")
	if err != nil {
		return c, err
	}
	n, folded := make([]int, len(s.tables.places)+1), 0
	var maybe []numbered
	look := func() error {
		for _, t := range w.found {
			if t.sure {
				n[s.in.At(t.number)]++
			} else {
				maybe = append(maybe, t)
			}
		}
		were, some, err := p.were(ctx, s, maybe)
		if err != nil {
			return err
		}
		if folded += some; folded > mostFolded {
			return view.ErrUnindexed
		}
		for i := range were {
			if f.Match(&were[i]) {
				n[s.in.At(maybe[i].number)]++
			}
		}
		maybe, w.found = maybe[:0], w.found[:0]
		return nil
	}
	for _, b := range w.blocks {
		if w.counts(b, n) {
			continue
		}
		if err := w.read(ctx, b); err != nil {
			return c, err
		}
		if len(w.found) >= mostAtOnce {
			if err := look(); err != nil {
				return c, err
			}
		}
	}
	if err := look(); err != nil {
		return c, err
	}
	s.sum(&c, n)
	return c, nil
}

// count counts the tasks that match a filter. n is how many are in each place, and is changed.
func (s *scene) count(f *view.Filter, n []int) (c view.Counts) {
	if f.Job == "" && f.Schedule == "" && !f.Roots {
		for i := range s.tables.places {
			if !s.tables.places[i].meets(f) {
				n[i+1] = 0
			}
		}
	} else {
		clear(n)
		chosen := s.chosen(f)
		for at, part := range s.in.Parts(0, s.in.Len()) {
			from := s.from[at:]
			for i, place := range part {
				if chosen.in[place] && chosen.from[from[i]] {
					n[place]++
				}
			}
		}
	}
	s.sum(&c, n)
	return c
}

// sum adds up tasks by their places: n is how many are in each.
func (s *scene) sum(c *view.Counts, n []int) {
	for i := range s.tables.places {
		if n[i+1] > 0 {
			c.Add(s.tables.places[i].queue(), s.tables.places[i].state, n[i+1])
		}
	}
}

// mostFolded is how many tasks are folded from their messages for one page of a search. A search
// that needs more needs the whole log.
const mostFolded = 5000

// List implements [view.Whole].
func (p *View) List(ctx context.Context, q view.Query) (page view.Page, err error) {
	page.Point = p.at
	if err := indexed(&q); err != nil {
		return page, err
	}
	if q.AtLeast > p.at.Seq {
		return page, fmt.Errorf("%w: at_least is %d, and this is as of sequence %d", view.ErrQuery, q.AtLeast, p.at.Seq)
	}
	most, err := q.Most()
	if err != nil {
		return page, err
	}
	after, err := q.Start()
	if err != nil {
		return page, err
	}
	s, err := p.scene(ctx)
	if err != nil {
		return page, err
	}
	walk, err := p.walk(s, &q.Filter, after)
	if err != nil {
		return page, err
	}
	var tasks []task.Task
	for folded := 0; len(tasks) <= most; {
		some, err := walk.next(ctx, most+1)
		if err != nil {
			return page, err
		}
		if len(some) == 0 {
			break
		}
		were, n, err := p.were(ctx, s, some)
		if err != nil {
			return page, err
		}
		if folded += n; folded > mostFolded && q.Rowed() {
			return page, view.ErrUnindexed
		}
		for i := range were {
			if q.Match(&were[i]) && len(tasks) <= most {
				tasks = append(tasks, were[i])
			}
		}
	}
	page.Tasks, page.Next = q.Cut(tasks, most)
	return page, nil
}

// States implements [view.Whole].
func (p *View) States(ctx context.Context, ids []task.ID) (map[task.ID]task.State, error) {
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	numbers, err := p.rows.Numbers(ctx, ids)
	states := make(map[task.ID]task.State, len(ids))
	for id, number := range numbers {
		if state := s.state(number - min(s.base, number)); state != task.Unknown {
			states[id] = state
		}
	}
	return states, err
}

// Planned implements [view.Ticked]. But for its state, a task's row tells the same of any place.
func (p *View) Planned(ctx context.Context, ids []task.ID) (map[task.ID]view.Planned, error) {
	states, err := p.States(ctx, ids)
	if err != nil {
		return nil, err
	}
	now, err := p.rows.Known(ctx, slices.Collect(maps.Keys(states)))
	all := make(map[task.ID]view.Planned, len(now))
	for i := range now {
		is := view.PlannedOf(&now[i])
		is.State = states[now[i].ID]
		all[now[i].ID] = is
	}
	return all, err
}

// Steps is [view.Whole.Steps] since an earlier place of the same index.
func (p *View) Steps(ctx context.Context, earlier *View, f view.Filter, most int) (steps view.Steps, err error) {
	was, err := earlier.scene(ctx)
	if err != nil {
		return steps, err
	}
	s, err := p.scene(ctx)
	if err != nil {
		return steps, err
	}
	if was.of != s.of {
		return steps, view.ErrUnindexed // the log has forgotten something between the two
	}
	f.OldestFirst = true
	w, err := p.walk(s, &f, "")
	if err != nil {
		return steps, err
	}
	w.chosen.was = was
	steps.Of = map[[2]task.State]int{}
	visit := most
	if f.Placed() {
		s.steps(was, &w.chosen, steps.Of)
	} else {
		visit = math.MaxInt
	}
	var first []numbered
	err = p.eachOf(ctx, w, visit, func(t *numbered) {
		of := [2]task.State{was.state(t.number), s.state(t.number)}
		if len(first) < most {
			first, steps.Was = append(first, *t), append(steps.Was, of[0])
		}
		if visit > most {
			steps.Of[of]++
		}
	})
	if err == nil {
		steps.First, _, err = p.were(ctx, s, first)
	}
	return steps, err
}

// steps counts the chosen tasks by their states in an earlier scene and in this one, if they differ.
func (s *scene) steps(was *scene, c *choice, n map[[2]task.State]int) {
	before, after := was.tables.states(), s.tables.states()
	counts := make([][]int, 1+slices.Max(task.States()))
	for i := range counts {
		counts[i] = make([]int, len(counts))
	}
	for at, part := range s.in.Parts(0, s.in.Len()) {
		if s.in.Shares(&was.in, at, at+uint32(len(part))) { // a part is short
			continue
		}
		for i, in := range part {
			number := at + uint32(i) // likewise
			if !c.in[in] || !c.from[s.from[number]] {
				continue
			}
			from := task.Unknown
			if number < was.in.Len() {
				from = before[was.in.At(number)]
			}
			counts[from][after[in]]++
		}
	}
	for from := range counts {
		for to, of := range counts[from] {
			if of > 0 && from != to {
				n[[2]task.State{task.State(from), task.State(to)}] = of // they were states
			}
		}
	}
}

// states are the states of tasks in each place, after one for no place.
func (s *scanner) states() []task.State {
	all := []task.State{task.Unknown}
	for i := range s.places {
		all = append(all, s.places[i].state)
	}
	return all
}

// state returns the state of a task; unknown if it is not there yet.
func (s *scene) state(number uint32) task.State {
	if number > s.tasks || s.in.At(number) == 0 {
		return task.Unknown
	}
	return s.tables.places[s.in.At(number)-1].state
}

// eachOf calls f with the next tasks of a walk that match its filter, at most most.
func (p *View) eachOf(ctx context.Context, w *walk, most int, f func(*numbered)) error {
	for n := 0; n < most; {
		some, err := w.next(ctx, min(most-n, mostAtOnce))
		if err != nil || len(some) == 0 {
			return err
		}
		var maybe []numbered
		for _, t := range some {
			if !t.sure {
				maybe = append(maybe, t)
			}
		}
		were, _, err := p.were(ctx, w.scene, maybe)
		if err != nil {
			return err
		}
		for i := range some {
			if !some[i].sure {
				is := &were[0]
				if were = were[1:]; !w.filter.Match(is) {
					continue
				}
			}
			f(&some[i])
			n++
		}
	}
	return nil
}
