package connect

import (
	"context"
	"errors"
	"testing"

	"millrace/events"
)

// reusing is a feed that gives the same memory again at each call, as feeds may.
type reusing struct {
	records []events.Record
	next    uint64
	end     uint64
	err     error
}

func (f *reusing) Next(context.Context) ([]events.Record, error) {
	clear(f.records)
	f.records = f.records[:0]
	for ; len(f.records) < 3 && f.next < f.end; f.next++ {
		f.records = append(f.records, events.Record{Seq: f.next + 1})
	}
	if len(f.records) == 0 {
		return nil, f.err
	}
	return f.records, nil
}

func (f *reusing) Close() {}

func TestReadAheadKeepsTheOrder(t *testing.T) {
	broken := errors.New("broken")
	ctx, stop := context.WithCancel(t.Context())
	batches, done := readAhead(ctx, &reusing{end: 1000, err: broken})
	seen := uint64(0)
	for b := range batches {
		for i := range b.records {
			if seen++; b.records[i].Seq != seen {
				t.Fatalf("record %d is %d", seen, b.records[i].Seq)
			}
		}
		if b.err != nil {
			if !errors.Is(b.err, broken) {
				t.Error(b.err)
			}
			break
		}
		b.free <- b.records
	}
	if seen != 1000 {
		t.Errorf("%d records came, want 1000", seen)
	}
	stop()
	<-done
}

func TestReadAheadEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	_, done := readAhead(ctx, &reusing{end: 1000})
	stop()
	<-done // no batch was taken
}
