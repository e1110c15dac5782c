package projections

import (
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
)

// Admissions survive a restart until the task is offered; so do the buckets of rates.
func TestLimitedRows(t *testing.T) {
	log := events.NewMemory(time.Now, time.Second)
	r := &events.Recorder{Log: log, Now: time.Now, NewID: events.NewID}
	limited := &job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: 1}}, Rate: limit.Rates{{Limit: 1}}}
	var ids []task.ID
	for range 3 {
		e, err := birth.Of(birth.Submission{Spec: limited}, nil, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		id := task.ID(events.NewID(time.Now()))
		if _, err := r.Submit(t.Context(), id, e); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	submit(t, r) // a task without limits
	used := time.Now().Add(time.Hour)
	_, _, err := r.Admit(t.Context(), r.Moment(), []limit.Scope{"queue.default"}, []task.Granted{{Grants: []task.Grant{{Task: ids[0]}, {Task: ids[1]}}, Rates: map[string]time.Time{"rate:queue.default": used}}}, []uint64{0}, task.By{Seen: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := r.Load(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	at, err := log.Place(t.Context(), r.Fact(first.ID, task.AdmittedOffer(first, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	await(t, s, at)
	stop()
	var found, admitted []task.ID
	are, seq, err := s.EachLimited(t.Context(), func(k *task.Task, grant *task.Grant) {
		found = append(found, k.ID)
		if grant != nil {
			admitted = append(admitted, k.ID)
		}
	})
	slices.Sort(found)
	if err != nil || seq != at || !slices.Equal(found, ids) || !slices.Equal(admitted, ids[1:2]) {
		t.Errorf("found %v, of which %v are admitted and not offered, at %d: %v", found, admitted, seq, err)
	}
	if got := are.Rates["rate:queue.default"]; !got.Equal(used) {
		t.Errorf("the rate is used up until %v, want %v", got, used)
	}
	tasks, err := s.Known(t.Context(), append(slices.Clone(ids), "nobody"))
	if err != nil || len(tasks) != 3 {
		t.Errorf("%d tasks by id, %v", len(tasks), err)
	}
}
