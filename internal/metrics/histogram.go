package metrics

import (
	"slices"
	"time"
)

// Histogram counts durations by size. It is not safe for concurrent use.
type Histogram struct {
	// Bounds are the upper bounds of all buckets but the last, in seconds, rising.
	Bounds []float64
	// Counts are the counts of the buckets, one more than Bounds, not cumulative.
	Counts []uint64
	// Sum is the sum of all durations, in seconds.
	Sum float64
}

// Bounds of the histograms. Waits range from an idle node to half a day, runs from a handler
// without work to a day.
var (
	waitBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 43200}
	runBounds  = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}
	awayBounds = []float64{.05, .1, .25, .5, 1, 2, 5, 10, 20, 60, 300, 1800, 7200, 86400}
	beatBounds = []float64{.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120}
	lookBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60}
)

func newHistogram(bounds []float64) *Histogram {
	return &Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

// observe counts one duration. A negative one, possible with clocks of two machines, counts as 0.
func (h *Histogram) observe(d time.Duration) {
	s := max(d, 0).Seconds()
	i, _ := slices.BinarySearch(h.Bounds, s)
	h.Counts[i]++
	h.Sum += s
}

// Count is how many durations there were.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.Counts {
		n += c
	}
	return n
}
