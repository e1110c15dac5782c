package bench

import (
	"context"
	"testing"

	"millrace/events/jet/streams"
)

// Each tick makes one task and none is early, whatever load the machine has.
func TestManySchedules(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const n = 40
	r, err := ManySchedules(ctx, Config{Dial: serve(t, streams.Layout{})}, n)
	if err != nil {
		t.Fatal(err)
	}
	for when, f := range map[string]Ticks{"spread": r.Spread, "at once": r.AtOnce} {
		if f.Early+f.Missing+f.Extra != 0 || f.Late.Max <= 0 || f.PerSecond <= 0 {
			t.Errorf("%d schedules, %s: %+v; want a task for each, none early", n, when, f)
		}
	}
}
