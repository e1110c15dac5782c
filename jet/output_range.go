package jet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/task"
)

// OutputRange is where the output of an attempt lies in [OutputStream].
type OutputRange struct {
	// First and Last are sequences of its messages; those of other tasks, and of attempts
	// that ran at the same time, may lie between.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Lines int    `json:"lines"`
}

// rangeBatch is how many messages are read at once to find ranges; each may be large.
const rangeBatch = 16

// OutputRanges returns where the output of each attempt of a task lies, by epoch.
// It reads all of that output, from any replica.
func (s *Store) OutputRanges(ctx context.Context, id task.ID) (map[uint64]OutputRange, error) {
	ranges := map[uint64]OutputRange{}
	subject := outputPrefix + string(id)
	for from := uint64(1); ; {
		found, err := s.batchGet(ctx, OutputStream, rangeBatch, map[string]any{"batch": rangeBatch, "seq": from, "next_by_subj": subject})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", subject, err)
		}
		for _, m := range found {
			seq, err := strconv.ParseUint(added(m, jetstream.SequenceHeader), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read %s: a message without a sequence: %w", subject, err)
			}
			from = seq + 1
			var b task.Lines
			if json.Unmarshal(m.Data, &b) != nil {
				continue // none of ours
			}
			r, ok := ranges[b.Epoch]
			if !ok {
				r.First = seq
			}
			r.Last = seq
			for i := range b.Lines {
				r.Lines += b.Lines[i].Count()
			}
			ranges[b.Epoch] = r
		}
		if len(found) < rangeBatch {
			return ranges, nil
		}
	}
}
