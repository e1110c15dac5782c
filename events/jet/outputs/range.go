package outputs

import (
	"context"
	"encoding/json"

	"millrace/events/jet/names"
	"millrace/task"
	"millrace/task/output"
)

// Range says where the output of an attempt lies in [names.OutputStream].
type Range struct {
	// First and Last are sequences of its messages; messages of other tasks, and of concurrent
	// attempts, may lie between.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Lines is the number of its last line.
	Lines int `json:"lines"`
}

// OutputRanges returns where the output of each attempt of a task lies, by epoch. It searches for
// the borders between attempts, and so reads a few messages of each; of attempts that printed
// concurrently it may find less than there is.
func (o *Outputs) OutputRanges(ctx context.Context, id task.ID) (map[uint64]Range, error) {
	return o.ranges(ctx, names.OutputStream, names.OutputPrefix+string(id), linesUpTo)
}

// linesUpTo returns the epoch of a message of lines, and the number of its last line. A message
// that replaces dropped lines counts as those lines did.
func linesUpTo(data []byte) (epoch uint64, n int) {
	var b output.Lines
	if json.Unmarshal(data, &b) == nil && len(b.Lines) > 0 {
		n = b.Lines[len(b.Lines)-1].N
	}
	return b.Epoch, max(n, b.Dropped)
}

// recordsUpTo is [linesUpTo] for records.
func recordsUpTo(data []byte) (epoch uint64, n int) {
	var b output.Records
	_ = json.Unmarshal(data, &b) // a foreign message counts none
	return b.Epoch, max(b.First+len(b.Items), b.Dropped)
}

// ranges finds where the messages of each epoch lie on a subject.
func (o *Outputs) ranges(ctx context.Context, stream, subject string, upTo func([]byte) (uint64, int)) (map[uint64]Range, error) {
	ranges := map[uint64]Range{}
	type place struct{ seq, epoch uint64 }
	note := func(seq uint64, data []byte) place {
		epoch, n := upTo(data)
		r, ok := ranges[epoch]
		if !ok || seq < r.First {
			r.First = seq
		}
		r.Last, r.Lines = max(r.Last, seq), max(r.Lines, n)
		ranges[epoch] = r
		return place{seq, epoch}
	}
	// Between two messages of one epoch there are no others; else look half-way.
	var between func(a, b place) error
	between = func(a, b place) error {
		if a.epoch == b.epoch || b.seq <= a.seq+1 {
			return nil
		}
		half := a.seq + (b.seq-a.seq)/2
		seq, data, err := o.fromOf(ctx, stream, subject, half)
		if err != nil {
			return err
		}
		if seq == 0 || seq >= b.seq { // the second half is empty, or the replica lags
			seq, data, err = o.beforeOf(ctx, stream, subject, half)
			if err != nil || seq <= a.seq {
				return err
			}
			return between(a, note(seq, data))
		}
		m := note(seq, data)
		if err := between(a, m); err != nil {
			return err
		}
		return between(m, b)
	}
	seq, data, err := o.lastOf(ctx, stream, subject)
	if err != nil || seq == 0 {
		return ranges, err
	}
	last := note(seq, data)
	seq, data, err = o.fromOf(ctx, stream, subject, 1)
	if err != nil || seq == 0 {
		return ranges, err
	}
	return ranges, between(note(seq, data), last)
}
