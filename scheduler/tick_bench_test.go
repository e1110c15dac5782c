package scheduler

import (
	"log/slog"
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

// BenchmarkTick is the cost of a tick from its fire to the birth of its task, in processor time:
// the log is in memory.
func BenchmarkTick(b *testing.B) {
	s := bareStage(0)
	tick := s.now().Add(time.Hour).Truncate(time.Second)
	s.define("s", "", tick, false)
	one := New(s, nil, nil, Config{Schedules: s, Ticks: s, Births: s, Now: s.now, Log: slog.New(slog.DiscardHandler)})
	b.ReportAllocs()
	var began, ended syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &began)
	for i := range b.N {
		r := events.Record{Seq: uint64(1_000_000 + i), Stored: tick, Kind: events.KindFire,
			Fact: events.Fact{Schedule: "s", Event: task.ScheduleFired{Revision: 1, Tick: tick, Due: tick}}}
		if err := one.Fire(b.Context(), &r); err != nil {
			b.Fatal(err)
		}
		tick = tick.Add(time.Hour)
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ended)
	used := time.Duration(ended.Utime.Nano() + ended.Stime.Nano() - began.Utime.Nano() - began.Stime.Nano())
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
	size := 0
	for _, r := range s.All() {
		if _, ok := r.Fact.Event.(task.ScheduleAdmitted); ok {
			text, err := events.Encode(nil, &r.Fact)
			if err != nil {
				b.Fatal(err)
			}
			size = len(text)
		}
	}
	b.ReportMetric(float64(size), "fact-bytes")
}
