package bench

import (
	"context"
	"testing"
	"time"

	"millrace/events/jet/streams"
)

func TestManyNodes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := ManyNodes(ctx, Config{Dial: serve(t, streams.Layout{}), Latencies: 6}, 6, 3, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if w.Nodes != 6 || w.Queues != 3 || w.ReadySeconds <= 0 || w.StartLatency.P50 <= 0 || w.StartLatency.Max < w.StartLatency.P50 {
		t.Errorf("measured %+v", w)
	}
}
