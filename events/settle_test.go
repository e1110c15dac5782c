package events_test

import (
	"errors"
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

// No task is born under a chosen id from before the horizon of the log. One that the log still has is
// found, and ids that follow from others count no less than they did.
func TestChosenIDsFromBeforeTheHorizon(t *testing.T) {
	log := events.NewMemory(time.Now, time.Minute)
	r := &events.Recorder{Log: log, Actor: "test", Now: time.Now, NewID: events.NewID}
	old := func(ago time.Duration) task.ID { return task.ID(events.NewID(time.Now().Add(-ago))) }
	born := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "h"}, Route: placement.QueueRoute("q", 5)}}
	stays := old(2 * time.Hour)
	if _, err := r.SubmitNamed(t.Context(), stays, born); err != nil {
		t.Fatalf("before there is a horizon: %v", err)
	}
	e := task.HorizonChosen{Span: task.Span{Below: 1, Before: time.Now().Add(-time.Hour)}}
	if _, err := log.Append(t.Context(), &events.Fact{ID: events.NewID(time.Now()), At: time.Now(), Type: events.TypeOf(e), Event: e}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SubmitNamed(t.Context(), old(time.Minute), born); err != nil {
		t.Errorf("behind the horizon: %v", err)
	}
	if _, err := r.SubmitNamed(t.Context(), old(2*time.Hour), born); !errors.Is(err, events.ErrForgotten) {
		t.Errorf("before the horizon: %v, want ErrForgotten", err)
	}
	if _, err := r.SubmitNamed(t.Context(), stays, born); !errors.As(err, new(*events.Exists)) {
		t.Errorf("one that stays: %v, want Exists", err)
	}
	if _, err := r.Submit(t.Context(), task.DerivedID(stays, "a child"), born); err != nil {
		t.Errorf("a child: %v", err)
	}
}
