package outputs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/task"
	"millrace/task/output"
)

// Sum counts the records of one attempt.
type Sum struct {
	Attempt int
	Epoch   uint64
	Records int
	// Bytes is the size of the records in the store, overhead included.
	Bytes int64
}

// RecordSums counts the records of each attempt of a task, in the order of their first records. It
// reads the headers of all messages, and of each attempt the last message. It also returns the
// batch that replaces dropped records; its Dropped is 0 if there is none.
func (o *Outputs) RecordSums(ctx context.Context, id task.ID) (sums []Sum, dropped output.Records, err error) {
	subject := names.DataPrefix + string(id)
	last := map[uint64]uint64{}  // by epoch, the sequence of its last message
	first := map[uint64]uint64{} // by epoch, the number of the first record in that
	err = o.Headers(ctx, names.DataStream, subject, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		seq := meta.Sequence.Stream
		size, _ := strconv.ParseInt(m.Headers().Get("Nats-Msg-Size"), 10, 64) // only counted
		epoch, n, ok := batchOf(m.Headers().Get(jetstream.MsgIDHeader), id)
		if !ok {
			_, data, err := o.fromOf(ctx, names.DataStream, subject, seq)
			var b output.Records
			if err != nil || json.Unmarshal(data, &b) != nil { // else it is a foreign message
				return err
			}
			if epoch, n = b.Epoch, uint64(max(b.First, 0)); b.Dropped > 0 {
				dropped = b
				return nil
			}
		}
		if before, known := first[epoch]; known && n <= before {
			return nil // it was stored twice
		}
		i := slices.IndexFunc(sums, func(s Sum) bool { return s.Epoch == epoch })
		if i < 0 {
			i, sums = len(sums), append(sums, Sum{Epoch: epoch})
		}
		sums[i].Bytes += size
		first[epoch], last[epoch] = n, seq
		return nil
	})
	for i := range sums {
		if err != nil {
			break
		}
		var data []byte
		var b output.Records
		if _, data, err = o.fromOf(ctx, names.DataStream, subject, last[sums[i].Epoch]); err == nil {
			_ = json.Unmarshal(data, &b) // a foreign message counts none
			sums[i].Attempt, sums[i].Records = b.Attempt, b.First+len(b.Items)
		}
	}
	return sums, dropped, err
}

// batchID names a batch of records, so that the server stores it once. The random word at its end
// keeps others from storing something else under the name, for then the server would drop the batch.
func batchID(b *output.Records) string {
	word := b.Word
	if word == "" { // of a worker that gave none: at worst the batch is stored twice
		word = rand.Text()
	}
	return fmt.Sprintf("%s.%d.%d.%s", b.Task, b.Epoch, b.First, word)
}

// batchOf parses a name made by batchID, of this version or of one without words.
func batchOf(name string, id task.ID) (epoch, first uint64, ok bool) {
	rest, ours := strings.CutPrefix(name, string(id)+".")
	a, b, two := strings.Cut(rest, ".")
	b, _, _ = strings.Cut(b, ".")
	epoch, err1 := strconv.ParseUint(a, 10, 64)
	first, err2 := strconv.ParseUint(b, 10, 31)
	return epoch, first, ours && two && err1 == nil && err2 == nil
}

// KeptBack reads the records of a task backwards: it calls more with every batch, the latest first,
// until more returns false or there are no earlier ones.
func (o *Outputs) KeptBack(ctx context.Context, id task.ID, more func(output.Records) bool) error {
	return o.backwards(ctx, names.DataStream, names.DataPrefix+string(id), func(_ uint64, data []byte) bool {
		var b output.Records
		return json.Unmarshal(data, &b) != nil || more(b) // or it is a foreign message
	})
}
