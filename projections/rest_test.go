package projections

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
)

// slowFeed returns its records after a time has passed.
type slowFeed struct {
	records []events.Record
	after   time.Time
}

func (f *slowFeed) Next(ctx context.Context) ([]events.Record, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Until(f.after)):
		return f.records, nil
	}
}

func (f *slowFeed) Close() {}

// A fold that waits for long releases the last batch, and misses no part of the next.
func TestRestLetsGoOfTheLastBatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait time.Duration
		kept bool
	}{
		{"soon", atRest - time.Second, true},
		{"late", atRest + time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, err := Open("")
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			f, err := newFold(t.Context(), store, DefaultCacheSize)
			if err != nil {
				t.Fatal(err)
			}
			records := noops(t, 100, 0)
			if err := f.apply(t.Context(), records[:150]); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				next, err := f.next(t.Context(), &slowFeed{records[150:], time.Now().Add(tt.wait)})
				if err != nil || len(next) != len(records)-150 {
					t.Fatalf("%d records, %v", len(next), err)
				}
			})
			if kept := f.changes != nil; kept != tt.kept {
				t.Errorf("the last batch is kept: %v, want %v", kept, tt.kept)
			}
			if err := f.apply(t.Context(), records[150:]); err != nil {
				t.Fatal(err)
			}
			if err := f.w.close(); err != nil {
				t.Fatal(err)
			}
			if got := store.Reached(); got != uint64(len(records)) {
				t.Errorf("reached %d of %d", got, len(records))
			}
		})
	}
}
