package worker

import (
	"testing"

	"millrace/task"
)

// untraced does everything that an attempt does for a trace, without a tracer.
func untraced(a *Attempt, o *Outcome) {
	a.trace()
	_ = a.Traceparent()
	a.traced(o)
}

// Without a tracer, tracing allocates nothing.
func TestUntraced(t *testing.T) {
	a, o := &Attempt{worker: &Worker{}, Task: task.Task{ID: "t"}}, &Outcome{}
	if n := testing.AllocsPerRun(100, func() { untraced(a, o) }); n > 0 {
		t.Errorf("an attempt that nobody traces allocates %v times for its trace", n)
	}
}

func BenchmarkUntraced(b *testing.B) {
	a, o := &Attempt{worker: &Worker{}, Task: task.Task{ID: "t"}}, &Outcome{}
	for b.Loop() {
		untraced(a, o)
	}
}
