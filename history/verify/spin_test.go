package verify_test

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
)

func TestSpins(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		nodes string // of each attempt
		at    []time.Duration
		spins int
	}{
		{"a few at once", "aaa", []time.Duration{0, ms, 2 * ms}, 0},
		{"one more", "aaaa", []time.Duration{0, ms, 2 * ms, 3 * ms}, 1},
		{"many are told once", "aaaaaaaa", []time.Duration{0, ms, 2 * ms, 3 * ms, 4 * ms, 5 * ms, 6 * ms, 7 * ms}, 1},
		{"over a longer time", "aaaaaa", []time.Duration{0, 400 * ms, 800 * ms, 1200 * ms, 1600 * ms, 2000 * ms}, 0},
		{"later", "aaaaaa", []time.Duration{0, 400 * ms, 3000 * ms, 3100 * ms, 3200 * ms, 3300 * ms}, 1},
		{"of several nodes", "abcd", []time.Duration{0, ms, 2 * ms, 3 * ms}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log []events.Record
			began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			for i, at := range tt.at {
				for _, e := range []task.Event{task.AttemptStarted{Node: tt.nodes[i : i+1]}, task.AttemptReleased{Reason: "slow"}} {
					log = append(log, events.Record{Seq: uint64(len(log) + 1), Fact: events.Fact{Task: "t", At: began.Add(at), Event: e}})
				}
			}
			if got := verify.Spins(log); len(got) != tt.spins {
				t.Errorf("found %q, want %d", got, tt.spins)
			}
		})
	}
}
