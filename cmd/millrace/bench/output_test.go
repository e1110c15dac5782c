package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"millrace/jet"
	"millrace/worker/process"
)

// TestChatterIsMeasuredAndComplete: what one task prints and produces is all there.
func TestChatterIsMeasuredAndComplete(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := process.NewRunner(process.Config{Guard: []string{self, "guard"}})
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	tasks := &process.Tasks{Runner: runner, Node: "bench"}
	defer tasks.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := Config{Dial: serve(t, jet.Layout{}), Commands: tasks}
	logs, err := Logs(ctx, cfg, 5e6)
	if err != nil {
		t.Fatal(err)
	}
	records, err := Records(ctx, cfg, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]Chatter{"logs": logs, "records": records} {
		if c.Missing != 0 || c.Extra != 0 || c.Items < 10_000 || c.BytesPerSecond <= 0 || c.Others.P50 <= 0 {
			t.Errorf("%s: %+v", what, c)
		}
	}
}
