package millrace_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"millrace"
)

// What a step costs in processor time, of program, worker, server and read model together, beside the other report of
// a function that the log has to store, a checkpoint, and beside a no-op task.
func BenchmarkSteps(b *testing.B) {
	const each = 100 // in one task
	report := func(name string, most int, one func(ctx context.Context, i int) error) {
		done := make(chan error) // not by Result, which reads each step once more
		f := millrace.Action("bench-"+name, func(ctx context.Context, n int) (err error) {
			for i := 0; i < n && err == nil; i++ {
				err = one(ctx, i)
			}
			done <- err
			return nil
		})
		b.Run(name, func(b *testing.B) {
			app, end := running(f)
			defer end()
			began := processorTime(b)
			for left := b.N; left > 0; left -= most {
				if _, err := f.Submit(b.Context(), app, min(left, most)); err != nil {
					b.Fatal(err)
				}
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N)/1000, "cpu-µs/op")
		})
	}
	report("step", each, func(ctx context.Context, i int) error {
		_, err := millrace.Step(ctx, "s", func(context.Context) (int, error) { return i, nil })
		return err
	})
	report("checkpoint", each, func(ctx context.Context, i int) error { return millrace.Checkpoint(ctx, i) })
	report("task", 1, func(context.Context, int) error { return nil })
}

// processorTime is what the process has used so far, with the kernel's work for it.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
