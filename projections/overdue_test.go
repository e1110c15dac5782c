package projections

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
)

func TestOldestAndOverdue(t *testing.T) {
	log := events.NewMemory(time.Now, time.Minute)
	r := recorder(log)
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	defer stop()
	if oldest, err := s.Oldest(t.Context()); err != nil || len(oldest) != 0 {
		t.Errorf("in an empty log %v waits, %v", oldest, err)
	}

	first, _ := submit(t, r)
	if _, _, err := r.Do(t.Context(), mustLoad(t, r, first), task.Claim{Node: "n1", Session: "s", Offer: 1}); err != nil {
		t.Fatal(err)
	}
	second, _ := submit(t, r)
	_, seq := submit(t, r)
	later := task.ID("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	due := time.Now().Add(time.Hour)
	if _, err := r.Submit(t.Context(), later, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "noop"}, Route: "bulk.5"}, Due: due}); err != nil {
		t.Fatal(err)
	}
	last, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	await(t, s, max(last, seq))

	oldest, err := s.Oldest(t.Context())
	if want := mustLoad(t, r, second).Since; err != nil || len(oldest) != 1 || !oldest["default"].Equal(want.Truncate(time.Microsecond)) {
		t.Errorf("the oldest are %v, %v, want that of default since %v", oldest, err, want)
	}
	for _, c := range []struct {
		before time.Time
		want   int
	}{{due, 0}, {due.Add(time.Second), 1}} {
		overdue, err := s.Overdue(t.Context(), c.before)
		if err != nil || overdue[task.Scheduled] != c.want || len(overdue) != c.want {
			t.Errorf("before %v: %v, %v", c.before, overdue, err)
		}
	}
}
