package events

import (
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
)

// BenchmarkMove is a birth, a claim and a result without conflicts.
func BenchmarkMove(b *testing.B) {
	r := &Recorder{Log: NewMemory(time.Now, time.Minute), Actor: "worker", Now: time.Now, NewID: NewID}
	birth := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: placement.QueueRoute("default", 5)}}
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		id := task.ID(NewID(now))
		seq, err := r.Submit(b.Context(), id, birth)
		if err != nil {
			b.Fatal(err)
		}
		t := task.Evolve(task.Task{ID: id}, task.Recorded{Seq: seq, At: now, Event: birth})
		if _, err := r.Move(b.Context(), &t, task.Claim{Node: "n", Session: "s", Offer: seq}); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Move(b.Context(), &t, task.Finish{Epoch: t.Epoch}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDoNode is a node whose sessions follow each other.
func BenchmarkDoNode(b *testing.B) {
	r := &Recorder{Log: NewMemory(time.Now, time.Minute), Actor: "worker", Now: time.Now, NewID: NewID}
	n := node.Node{ID: "n"}
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if n, _, err = r.DoNodeFrom(b.Context(), n, node.Register{Session: NewID(time.Now())}); err != nil {
			b.Fatal(err)
		}
	}
}
