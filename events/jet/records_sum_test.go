package jet

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/events/jet/outputs"
	"millrace/events/jet/streams"
	"millrace/task/output"
)

// TestRecordSums: counted by headers, and read backwards, each record counts once; foreign messages
// count nothing.
func TestRecordSums(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	sums, dropped, err := s.RecordSums(within(t), id)
	if len(sums) != 0 || dropped.Dropped != 0 || err != nil {
		t.Fatalf("of a task without records: %+v, %v", sums, err)
	}
	batch := func(attempt int, epoch uint64, first, n int) output.Records {
		b := output.Records{Task: id, Attempt: attempt, Epoch: epoch, First: first}
		for range n {
			b.Items = append(b.Items, json.RawMessage(`{"url":"a"}`))
		}
		return b
	}
	keep := func(b output.Records) {
		t.Helper()
		if err := s.Keep(within(t), b); err != nil {
			t.Fatal(err)
		}
	}
	keep(batch(1, 7, 0, 500))
	keep(batch(1, 7, 500, 20))
	keep(batch(2, 9, 0, 3))
	keep(batch(1, 7, 520, 2)) // of an attempt that was fenced off
	keep(batch(2, 9, 3, 4))
	keep(batch(2, 10, 0, 1)) // adds nothing below
	again, err := json.Marshal(batch(2, 9, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	// A batch stored once more, long after an answer was lost; a foreign one; and one without a
	// name.
	raw(t, s, names.DataPrefix+string(id), nats.Header{"Mr-Test": {"1"}}, again)
	raw(t, s, names.DataPrefix+string(id), nil, []byte("garbage"))
	sums, _, err = s.RecordSums(within(t), id)
	if err != nil || len(sums) < 3 {
		t.Fatalf("%+v, %v", sums, err)
	}
	for i := range sums {
		if sums[i].Bytes < int64(11*sums[i].Records) {
			t.Errorf("attempt %d has %d bytes", sums[i].Attempt, sums[i].Bytes)
		}
		sums[i].Bytes = 0
	}
	if want := []outputs.Sum{{Attempt: 1, Epoch: 7, Records: 522}, {Attempt: 2, Epoch: 9, Records: 7}, {Attempt: 2, Epoch: 10, Records: 1}}; !slices.Equal(sums[:3], want) {
		t.Errorf("%+v, want %+v", sums, want)
	}
	var back []int
	err = s.KeptBack(within(t), id, func(b output.Records) bool {
		back = append(back, b.First)
		return len(back) < 4
	})
	if want := []int{3, 0, 3, 520}; err != nil || !slices.Equal(back, want) {
		t.Errorf("backwards %v, %v, want %v", back, err, want)
	}
	if did, err := s.DropRecords(within(t), id, func(n int) output.Records {
		return output.Records{Task: id, Dropped: n, Reason: "test"}
	}); !did || err != nil {
		t.Fatal(did, err)
	}
	if sums, dropped, err = s.RecordSums(within(t), id); len(sums) != 0 || dropped.Dropped != 530 || dropped.Reason != "test" || err != nil {
		t.Errorf("after all was dropped: %+v, %+v, %v", sums, dropped, err)
	}
}
