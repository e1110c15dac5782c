package events

import (
	"runtime"
	"strings"
	"testing"
)

// A message that anybody may place does not take hundreds of times its size of whoever reads it.
func TestHollowSteps(t *testing.T) {
	for _, item := range []string{"{}", "null", `{"steps":[{},{},{},{}]}`} {
		text := `{"steps":[` + strings.Repeat(item+",", 50_000) + item + `]}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode([]byte(`{"type":"task.submitted","v":1,"id":"x","at":"2026-03-01T12:00:00Z","task":"t","route":"q.5","spec":` + text + `}`))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > uint64(200*len(text)) {
			t.Errorf("%s: %d bytes for a text of %d, %v", item, took, len(text), err)
		}
	}
	steps := `{"name":"a1","run":{"argv":["x"]}}`
	text := `{"steps":[` + strings.Repeat(steps+",", 4095) + steps + `]}`
	if spec, err := NewSpecCache().Decode([]byte(text)); err != nil || len(spec.Steps) != 4096 {
		t.Errorf("as many as there may be: %v", err)
	}
}
