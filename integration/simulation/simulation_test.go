package simulation

import (
	"flag"
	"testing"
)

var (
	seedFlag      = flag.Int64("seed", -1, "play only the history of this `seed`, and show its trace")
	historiesFlag = flag.Uint64("histories", 500, "how many `histories` to play")
)

// fullTrace is more lines than a history has.
const fullTrace = 1 << 20

func TestSimulation(t *testing.T) {
	if *seedFlag >= 0 {
		h := play(t, uint64(*seedFlag), variant{})
		t.Logf("weather: %+v\n%s", h.weather, h.trace(fullTrace))
		h.report(t)
		return
	}
	for seed := range *historiesFlag {
		h := play(t, seed, variant{})
		h.report(t)
		if t.Failed() {
			return
		}
	}
}

// report fails the test if the history broke a promise, and says how to see it again.
func (h *history) report(t *testing.T) {
	t.Helper()
	if h.failure == nil {
		return
	}
	t.Errorf("seed %d: %v\nweather: %+v\nthe last steps:\n%s\nreplay: go test ./integration/simulation -run TestSimulation -seed %d",
		h.seed, h.failure, h.weather, h.trace(60), h.seed)
}
