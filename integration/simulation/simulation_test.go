package simulation

import (
	"flag"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
)

// usualHistories is how many a run of all tests plays; CI plays the same seeds and many more.
const usualHistories = 100

var (
	seedFlag      = flag.Int64("seed", -1, "play only the history of this `seed`, and show its trace")
	historiesFlag = flag.Uint64("histories", usualHistories, "how many histories to play; their seeds are `n` numbers from -first on")
	firstFlag     = flag.Uint64("first", 0, "the `seed` of the first history to play")
)

func TestSimulation(t *testing.T) {
	if *seedFlag >= 0 {
		h := play(t, uint64(*seedFlag), variant{})
		h.verify(t)
		t.Logf("weather: %+v\n%s", h.weather, h.trace(""))
		h.report(t)
		return
	}
	happened, began := tally{}, time.Now()
	var mu sync.Mutex // guards happened and failed
	var failed *history
	each(*historiesFlag, func(seed uint64) bool {
		h := play(t, *firstFlag+seed, variant{})
		h.verify(t)
		mu.Lock()
		defer mu.Unlock()
		if happened.add(h); h.failure != nil && (failed == nil || h.seed < failed.seed) {
			failed = h
		}
		return failed == nil
	})
	if failed != nil {
		shrink(t, failed).report(t)
		return
	}
	took := time.Since(began)
	t.Logf("%d histories in %v, %.0f a second: %v", *historiesFlag, took.Round(time.Millisecond), float64(*historiesFlag)/took.Seconds(), happened)
	if *historiesFlag >= many {
		happened.report(t)
	}
}

// each calls do with all numbers below n, on all processors, until a call returns false.
func each(n uint64, do func(uint64) bool) {
	var next atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				if !do(i) {
					next.Store(n)
				}
			}
		})
	}
	all.Wait()
}

// TestMain has the collector wait: a history is small, soon over, and nearly all garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	m.Run()
}

// report fails the test if the history broke a promise, and says how to see it again.
func (h *history) report(t *testing.T) {
	t.Helper()
	if h.failure == nil {
		return
	}
	t.Errorf("seed %d, in short: %s: %v\nweather: %+v\nthe steps that matter:\n%s\nreplay all of it: go test ./integration/simulation -run TestSimulation -v -seed %d\nlook into it: %s",
		h.seed, h.size(), h.failure, h.weather, h.trace(h.blamed), h.seed, h.incident())
}

// A seed is a history: playing it again gives the same one.
func TestReplay(t *testing.T) {
	for seed := range uint64(20) {
		first, again := play(t, seed, variant{}), play(t, seed, variant{})
		if first.trace("") != again.trace("") {
			t.Fatalf("seed %d gives two histories:\n%s\nand\n%s", seed, first.trace(""), again.trace(""))
		}
	}
}

// tally counts events, to show that there was something to find.
type tally map[string]int

// many histories are so many that each of the following must have happened.
const many = 400

var remarkable = []string{
	requestLost.String(), answerLost.String(), delayed.String(), "arrived late", killed.String(), killedAfter.String(), "stopped",
	"garbage", "takeover", "repair",
	string(events.TaskSubmitted), string(events.TaskQueued),
	string(events.AttemptStarted), string(events.AttemptFinished), string(events.AttemptFailed),
	string(events.AttemptReleased), string(events.AttemptLost), string(events.AttemptAdopted), string(events.AttemptLate),
	string(events.TaskCancelRequested), string(events.TaskCancelled), string(events.TaskAbnormal), string(events.TaskReopened), string(events.TaskReassigned), string(events.TaskDismissed), string(events.TaskThrottled), value.Unplaced,
	"cancelled while running", "retry", value.Expired, value.Lost, value.Poison,
	string(events.NodeDraining), string(events.NodeOffline),
}

func (n tally) report(t *testing.T) {
	t.Helper()
	for _, what := range remarkable {
		if n[what] == 0 {
			t.Errorf("this never happened: %s", what)
		}
	}
}

func (n tally) add(h *history) {
	for i := range h.steps {
		switch s := &h.steps[i]; {
		case s.landed:
			n["arrived late"]++
		case s.fate != answered:
			n[s.fate.String()]++
		case s.stopped:
			n["stopped"]++
		}
	}
	for _, s := range h.schedulers {
		for _, times := range s.Repairs() {
			n["repair"] += times
		}
	}
	for i := range h.records {
		r := &h.records[i]
		if r.Err != nil || r.Fact.Actor == stranger {
			n["garbage"]++
			continue
		}
		n[string(r.Fact.Type)]++
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			if e.TookOver != nil {
				n["takeover"]++
			}
		case task.AttemptFailed:
			if e.Retry != nil {
				n["retry"]++
			}
		case task.CancelConfirmed:
			if e.Epoch > 0 {
				n["cancelled while running"]++
			}
		case task.GivenUp:
			n[e.Reason]++
		}
	}
}
