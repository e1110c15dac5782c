package embed

import (
	"runtime/metrics"
	"time"
)

// A server that hangs gives no answer however long one waits. On a starved machine, where this process
// is given the processor seldom, nothing answers soon. So the guard does not count the time that
// passes, but the time that this process had: the more its goroutines wait for a processor, the less a
// step of waiting counts.

// waitStep is the step of a wait: about the delay at which a process counts as half starved.
const waitStep = 20 * time.Millisecond

// counts is how much a step of waiting counts, given how long goroutines that could have run were kept
// from it meanwhile. A step through which the machine slept counts nearly nothing.
func counts(late time.Duration) time.Duration {
	return time.Duration(float64(waitStep) * float64(waitStep) / float64(waitStep+max(late, 0)))
}

// lateness measures for how long goroutines that can run wait for a processor.
type lateness struct {
	sample []metrics.Sample
	before []uint64 // the counts of the histogram when it was last read
}

func newLateness() *lateness {
	l := &lateness{sample: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	l.worst()
	return l
}

// worst returns the longest such wait that has ended since the last call, to the accuracy of the
// runtime's histogram.
func (l *lateness) worst() (worst time.Duration) {
	metrics.Read(l.sample)
	if l.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0 // this runtime does not measure it
	}
	h := l.sample[0].Value.Float64Histogram()
	for i, n := range h.Counts {
		if i < len(l.before) && n > l.before[i] || l.before == nil && n > 0 {
			worst = time.Duration(max(h.Buckets[i], 0) * float64(time.Second)) // the lower bound
		}
	}
	l.before = append(l.before[:0], h.Counts...)
	return worst
}
