package events_test

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
)

// A held task is moved just after an offer has opened its hold, which the chain does not show. That
// offer is then stale, and another one is made.
func TestSettleAfterAnOfferInBetween(t *testing.T) {
	log := events.NewMemory(time.Now, time.Minute)
	r := &events.Recorder{Log: log, Actor: "test", Now: time.Now, NewID: events.NewID}
	id := task.ID(events.NewID(time.Now()))
	work := task.Work{Spec: &job.Spec{Handler: "h", Place: job.Place{Nodes: []string{"n1"}}}, Route: placement.NodeRoute("n1", 5), Holds: []string{task.HoldLimit}}
	if _, err := r.Submit(t.Context(), id, task.Submitted{Work: work}); err != nil {
		t.Fatal(err)
	}
	held, err := r.Load(t.Context(), id)
	if err != nil || held.State != task.Held {
		t.Fatalf("it is %s, %v", held.State, err)
	}
	free := held.Work
	free.Holds = nil
	if _, err := log.Place(t.Context(), r.Fact(id, task.Queued{Work: free, Attempt: 1, After: held.Turn})); err != nil {
		t.Fatal(err)
	}
	moved, event, err := r.Do(t.Context(), held, task.Reassign{From: held.Route, To: placement.QueueRoute("q", 5), Reason: "test"})
	if err != nil || event == nil {
		t.Fatalf("it was not moved: %v, %v", event, err)
	}
	if err := r.Settle(t.Context(), &moved); err != nil {
		t.Fatal(err)
	}
	now, err := r.Load(t.Context(), id)
	if _, missing := task.NextOffer(&now); err != nil || missing || now.State != task.Pending || now.Route.Queue() != "q" {
		t.Errorf("it is %s on %s, an offer is missing: %t (%v)", now.State, now.Route, missing, err)
	}
}
