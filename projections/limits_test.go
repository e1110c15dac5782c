package projections

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/quota"
	"millrace/task/value"
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
	are, seq, err := s.EachLimited(t.Context(), func(k quota.Stand, _ quota.Counters, grant *task.Grant) {
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

// How tasks stood that waited as they were born is known without a message, though all have changed
// since: they equal their folds.
func TestStandOfThePast(t *testing.T) {
	t.Parallel()
	log := events.NewMemory(time.Now, time.Second)
	r := &events.Recorder{Log: log, Now: time.Now, NewID: events.NewID}
	specs := []*job.Spec{
		{Handler: "h", Concurrency: limit.Concurrencies{{Max: 2, OnLimit: limit.CancelOld}}, Rate: limit.Rates{{Limit: 3, Per: value.Duration(time.Hour), Burst: 2, Key: "{labels.site}"}}},
		{Handler: "h", Concurrency: limit.Concurrencies{{Max: 1}}, Budget: limit.Budgets{{Starts: 5, Per: "day"}, {Run: value.Duration(time.Minute), Per: "day", Key: "{labels.site}"}}, Timeout: job.Timeout{Run: value.Duration(time.Second)}},
	}
	was := map[task.ID]quota.Stand{}
	counters := map[task.ID][]limit.Counter{}
	for i := range 40 {
		e, err := birth.Of(birth.Submission{Spec: specs[i%2], Queue: []string{"a", "b"}[i/2%2], Priority: 1 + i%9, Labels: map[string]string{"site": []string{"x", "y", "z"}[i%3]}}, nil, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		id := task.ID(events.NewID(time.Now()))
		if _, err := r.Submit(t.Context(), id, e); err != nil {
			t.Fatal(err)
		}
		k, err := r.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		was[id] = quota.StandOf(&k)
		if counters[id], err = k.Counters(); err != nil || len(counters[id]) < 2 {
			t.Fatalf("its counters are %+v, %v", counters[id], err)
		}
	}
	end, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id := range was {
		k, err := r.Load(t.Context(), id)
		if err == nil {
			_, _, err = r.Do(t.Context(), k, task.Cancel{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	records := log.All()
	for _, size := range []int{1, 7, len(records)} {
		s := open(t, "")
		project(t, s, 10, records, func() int { return size })
		n := 0
		_, _, err := s.At(view.Point{Seq: end, At: time.Now()}, unread{t}).EachLimited(t.Context(), func(is quota.Stand, its quota.Counters, admitted *task.Grant) {
			n++
			want := was[is.ID]
			want.Born, is.Born = want.Born.UTC().Truncate(time.Microsecond), is.Born.UTC()
			if is != want || admitted != nil {
				t.Errorf("in batches of %d: it stood at\n%+v, want\n%+v", size, is, want)
			}
			if of, err := its(); err != nil || !reflect.DeepEqual(of, counters[is.ID]) {
				t.Errorf("in batches of %d: its counters were\n%+v, want\n%+v", size, of, counters[is.ID])
			}
		})
		if err != nil || n != len(was) {
			t.Errorf("in batches of %d: %d of %d are told, %v", size, n, len(was), err)
		}
	}
}
