package jet

import (
	"context"

	"millrace/task"
)

// OutputRange is where the output of an attempt lies in [OutputStream].
type OutputRange struct {
	// First and Last are sequences of its messages; those of other tasks, and of attempts
	// that ran at the same time, may lie between.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Lines is the number of its last line.
	Lines int `json:"lines"`
}

// OutputRanges returns where the output of each attempt of a task lies, by epoch. It
// looks for where one attempt ends and the next begins, and so reads a few messages of each; of attempts that
// printed at the same time it may find less than there is.
func (s *Store) OutputRanges(ctx context.Context, id task.ID) (map[uint64]OutputRange, error) {
	ranges := map[uint64]OutputRange{}
	subject := outputPrefix + string(id)
	last, found, err := s.lastPiece(ctx, id)
	if err != nil || !found {
		return ranges, err
	}
	at := func(seq uint64) (piece, error) {
		p, found, err := s.piece(ctx, id, map[string]any{"batch": 1, "seq": seq, "next_by_subj": subject})
		if !found || p.seq > last.seq { // a replica that lags, or what was printed since
			p = last
		}
		return p, err
	}
	note := func(p piece) {
		r, ok := ranges[p.Epoch]
		if !ok || p.seq < r.First {
			r.First = p.seq
		}
		r.Last = max(r.Last, p.seq)
		if n := len(p.Lines.Lines); n > 0 {
			r.Lines = max(r.Lines, p.Lines.Lines[n-1].N)
		}
		ranges[p.Epoch] = r
	}
	// Between two messages of one epoch there are only such; else it is looked at what lies half-way.
	var between func(a, b piece) error
	between = func(a, b piece) error {
		if a.Epoch == b.Epoch || b.seq <= a.seq+1 {
			return nil
		}
		half := a.seq + (b.seq-a.seq)/2
		m, err := at(half)
		if err != nil {
			return err
		}
		if m.seq >= b.seq { // the second half is empty
			before, found, err := s.piece(ctx, id, map[string]any{"multi_last": []string{subject}, "up_to_seq": half - 1})
			if err != nil || !found || before.seq <= a.seq {
				return err
			}
			note(before)
			return between(a, before)
		}
		note(m)
		if err := between(a, m); err != nil {
			return err
		}
		return between(m, b)
	}
	first, err := at(1)
	if err != nil {
		return nil, err
	}
	note(first)
	note(last)
	return ranges, between(first, last)
}
