package main

import (
	"testing"

	"millrace/integration/chaos"
	"millrace/internal/testkit"
)

func TestChaosTable(t *testing.T) {
	good := chaos.Report{
		Scenario: "kill", Seed: 7, Verdict: chaos.OK, Tasks: 400, Acknowledged: 400,
		States: map[string]int{"finished": 351, "error": 28, "cancelled": 21}, Faults: map[chaos.Fault]int{chaos.Kill: 9, chaos.Cut: 1},
		Limits: chaos.LimitsReport{Tasks: 120, Refused: 9, Replaced: 4}, Decisions: 310, Unjudged: 2,
		Takeovers: 12, LostAttempts: 1, LateResults: 2, Seconds: 44.12,
		Detection: chaos.Latency{Count: 9, P50: 5801, P99: 6702.4, Max: 6702.4}, Reconnect: chaos.Latency{Count: 9, P50: 31.2, P99: 44, Max: 44},
	}
	testkit.Table(t, "chaos_ok", chaosTable(&good), 0, false)
	bad := good
	bad.Verdict, bad.Lost, bad.Dir = chaos.Broken, 1, "/tmp/millrace-chaos-1"
	bad.Broken = []string{"1 acknowledged submissions are not in the log: " + "01JD6Z8V3M0QK4T7W2X9Y5ABCD"}
	bad.Odd = []string{"worker-1 ended by itself with exit status 2: panic: oh"}
	testkit.Table(t, "chaos_broken", chaosTable(&bad), 0, false)
}
