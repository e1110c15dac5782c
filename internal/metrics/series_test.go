package metrics

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

func TestSeries(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var s Series
	step := func(at time.Duration, was, is task.State, waited time.Duration) {
		when := noon.Add(at)
		s.Observe([]events.Step{{Record: &events.Record{Stored: when}, Was: events.Glance{Course: task.Course{State: was}, Since: when.Add(-waited)}, Is: events.Glance{Course: task.Course{State: is, StartedAt: when}}}})
	}
	if got := s.Points(noon); got != nil {
		t.Errorf("of nothing there are %v", got)
	}
	step(0, task.Unknown, task.Pending, 0)
	step(time.Second, task.Pending, task.Running, 20*time.Millisecond)
	step(2*time.Second, task.Pending, task.Running, 40*time.Millisecond)
	step(3*time.Second, task.Running, task.Finished, 0)
	step(4*time.Second, task.Running, task.Retrying, 0)
	step(21*time.Second, task.Pending, task.Running, 250*time.Microsecond)
	step(25*time.Second, task.Running, task.Error, 0)
	step(26*time.Second, task.Error, task.Error, 0)
	s.Wait(noon.Add(5*time.Second), noon)
	s.Wait(noon.Add(29*time.Second), time.Time{})
	got := s.Points(noon.Add(31 * time.Second))
	at := noon.Unix()
	want := []Point{{at, 0.1, 0.1, 30, 5}, {at + 10, 0, 0, -1, -1}, {at + 20, 0, 0.1, 0.25, 0}}
	if len(got) != len(want) {
		t.Fatalf("the points are %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("point %d is %v, want %v", i, got[i], want[i])
		}
	}
	step(time.Hour, task.Running, task.Finished, 0) // where an old one was
	step(5*time.Second, task.Running, task.Finished, 0)
	if got = s.Points(noon.Add(time.Hour + 10*time.Second)); len(got) != buckets-1 || got[buckets-2].Done != 0.1 || got[0].Done != 0 {
		t.Errorf("after an hour there are %d points, the first %v, the last %v", len(got), got[0], got[len(got)-1])
	}
}
