package projections

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/quota"
)

// A starting scheduler finds the tasks that rates of queues hold, those that they have admitted and
// that have not started, and the rates, for any batches.
func TestRatedRows(t *testing.T) {
	log := events.NewMemory(time.Now, time.Second)
	r := &events.Recorder{Log: log, Now: time.Now, NewID: events.NewID}
	q, _, err := r.DoQueue(t.Context(), placement.DefaultQueue, queue.Limit{Rate: &limit.Rate{Limit: 5}})
	if err != nil {
		t.Fatal(err)
	}
	does := func(k task.Task, c task.Command) task.Task {
		t.Helper()
		k, _, err := r.Do(t.Context(), k, c)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	var ids []task.ID
	head := uint64(0)
	for i := range 4 {
		id, _ := submit(t, r)
		k, err := r.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, k.ID)
		if i == 3 {
			continue // not offered to a node yet
		}
		k = does(k, task.Claim{Node: "n", Offer: k.Seq, Rate: queue.RateOf(&q)})
		if i == 0 {
			continue // it is held
		}
		if head, _, err = r.Admit(t.Context(), r.Moment(), []limit.Scope{"queue.default"}, []task.Granted{{Grants: []task.Grant{{Task: k.ID, Turn: k.Turn, Rated: q.RateSince}}}}, []uint64{head}, task.By{Seen: 1}, nil); err != nil {
			t.Fatal(err)
		}
		seq, err := log.Place(t.Context(), r.Fact(k.ID, task.AdmittedOffer(k, q.RateSince)))
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if k, err = r.Load(t.Context(), k.ID); err != nil {
				t.Fatal(err)
			}
			does(k, task.Claim{Node: "n", Offer: seq, After: k.Turn, Rate: queue.RateOf(&q)})
		}
	}
	records := log.All()
	for _, size := range []int{1, 3, len(records)} {
		s := open(t, "")
		project(t, s, 10, records, func() int { return size })
		found := map[task.ID]string{}
		_, _, err := s.EachLimited(t.Context(), func(k quota.Stand, _ quota.Counters, admitted *task.Grant) {
			if k.Limited {
				found[k.ID] = fmt.Sprint(k.State, " ", k.First, " ", k.Rated == q.RateSince, " ", admitted != nil)
			}
		})
		if err != nil || len(found) != 2 || found[ids[0]] != "held false false false" || found[ids[1]] != "pending false true false" {
			t.Errorf("in batches of %d: found %v, %v", size, found, err)
		}
		queues, err := s.SaidOfQueues(t.Context())
		if err != nil || !reflect.DeepEqual(queues, []queue.Queue{q}) {
			t.Errorf("in batches of %d: the queues are %+v, %v; want %+v", size, queues, err, q)
		}
	}
}

// The lanes in use are those of tasks that have not ended, with the last timer of each.
func TestLanes(t *testing.T) {
	log := events.NewMemory(time.Now, time.Minute)
	r := recorder(log)
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	defer stop()
	due := time.Now().Add(72 * time.Hour).UTC().Truncate(time.Microsecond)
	ended := placement.Route("over.9")
	var last task.ID
	for _, c := range []struct {
		route placement.Route
		key   string
		due   time.Time
	}{
		{"default.5", "", time.Time{}},
		{"bulk.2", "", time.Time{}},
		{"bulk.8", "", due}, {"bulk.8", "", due.Add(-time.Hour)}, {"bulk.8", "", time.Time{}},
		{"bulk.5", "customer", time.Time{}},
		{ended, "", time.Time{}},
	} {
		last = task.ID(events.NewID(time.Now()))
		e := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "noop"}, Route: c.route, FairKey: c.key}, Due: c.due}
		if _, err := r.Submit(t.Context(), last, e); err != nil {
			t.Fatal(err)
		}
	}
	k, _, err := r.Do(t.Context(), mustLoad(t, r, last), task.Cancel{})
	if err != nil || !k.State.Terminal() {
		t.Fatal(k.State, err)
	}
	await(t, s, k.Seq)
	used, err := s.Lanes(t.Context())
	fair := (&task.Work{Route: "bulk.5", FairKey: "customer"}).Lane()
	want := map[placement.Lane]time.Time{
		{Queue: "default", Priority: 5}: {}, {Queue: "bulk", Priority: 2}: {}, {Queue: "bulk", Priority: 8}: due, fair: {},
	}
	if err != nil || len(used) != len(want) {
		t.Errorf("%v are used, %v; want %v", used, err, want)
	}
	for l, until := range want {
		if at, ok := used[l]; !ok || !at.Equal(until) {
			t.Errorf("%v is used until %v (%v), want %v", l, at, ok, until)
		}
	}
}

// Where tasks wait is remembered until the next message. Who asks may change what he gets.
func TestLatest(t *testing.T) {
	t.Parallel()
	log := events.NewMemory(time.Now, time.Second)
	r := &events.Recorder{Log: log, Now: time.Now, NewID: events.NewID}
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	defer stop()
	for want := 1; want < 4; want++ {
		_, seq := submit(t, r)
		await(t, s, seq)
		for range 2 {
			routes, err := s.PendingRoutes(t.Context())
			if err != nil || len(routes) != 1 || routes[0].Tasks != want {
				t.Fatalf("%d tasks wait on %+v, %v", want, routes, err)
			}
			routes[0].Tasks = 0
			oldest, err := s.Oldest(t.Context())
			if err != nil || len(oldest) != 1 {
				t.Fatalf("the oldest wait since %v, %v", oldest, err)
			}
			clear(oldest)
		}
	}
}

// The n-th latest of the ended tasks is found from either end.
func TestEnded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { now = now.Add(time.Second); return now }
	log := events.NewMemory(clock, time.Second)
	r := &events.Recorder{Log: log, Now: clock, NewID: events.NewID}
	var ended []time.Time
	for i := range 20 {
		id := task.ID(events.NewID(clock()))
		if _, err := r.Submit(t.Context(), id, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "noop"}, Route: "default.5"}}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			continue // it waits
		}
		k, err := r.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if k, _, err = r.Do(t.Context(), k, task.Cancel{}); err != nil {
			t.Fatal(err)
		}
		ended = append(ended, k.EndedAt)
	}
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	defer stop()
	last, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	await(t, s, last)
	for n := range len(ended) + 2 {
		var want time.Time
		if n < len(ended) {
			want = ended[len(ended)-1-n]
		}
		if at, err := s.Ended(t.Context(), n); err != nil || !at.Equal(want) {
			t.Errorf("%d behind the latest: %v, %v; want %v", n, at, err, want)
		}
	}
}
