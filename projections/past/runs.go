package past

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/value"
)

// The index tells how long attempts ran: with each move of a task of which that is not 0. So the figures
// of jobs need neither rows nor messages.

// ranMicros is how long a task ran, in microseconds: it is a whole number of them, or the longest duration
// that there is, of clocks that were set.
func ranMicros(t *task.Task) uint64 { return uint64(t.Ran.Std().Microseconds()) } // it is not negative

// ranStd is how long that is.
func ranStd(micros uint64) time.Duration {
	if micros >= math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(micros) * time.Microsecond // it is less
}

// ranFor is how long a task ran by its last move in a block, in microseconds.
type ranFor struct {
	number uint32
	micros uint64
}

// mostRan is of how many blocks a scene keeps that.
const mostRan = 128

// Runs returns the runs of the tasks that a filter chooses, one page in its order: see [view.Runs].
func (p *View) Runs(ctx context.Context, f view.Filter) (runs []view.Run, err error) {
	q := view.Query{Kind: view.Tasks, Filter: f}
	if err := indexed(&q); err != nil {
		return nil, err
	}
	most, err := q.Most()
	if err != nil {
		return nil, err
	}
	after, err := q.Start()
	if err != nil {
		return nil, err
	}
	s, err := p.scene(ctx)
	if err != nil {
		return nil, err
	}
	w, err := p.walk(s, &q.Filter, after)
	if err != nil {
		return nil, err
	}
	left := map[uint32]int{} // the run of each task that ran, by its number
	err = p.eachOf(ctx, w, most, func(t *numbered) {
		in, of := &s.tables.places[s.in.At(t.number)-1], &s.tables.origins[s.from[t.number]-1]
		if in.ran {
			left[t.number] = len(runs)
		}
		runs = append(runs, view.Run{ID: t.id, Job: of.job, Root: of.root, State: in.state})
	})
	if err != nil {
		return nil, err
	}
	return runs, p.ran(ctx, s, left, runs)
}

// ran sets how long tasks ran. It reads the index backwards, up to the last move of each task.
func (p *View) ran(ctx context.Context, s *scene, left map[uint32]int, runs []view.Run) error {
	for i := len(s.blocks) - 1; i >= 0 && len(left) > 0; i-- {
		b := &s.blocks[i]
		if b.at >= s.at {
			continue
		}
		var here []uint32
		for number := range left {
			if b.groups.has(groupOf(number)) {
				here = append(here, number)
			}
		}
		if len(here) == 0 {
			continue
		}
		all, err := p.ranIn(ctx, s, b)
		if err != nil {
			return err
		}
		for _, number := range here {
			if i, found := slices.BinarySearchFunc(all, number, func(is ranFor, number uint32) int { return cmp.Compare(is.number, number) }); found {
				runs[left[number]].Ran = value.Duration(ranStd(all[i].micros))
				delete(left, number)
			}
		}
	}
	if len(left) > 0 {
		return ErrDamaged
	}
	return nil
}

// ranIn tells how long the tasks ran that moved in a block, by their numbers.
func (p *View) ranIn(ctx context.Context, s *scene, b *block) ([]ranFor, error) {
	s.mu.Lock()
	all, known := s.cached.ran[b]
	s.mu.Unlock()
	if known {
		return all, nil
	}
	scan := new(scanner)
	scan.move = func(number, place uint32, _ int64) {
		if s.tables.places[place].ran {
			all = append(all, ranFor{number, scan.ran})
		}
	}
	if err := p.scanBlock(ctx, s, b, scan); err != nil {
		return nil, err
	}
	slices.Reverse(all) // the last move of each task counts
	slices.SortStableFunc(all, func(a, b ranFor) int { return cmp.Compare(a.number, b.number) })
	all = slices.CompactFunc(all, func(a, b ranFor) bool { return a.number == b.number })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached.ran == nil || len(s.cached.ran) >= mostRan {
		s.cached.ran = map[*block][]ranFor{}
	}
	s.cached.ran[b] = all
	return all, nil
}
