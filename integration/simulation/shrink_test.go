package simulation

import (
	"errors"
	"maps"
	"testing"

	"millrace/worker"
)

// shrink looks for a shorter story of the same kind of failure: it spares the
// history faults, in ever smaller groups, as long as it still fails. What follows
// from a fault that is spared is another history, so it is tried, not computed.
func shrink(t *testing.T, failed *history) *history {
	least, spared := failed, map[int]bool{}
	for size := max(failed.faults/2, 1); ; size /= 2 {
		for from := 1; from <= least.faults; from += size {
			trial := maps.Clone(spared)
			for n := from; n < from+size; n++ {
				trial[n] = true
			}
			v := failed.variant
			v.spared = trial
			if h := play(t, failed.seed, v); sameKind(h.failure, failed.failure) {
				least, spared = h, trial
			}
		}
		if size <= 1 {
			return least
		}
	}
}

// sameKind tells whether two failures break the same promise.
func sameKind(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	for _, promise := range []error{errI2, errI3, errI5, errI7, errI8, errEvidence} {
		if errors.Is(b, promise) {
			return errors.Is(a, promise)
		}
	}
	return true
}

// happened counts the faults that were not spared.
func (h *history) happened() int {
	n := h.faults
	for i := range h.variant.spared {
		if i <= h.faults {
			n--
		}
	}
	return n
}

// A failing history is told in fewer faults, and still fails.
func TestShrink(t *testing.T) {
	lacks := variant{protocol: func(p *worker.Protocol) protocol { return unfenced{p} }}
	for seed := range uint64(enough) {
		h := play(t, seed, lacks)
		if !errors.Is(h.failure, errI3) || h.faults < 10 {
			continue
		}
		short := shrink(t, h)
		if !errors.Is(short.failure, errI3) || short.happened() >= h.faults {
			t.Errorf("seed %d: of %d faults %d are left, and it fails with %v", seed, h.faults, short.happened(), short.failure)
		}
		t.Logf("seed %d: %d faults of %d are enough", seed, short.happened(), h.faults)
		return
	}
	t.Error("no seed fails")
}
