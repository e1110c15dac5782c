package replay

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
)

// million returns a log of a million facts: small tasks on ten nodes, three facts each.
func million(b *testing.B, facts int) *Span {
	b.Helper()
	s := NewSpan(1)
	at, seq := noon, uint64(0)
	add := func(kind events.Kind, f events.Fact) {
		seq++
		at = at.Add(time.Millisecond)
		f.ID, f.At, f.Type = fmt.Sprintf("01JNAF%020d", seq), at, events.TypeOf(f.Event)
		raw, err := events.Encode(nil, &f)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Add(&events.Record{Seq: seq, Stored: at, Kind: kind, Place: "mr." + kind.String() + "." + f.About(), Fact: f, Raw: raw}, true); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 10 {
		id := node.ID(fmt.Sprint("n", i))
		add(events.KindNode, events.Fact{Node: id, Event: node.Registered{Session: "s", Profile: node.Profile{Slots: 2, Queues: []string{"default"}}}})
		add(events.KindNode, events.Fact{Node: id, Event: node.WentOnline{Session: "s", Connection: 1}})
	}
	spec := &job.Spec{Handler: "work"}
	for i := 0; len(s.facts) < facts; i++ {
		id := task.ID(fmt.Sprintf("01JNAT%020d", i))
		add(events.KindOffer, events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Spec: spec, Route: "default.5"}}})
		add(events.KindChain, events.Fact{Task: id, Event: task.AttemptStarted{Attempt: 1, Node: fmt.Sprint("n", i%10), Session: "s", Offer: seq}})
		add(events.KindChain, events.Fact{Task: id, Event: task.AttemptFinished{Attempt: 1, Epoch: seq}})
	}
	return s
}

// BenchmarkRead reads facts into a span, and reports their memory.
func BenchmarkRead(b *testing.B) {
	const facts = 100_000
	for b.Loop() {
		before := inUse()
		s := million(b, facts) // which encodes them, too
		b.ReportMetric(float64(inUse()-before)/facts, "B/fact")
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*facts), "ns/fact")
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkScan passes over 100,000 facts for a breakpoint without hits.
func BenchmarkScan(b *testing.B) {
	const facts = 100_000
	s := million(b, facts)
	for _, text := range []string{
		"type attempt.failed",
		`task.attempt > 1 and type == "attempt.failed" and task.state == "error"`,
		`fact.class == "exit"`,
		"late",
		"broken",
	} {
		b.Run(text, func(b *testing.B) {
			stops, err := parseBreak(text)
			if err != nil {
				b.Fatal(err)
			}
			before := processorTime(b)
			for b.Loop() {
				if found, err := s.find(b.Context(), stops, judged.Rules, judged.Margin); err != nil || found.Hits > 0 {
					b.Fatalf("%+v, %v", found, err)
				}
			}
			b.ReportMetric(float64(b.N*facts)/b.Elapsed().Seconds(), "facts/s")
			b.ReportMetric(float64(b.N*facts)/(processorTime(b)-before).Seconds(), "facts/cpu-s")
		})
	}
}

// processorTime is the processor time of this process. On a busy machine it says more than the clock.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBack steps back somewhere in a million facts.
func BenchmarkBack(b *testing.B) {
	s := million(b, 1_000_000)
	chance := rand.New(rand.NewPCG(1, 2))
	for _, f := range []Focus{{}, {"node", "n3"}, {"queue", "default"}} {
		b.Run("of "+f.words(), func(b *testing.B) {
			c := judged
			c.Focus = f
			x, err := New(s, c)
			if err != nil {
				b.Fatal(err)
			}
			worst, before := time.Duration(0), processorTime(b)
			for b.Loop() {
				x.move(1000 + chance.IntN(len(s.facts)-1000))
				begun := time.Now()
				if a, err := x.Do(b.Context(), "N"); err != nil || a.None {
					b.Fatal(err)
				}
				worst = max(worst, time.Since(begun))
			}
			b.ReportMetric(float64(worst.Microseconds()), "µs-at-worst")
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
