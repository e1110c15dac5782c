package outputs

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"sort"
	"time"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/output"
)

// Printout says where all lines lie that a task has printed up to a moment. The lines are numbered
// from 1, those of one attempt after those of the previous attempt. Dropped lines leave a gap.
type Printout struct {
	// Lines is the number of the last one.
	Lines int
	// Last is the sequence of the last message, 0 for none: a follower goes on after it.
	Last uint64

	subject string
	parts   []part
}

// part says where the lines of one attempt lie.
type part struct {
	epoch         uint64
	first, last   uint64 // sequences
	before, lines int    // lines of earlier attempts, and its own
}

// Numbered is a line with its number in a [Printout].
type Numbered struct {
	output.Line
	Number, Attempt int
	Epoch           uint64
}

// Printout finds the lines that a task has printed until a time; the zero time means now. It reads
// a few messages of each attempt.
func (o *Outputs) Printout(ctx context.Context, id task.ID, until time.Time) (Printout, error) {
	p := Printout{subject: names.OutputPrefix + string(id)}
	ranges, err := o.ranges(ctx, names.OutputStream, p.subject, lastLine)
	delete(ranges, 0) // foreign messages
	for epoch, r := range ranges {
		p.Last = max(p.Last, r.Last)
		p.parts = append(p.parts, part{epoch: epoch, first: r.First, last: r.Last, lines: r.Lines})
	}
	slices.SortFunc(p.parts, func(a, b part) int { return cmp.Compare(a.epoch, b.epoch) })
	for i := range p.parts {
		own := &p.parts[i]
		if !until.IsZero() && err == nil {
			var next int
			_, next, err = o.find(ctx, p.subject, own, until.UnixNano()+1, 0, func(l *output.Line) int64 { return l.At.UnixNano() })
			own.lines = next - 1
		}
		own.before = p.Lines
		p.Lines += own.lines
	}
	return p, request.ReadError(p.subject, err)
}

// lastLine returns the epoch of a message, and the number of its last line.
func lastLine(data []byte) (epoch uint64, n int) {
	var b output.Lines
	if json.Unmarshal(data, &b) != nil || len(b.Lines) == 0 {
		return 0, 0
	}
	return b.Epoch, b.Lines[len(b.Lines)-1].N
}

// find returns the number of the first line of an attempt for which a measure, which grows from
// line to line, is at least want, and the sequence from which on the line is to be found. If the
// measure of the last line is known, top is that, and few messages are read; else top is 0.
func (o *Outputs) find(ctx context.Context, subject string, p *part, want, top int64, of func(*output.Line) int64) (seq uint64, n int, err error) {
	seq, n = p.last+1, p.lines+1
	type edge struct {
		seq uint64
		at  int64
	}
	lo, hi := edge{p.first, 0}, edge{p.last, top}
	for step := 0; lo.seq <= hi.seq; step++ {
		at := lo.seq + (hi.seq-lo.seq)/2
		// False for NaN.
		if guess := float64(want-lo.at) / float64(hi.at-lo.at); step%2 == 0 && guess >= 0 && guess <= 1 {
			at = lo.seq + uint64(math.Round(guess*float64(hi.seq-lo.seq)))
		}
		is, b, err := o.ownFrom(ctx, subject, p.epoch, at, hi.seq)
		switch {
		case err != nil:
			return 0, 0, err
		case is == 0:
			hi.seq = at - 1
		case of(&b.Lines[len(b.Lines)-1]) < want:
			lo = edge{is + 1, of(&b.Lines[len(b.Lines)-1])}
		case of(&b.Lines[0]) >= want:
			seq, n, hi = is, b.Lines[0].N, edge{at - 1, of(&b.Lines[0])}
		default:
			i := sort.Search(len(b.Lines), func(i int) bool { return of(&b.Lines[i]) >= want })
			return is, b.Lines[i].N, nil
		}
	}
	return seq, n, nil
}

// ownFrom returns the first batch of an attempt between two sequences; its sequence is 0 if there
// is none.
func (o *Outputs) ownFrom(ctx context.Context, subject string, epoch, from, upto uint64) (uint64, output.Lines, error) {
	for {
		seq, data, err := o.fromOf(ctx, names.OutputStream, subject, from)
		if err != nil || seq == 0 || seq > upto {
			return 0, output.Lines{}, err
		}
		if b, ok := ownLines(data, epoch); ok {
			return seq, b, nil
		}
		from = seq + 1 // another attempt printed at the same time
	}
}

func ownLines(data []byte, epoch uint64) (b output.Lines, ok bool) {
	if json.Unmarshal(data, &b) != nil || b.Epoch != epoch || len(b.Lines) == 0 {
		return b, false
	}
	b.OneByOne()
	return b, true
}

