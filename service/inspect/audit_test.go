package inspect

import (
	"context"
	"errors"
	"testing"
	"time"

	"millrace/history/verify"
)

// One run at a time goes on, tells how far it is, and is remembered; after it another may be asked
// for.
func TestAuditor(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := New()
	if _, any := a.Last(); any {
		t.Error("there was a run before any was asked for")
	}
	half, on, over := make(chan struct{}), make(chan error), make(chan struct{})
	do := func(_ context.Context, from, to uint64, progress func(at, end uint64)) (*verify.Report, bool, error) {
		progress(from-1+(to-from+1)/2, to)
		half <- struct{}{}
		if err := <-on; err != nil {
			return nil, false, err
		}
		return &verify.Report{First: from, Last: to}, to > 100, nil
	}
	for _, c := range []struct {
		from, to    uint64
		err         error
		interrupted bool
	}{{1, 100, nil, false}, {101, 200, nil, true}, {1, 10, errors.New("no server"), false}} {
		if err := a.Ask("ada", c.from, c.to, noon); err != nil {
			t.Fatal(err)
		}
		<-a.wanted
		go func() {
			a.run(t.Context(), do, func() time.Time { return noon.Add(time.Minute) })
			over <- struct{}{}
		}()
		<-half
		if err := a.Ask("kim", 1, 1, noon); !errors.Is(err, ErrRuns) {
			t.Errorf("a second run is answered with %v", err)
		}
		if is, _ := a.Last(); !is.Goes() || is.Done() != 0.5 || is.By != "ada" {
			t.Errorf("it goes on as %+v", is)
		}
		on <- c.err
		<-over
		is, _ := a.Last()
		if is.Goes() || !errors.Is(is.Err, c.err) || is.Interrupted != c.interrupted || (is.Report == nil) != (c.err != nil) || !is.Ended.Equal(noon.Add(time.Minute)) {
			t.Errorf("it ended as %+v", is)
		}
	}
}
