package promises

import (
	"encoding/json"
	"millrace/integration/harness"
	"syscall"
	"testing"
	"time"
)

// everyFault is a scenario with each fault and each kind of target.
const everyFault = `
steps:
  - {at: 500ms, fault: kill, target: worker-1, for: 4s}
  - {at: 800ms, fault: delay, target: worker-2, for: 1s, delay: 30ms}
  - {at: 2s, fault: kill, target: schedulers, for: 1s}
  - {at: 2200ms, fault: half-open, target: worker-2, for: 1s}
  - {at: 3500ms, fault: throttle, target: worker-2, for: 1s}
  - {at: 3700ms, fault: kill, target: server, for: 500ms}
  - {at: 4800ms, fault: pause, target: worker-2, for: 3s}
  - {at: 5s, fault: drop, target: scheduler-1, for: 1s, every: 5}
  - {at: 6s, fault: cut, target: worker-1, for: 500ms}
  - {at: 6500ms, fault: clock, target: scheduler-2, for: 1500ms, shift: -7m}
  - {at: 7s, fault: term, target: worker-1, for: 100ms}
  - {at: 8s, fault: blackhole, target: workers, for: 500ms}
  - {at: 9s, fault: kill, target: all, for: 500ms}
`

// Whatever fault is injected, no task is lost, and nothing of the run is left: the place looks for
// processes and folders at the end.
func TestChaos(t *testing.T) {
	t.Parallel()
	harness.Tools(t, "chaos")
	p := harness.New(t, 2*time.Second)
	p.Write("every.yaml", everyFault)
	r := p.Try("chaos", "--scenario", "./every.yaml", "--duration", "10s", "--workers", "2", "--rate", "8", "--json")
	if r.Code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", r.Code, r.Out, r.Errs)
	}
	var report struct {
		Verdict           string
		Tasks             int
		Acknowledged      int
		Lost              *int
		DuplicatedResults *int `json:"duplicated_results"`
		Stuck             *int
		Takeovers         *int
		SweepRepairs      *int `json:"sweep_repairs"`
		Faults            map[string]int
		Detection         struct{ P50, P99 float64 } `json:"detection_ms"`
		Reconnect         struct{ P50, P99 float64 } `json:"reconnect_ready_ms"`
	}
	if err := json.Unmarshal([]byte(r.Out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Verdict != "ok" || report.Tasks != 80 || report.Acknowledged != 80 {
		t.Errorf("verdict %s of %d tasks, %d acknowledged; want ok of 80", report.Verdict, report.Tasks, report.Acknowledged)
	}
	for name, n := range map[string]*int{"lost": report.Lost, "duplicated_results": report.DuplicatedResults, "stuck": report.Stuck} {
		if n == nil || *n != 0 {
			t.Errorf("%s is not 0:\n%s", name, r.Out)
		}
	}
	if report.Takeovers == nil || report.SweepRepairs == nil {
		t.Errorf("figures are missing:\n%s", r.Out)
	}
	if d := report.Detection; d.P50 <= 0 || d.P99 < d.P50 {
		t.Errorf("detection: %+v", d)
	}
	if d := report.Reconnect; d.P50 <= 0 || d.P99 < d.P50 {
		t.Errorf("reconnect: %+v", d)
	}
	// Two workers, two schedulers and the server.
	if want := 1 + 2 + 1 + 5; report.Faults["kill"] != want || report.Faults["blackhole"] != 2 || len(report.Faults) != 10 {
		t.Errorf("faults: %v, want %d kills, and each of ten", report.Faults, want)
	}
}

// Ctrl-C in the middle leaves nothing behind, even while a worker is suspended and the server is
// down.
func TestChaosInterrupted(t *testing.T) {
	t.Parallel()
	harness.Tools(t, "chaos")
	p := harness.New(t, 2*time.Second)
	p.Write("long.yaml", `
steps:
  - {at: 0s, fault: pause, target: worker-1, for: 10m}
  - {at: 100ms, fault: kill, target: server, for: 10m}
`)
	s := p.Start("chaos", "--scenario", "./long.yaml")
	stopped := func() bool {
		for _, w := range harness.Survivors(p.Mark) {
			if harness.Suspended(w.PID) {
				return true
			}
		}
		return false
	}
	s.Until("a worker is suspended", stopped)
	s.Signal(syscall.SIGINT)
	if code := s.Wait(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}
