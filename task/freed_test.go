package task

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// The offer that opens the needs has the same effect on the task as a fact on its chain followed by
// an offer.
func TestFreedOffer(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	spec := &job.Spec{Handler: "x", Timeout: job.Timeout{Pending: value.Duration(time.Minute), Total: value.Duration(time.Hour)}}
	needs := &Needs{Of: []Need{{Task: "01JNA000000000000000000001"}}}
	birth := func(change func(*Submitted)) Task {
		e := Submitted{Work: Work{Spec: spec, Route: "default.5", Needs: needs, Holds: []string{HoldNeeds}}}
		if change != nil {
			change(&e)
		}
		return Evolve(Task{ID: "01JNA000000000000000000002"}, Recorded{Seq: 5, At: at, Event: e})
	}
	told := json.RawMessage(`{"a":1}`)
	now := at.Add(10 * time.Second)

	held := birth(func(e *Submitted) { e.Inputs = json.RawMessage(`{"b":2}`) })
	offer, ok, err := FreedOffer(held, Unhold{Hold: HoldNeeds, Reason: "all is well", Inputs: told}, now)
	if !ok || err != nil {
		t.Fatalf("no offer: %v", err)
	}
	freed := Evolve(held, Recorded{Seq: 9, At: now, Event: offer})
	event, err := Decide(held, Unhold{Hold: HoldNeeds, Reason: "all is well", Inputs: told}, now)
	if err != nil {
		t.Fatal(err)
	}
	long := Evolve(held, Recorded{Seq: 8, Chain: true, At: now, Event: event})
	next, _ := NextOffer(&long)
	long = Evolve(long, Recorded{Seq: 9, At: now, Event: next})
	long.Head, long.Turn, long.Message, long.Holds, freed.Holds = 0, 0, freed.Message, nil, nil // all that differs
	if !reflect.DeepEqual(freed, long) {
		t.Errorf("freed by its offer it is\n%+v, by two facts\n%+v", freed, long)
	}
	if freed.State != Pending || !freed.Offered || freed.StartBy.IsZero() || freed.EndBy.IsZero() || string(freed.Inputs) != `{"a":1,"b":2}` {
		t.Errorf("it is %+v", freed)
	}
	if claimed := Evolve(Task{ID: held.ID}, Recorded{Seq: 9, At: now, Event: offer}); claimed.Turn != 0 || string(claimed.Inputs) != string(freed.Inputs) || claimed.EndBy != freed.EndBy {
		t.Errorf("who has the offer alone sees %+v", claimed)
	}
	if len(held.Holds) != 1 || held.Inputs == nil {
		t.Errorf("the task given has changed: %+v", held)
	}

	for name, not := range map[string]Task{
		"waits for a signal too": birth(func(e *Submitted) { e.Holds = []string{HoldNeeds, HoldSignal} }),
		"is under limits too":    birth(func(e *Submitted) { e.Holds = []string{HoldNeeds, HoldLimit} }),
		"needs nothing":          birth(func(e *Submitted) { e.Holds = []string{HoldSignal} }),
		"is due later":           birth(func(e *Submitted) { e.Due = at.Add(time.Hour) }),
		"is a parent":            birth(func(e *Submitted) { e.Spec = &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "x"}}}} }),
		"was moved":              Evolve(held, Recorded{Seq: 7, Chain: true, At: at, Event: Reassigned{From: "default.5", To: "default.9"}}),
		"is offered":             freed,
		"is cancelled":           Evolve(held, Recorded{Seq: 7, Chain: true, At: at, Event: CancelConfirmed{}}),
	} {
		if _, ok, err := FreedOffer(not, Unhold{Hold: HoldNeeds, Inputs: told}, now); ok || err != nil {
			t.Errorf("one that %s: an offer %v, %v", name, ok, err)
		}
	}
}
