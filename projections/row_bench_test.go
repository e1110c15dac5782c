package projections

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// ran is a task that has run without faults.
func ran() task.Task {
	at := time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.UTC)
	return task.Task{
		ID: "01KYYK5W6V0000000000000001", State: task.Finished, Node: "w2", Session: "01JNA0SESS0000000000000000", Attempt: 1, Epoch: 1234567, Offer: 1234566, Head: 1234568, Offered: true,
		Seq: 1234568, SubmittedAt: at, Since: at.Add(2 * time.Second), StartedAt: at.Add(time.Second), EndedAt: at.Add(2 * time.Second), Ran: value.Duration(time.Second),
		Work: task.Work{Job: "thumbnail", Revision: 7, Spec: &job.Spec{Handler: "thumbnail", Retry: job.Retry{Max: 3}}, Params: json.RawMessage(`{"input":"a.png","size":640}`), Route: "default.5"},
	}
}

// Writing and reading a row's document.
func BenchmarkRow(b *testing.B) {
	form, t := newRowForm(), ran()
	doc, err := form.Append(nil, &t)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if doc, err = form.Append(doc[:0], &t); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var t task.Task
			if err := form.Read(doc, &t); err != nil {
				b.Fatal(err)
			}
		}
	})
}
