package events

import (
	"encoding/json"
	"testing"

	"millrace/task"
	"millrace/task/job"
)

// The three facts of a task that runs without faults, as the hot path writes them.
func hot() []Fact {
	return []Fact{
		{ID: sampleFact, At: noon, Type: TaskSubmitted, Task: sampleTask, Event: task.Submitted{Work: task.Work{
			Job: "thumbnail", Revision: 7, Spec: &job.Spec{Handler: "thumbnail", Retry: job.Retry{Max: 3}},
			Params: json.RawMessage(`{"input":"a.png","size":640}`), Route: "default.5"}}},
		{ID: sampleFact, At: noon, Type: AttemptStarted, Task: sampleTask,
			Event: task.AttemptStarted{Attempt: 1, Node: "w2", Session: "01JNA0SESS0000000000000000", Offer: 52}},
		{ID: sampleFact, At: noon, Type: AttemptFinished, Task: sampleTask,
			Event: task.AttemptFinished{Attempt: 1, Epoch: 53, Result: json.RawMessage(`{"files":2}`)}},
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, f := range hot() {
		b.Run(string(f.Type), func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = Encode(buf[:0], &f); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, f := range hot() {
		b.Run(string(f.Type), func(b *testing.B) {
			raw, err := Encode(nil, &f)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := Decode(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
