package chaos

import (
	"testing"
	"time"

	"millrace/integration/load"
	"millrace/task"
)

// Latencies count from when each task was planned to arrive, and the faults have their times on the
// same axis.
func TestRoundOf(t *testing.T) {
	s := &story{}
	s.born(1.5, "late") // it was to come at 1
	s.born(2, "open")
	s.started(2.5, "open", "worker-2", 0)
	epoch := s.started(3, "late", "worker-1", 0)
	s.born(3, "stranger")
	s.finished(4, "late", epoch)
	faults := []Injected{{Fault: Kill, Target: "worker-1", Began: after(1), Ended: after(2.25)}, {Fault: Cut, Target: Server, Began: after(4)}}
	comes := map[task.ID]time.Duration{"late": time.Second, "open": 2 * time.Second, "refused": 3 * time.Second}
	r := roundOf(s.records, []task.ID{"late", "open"}, comes, after(0), 5*time.Second)
	if r.Arrivals != 2 || r.Tasks != 2 || r.Lost != 1 || r.Failed != 0 || r.Depth != 2 {
		t.Errorf("%+v", r)
	}
	if p := r.Points[1]; p.Arrived != 1 || p.Start.Max < 1990 || p.Start.Max > 2010 {
		t.Errorf("what was to come at 1 s: %+v", p)
	}
	if p := r.Points[3]; p.Started != 1 || p.Arrived != 0 {
		t.Errorf("at 3 s: %+v", p)
	}
	want := []load.Fault{{From: 1, Until: 2.25, What: "kill worker-1"}, {From: 4, Until: 4, What: "cut server"}}
	if all := brokenAt(faults, after(0), after(4)); len(all) != 2 || all[0] != want[0] || all[1] != want[1] {
		t.Errorf("%+v, want %+v", all, want)
	}
}
