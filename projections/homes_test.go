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
	"millrace/task/placement"
)

// Tasks of two queues that name the same nodes share a route: each counts for its own queue.
func TestNamedNodesCountWithTheirQueues(t *testing.T) {
	log := events.NewMemory(time.Now, time.Second)
	r := &events.Recorder{Log: log, Now: time.Now, NewID: events.NewID}
	routes := map[string]bool{}
	for _, queue := range []string{"images", "bulk", "bulk"} {
		spec := job.Spec{Handler: "x", Place: job.Place{Nodes: []string{"n1", "n2"}, Queue: queue}}
		birth, err := birth.Of(birth.Submission{Spec: &spec}, nil, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		routes[birth.Route.Queue()] = true
		if _, err := r.Submit(t.Context(), task.ID(events.NewID(time.Now())), birth); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	defer stop()
	last, err := log.Last(t.Context())
	if err != nil || len(routes) != 1 {
		t.Fatal(err, routes)
	}
	await(t, s, last)
	counts, _, err := s.Counts(t.Context())
	if want := map[string]map[task.State]int{"images": {task.Pending: 1}, "bulk": {task.Pending: 2}}; err != nil || !reflect.DeepEqual(counts, want) {
		t.Errorf("counts %v, %v; want %v", counts, err, want)
	}
	if oldest, err := s.Oldest(t.Context()); err != nil || len(oldest) != 2 || !oldest["images"].Before(oldest["bulk"]) {
		t.Errorf("the oldest wait since %v, %v", oldest, err)
	}
	if page, err := s.tasks(t.Context(), view.Filter{Queue: "bulk"}); err != nil || len(page.Tasks) != 2 {
		t.Errorf("%d tasks of bulk, %v", len(page.Tasks), err)
	}
}

// Tasks that wait for nodes with certain labels count for the queue of these nodes. No displayed
// text contains the name of the route.
func TestSelectorsCountWithTheirQueue(t *testing.T) {
	log := events.NewMemory(time.Now, time.Second)
	r := &events.Recorder{Log: log, Now: time.Now, NewID: events.NewID}
	spec := job.Spec{Handler: "x"}
	spec.Place.Labels, _ = placement.ParseSelector("gpu")
	began := time.Now()
	for _, s := range []birth.Submission{{Spec: &spec, Queue: "images"}, {Spec: &job.Spec{Handler: "x"}, Queue: "images"}, {Spec: &job.Spec{Handler: "x"}, Nodes: []string{"w3"}}} {
		birth, err := birth.Of(s, nil, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Submit(t.Context(), task.ID(events.NewID(time.Now())), birth); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, "")
	stop := start(t, &Projector{Log: log, Store: s})
	defer stop()
	last, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	await(t, s, last)
	counts, _, err := s.Counts(t.Context())
	want := map[string]map[task.State]int{"images": {task.Pending: 2}, "@w3": {task.Pending: 1}}
	if err != nil || !reflect.DeepEqual(counts, want) {
		t.Errorf("counts %v, %v; want %v", counts, err, want)
	}
	oldest, err := s.Oldest(t.Context())
	if err != nil || len(oldest) != 2 || oldest["images"].Before(began.Add(-time.Second)) {
		t.Errorf("the oldest wait since %v, %v", oldest, err)
	}
	routes, err := s.Routes(t.Context(), "images")
	if err != nil || !slices.Equal(routes, []string{"images", placement.SelectorQueue("images", spec.Place.Labels)}) {
		t.Errorf("the routes are %v, %v", routes, err)
	}
	page, err := s.tasks(t.Context(), view.Filter{Queue: "images"})
	if err != nil || len(page.Tasks) != 2 || page.Tasks[0].WaitsIn() != "images" {
		t.Errorf("the list is %+v, %v", page.Tasks, err)
	}
}
