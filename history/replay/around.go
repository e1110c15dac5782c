package replay

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sort"
	"time"
)

// Around lists facts around the point: at most n before it and n behind it, and the one at the
// point. With along, it lists only facts of the focus.
func (x *Session) Around(n int, along bool) []Line {
	s := x.span
	first, last := max(x.at.pos-n, s.begin), min(x.at.pos+n, s.last())
	all := make([]int, 0, 2*n+1)
	if along {
		i := x.focus.upTo(x.at.pos-1, s.begin) // this many are before the point
		last = i + n - 1
		if at, ok := x.focus.place(i, s); ok && at == x.at.pos {
			last++
		}
		first, last = max(i-n, 0), min(last, x.focus.len(s)-1)
	}
	for i := first; i <= last; i++ {
		pos := i
		if along {
			pos, _ = x.focus.place(i, s)
		}
		all = append(all, pos)
	}
	lines := make([]Line, len(all))
	for i, pos := range all {
		lines[i] = x.line(pos, "")
		lines[i].Here = pos == x.at.pos
		lines[i].Focus = x.focus.has(pos)
	}
	return lines
}

// has tells whether there is a focus and the fact at a place belongs to it.
func (a *aim) has(pos int) bool {
	_, found := slices.BinarySearch(a.at, int32(pos)) // a span of more facts does not go into memory
	return found
}

// Overview is a span in cells, each for an equal part of its time.
type Overview struct {
	From, To time.Time
	Cells    []Cell
}

// Cell is a part of the time of a span.
type Cell struct {
	// Facts is how many facts the log stored in it, Hits how many hits breakpoints have there, and
	// Wrong how many of these say that a duty is overdue or a promise broken.
	Facts, Hits, Wrong int
	// Mark is the first mark in it; "" for none.
	Mark string
	// Here says that the point is in it.
	Here bool
}

// Overview divides the time of the span into cells.
func (x *Session) Overview(cells int) Overview {
	s := x.span
	if s.Len() == 0 {
		return Overview{}
	}
	o := Overview{From: s.time(s.begin), To: s.time(s.last()), Cells: make([]Cell, cells)}
	width := o.To.Sub(o.From)/time.Duration(cells) + 1
	of := func(at time.Time) int { return min(max(int(at.Sub(o.From)/width), 0), cells-1) }
	for i := range o.Cells {
		c := &o.Cells[i]
		from, to := o.From.Add(time.Duration(i)*width), o.From.Add(time.Duration(i+1)*width)
		c.Facts = max(s.at(to.Add(-1)), s.begin-1) - max(s.at(from.Add(-1)), s.begin-1)
		for _, b := range x.breaks {
			before := func(t time.Time) int {
				return sort.Search(len(b.hits), func(i int) bool { return !b.hits[i].at.Before(t) })
			}
			hits := before(to) - before(from)
			if c.Hits += hits; b.wrong {
				c.Wrong += hits
			}
		}
	}
	for _, m := range slices.Backward(x.marks) {
		o.Cells[of(m.at.at)].Mark = m.Name
	}
	if x.at.pos >= s.begin {
		o.Cells[of(x.at.at)].Here = true
	}
	return o
}

// Marks returns the marks that people have set.
func (x *Session) Marks() []Mark { return slices.Clone(x.marks) }

// Breaks returns the breakpoints.
func (x *Session) Breaks() []*Breakpoint { return slices.Clone(x.breaks) }

// Progress returns how many facts the present pass has seen, and of how many. Another goroutine may
// call it.
func (x *Session) Progress() (seen, of int) { return int(x.span.seen.Load()), len(x.span.facts) }

// pause checks from time to time whether a pass is still wanted, and publishes its progress.
func (s *Span) pause(ctx context.Context, pos int) error {
	if pos%patience != 0 {
		return nil
	}
	s.seen.Store(int64(pos))
	return ctx.Err()
}

// find goes to the next fact whose message contains a text, or back to the last one before.
func (x *Session) find(ctx context.Context, n int, text string) (*Answer, error) {
	if text == "" {
		return nil, errors.New("say what to find, as `/ no room`")
	}
	for pos := x.at.pos + n; pos >= x.span.begin && pos < len(x.span.facts); pos += n {
		if err := x.span.pause(ctx, pos); err != nil {
			return nil, err
		}
		if bytes.Contains(x.span.facts[pos].raw, []byte(text)) {
			x.move(pos)
			return x.shown(ctx, true, "")
		}
	}
	return x.shown(ctx, false, "no message on that side has this text")
}