// Bounds of one request.
const (
	readAtOnce = 256
	readMost   = 4 << 20
)

// lines calls each with the lines from a number on, until it returns false or there are no more.
// Earlier lines in the message of the first one come before it. may, if not nil, can reject a
// message before it is decoded.
func (o *Outputs) lines(ctx context.Context, p *Printout, from, atOnce int, may func(p *part, body []byte) bool, each func(Numbered) bool) error {
	for i := range p.parts {
		own := &p.parts[i]
		if own.before+own.lines < from || own.lines == 0 {
			continue
		}
		seq, n := own.first, max(from-own.before, 1)
		if n > 1 {
			var err error
			seq, _, err = o.find(ctx, p.subject, own, int64(n), int64(own.lines), func(l *output.Line) int64 { return int64(l.N) })
			if err != nil {
				return err
			}
		}
		for reached := 0; seq <= own.last; {
			found, err := o.BatchGet(ctx, names.OutputStream, atOnce, map[string]any{"batch": atOnce, "max_bytes": readMost, "seq": seq, "next_by_subj": p.subject})
			if err != nil || len(found) == 0 {
				return err // of a replica that lags
			}
			for _, m := range found {
				if seq, err = request.SequenceOf(m); err != nil {
					return err
				}
				seq++
				if seq > own.last+1 || may != nil && !may(own, m.Data) {
					continue
				}
				b, ok := ownLines(m.Data, own.epoch)
				if !ok {
					continue
				}
				for _, l := range b.Lines {
					if l.N <= reached || l.N > own.lines { // it was stored twice, or printed later
						continue
					}
					if reached = l.N; !each(Numbered{l, own.before + l.N, b.Attempt, b.Epoch}) {
						return nil
					}
				}
			}
		}
	}
	return nil
}

// windowBytes bounds the text of a window in bytes: lines may be long.
const windowBytes = 1 << 20

// Window reads the lines of a printout from a number on, with few others: at most most numbers, and
// fewer if lines are long. lead are the lines before the first one in the same message: what they
// began, such as a colour, continues in it.
func (o *Outputs) Window(ctx context.Context, p *Printout, from, most int) (lead, lines []Numbered, err error) {
	bytes := 0
	err = o.lines(ctx, p, from, min(max(most, 1), readAtOnce), nil, func(l Numbered) bool {
		switch {
		case l.Number < from:
			lead = append(lead, l)
			return true
		case l.Number >= from+most || bytes > windowBytes:
			return false
		}
		lines = append(lines, l)
		bytes += len(l.Text) + len(l.Fields)
		return l.Number < from+most-1
	})
	return lead, lines, request.ReadError(p.subject, err)
}

// Search finds the next matching lines, at most most of them, from a number on, or with back the
// one before it. It reads until it has them, or until ctx ends; reached is the number of the last
// line that it looked at.
func (o *Outputs) Search(ctx context.Context, p *Printout, from, most int, back bool, m output.Match) (hits []Numbered, reached int, err error) {
	if !back {
		return o.forward(ctx, p, from, p.Lines, most, m)
	}
	for size := 1 << 12; from > 0; size = min(2*size, 1<<16) {
		begin := max(from-size+1, 1)
		hits, upto, err := o.forward(ctx, p, begin, from, math.MaxInt, m)
		if err != nil || upto < from && ctx.Err() != nil {
			return nil, from + 1, err
		}
		if len(hits) > 0 {
			return hits[len(hits)-1:], hits[len(hits)-1].Number, nil
		}
		from = begin - 1
	}
	return nil, 1, nil
}

func (o *Outputs) forward(ctx context.Context, p *Printout, from, upto, most int, m output.Match) (hits []Numbered, reached int, err error) {
	reached = from - 1
	var passed []byte // the last batch that was skipped, of
	var own *part
	err = o.lines(ctx, p, from, readAtOnce, func(of *part, body []byte) bool {
		if ctx.Err() != nil {
			return false
		}
		may := m.May(body)
		if !may {
			own, passed = of, body
		}
		return may
	}, func(l Numbered) bool {
		if l.Number > upto || ctx.Err() != nil {
			return false
		}
		if reached = max(reached, l.Number); l.Number >= from && m.Line(&l.Line) {
			hits = append(hits, l)
		}
		return len(hits) < most
	})
	switch {
	case ctx.Err() != nil:
		if _, n := lastLine(passed); n > 0 {
			reached = max(reached, own.before+n)
		}
		return hits, reached, nil
	case err == nil && len(hits) < most:
		reached = upto
	}
	return hits, reached, request.ReadError(p.subject, err)
}
