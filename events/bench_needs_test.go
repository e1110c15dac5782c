package events

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
)

// BenchmarkFreed frees a task that needed two others, and writes its offer.
func BenchmarkFreed(b *testing.B) {
	needs := &task.Needs{Of: []task.Need{{Task: "01JNA000000000000000000001", Name: "a"}, {Task: "01JNA000000000000000000002", Name: "b"}}}
	held := task.Evolve(task.Task{ID: "01JNA000000000000000000003"}, task.Recorded{Seq: 5, At: noon, Event: task.Submitted{Work: task.Work{
		Spec: &job.Spec{Handler: "x"}, Route: "default.5", Needs: needs, Holds: []string{task.HoldNeeds}}}})
	known := []task.Input{{State: task.Finished, Result: json.RawMessage(`{"n":1}`), Seq: 1_234_567}, {State: task.Finished, Seq: 1_234_569}}
	rec := &Recorder{Actor: "scheduler", Now: func() time.Time { return noon }, NewID: NewID}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		c, err := needs.Follow(known)
		if err != nil {
			b.Fatal(err)
		}
		f, ok, err := rec.Freed(&held, c.(task.Unhold))
		if !ok || err != nil {
			b.Fatal(ok, err)
		}
		if buf, err = Encode(buf[:0], f); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(buf)), "B/fact")
}
