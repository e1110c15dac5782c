package task_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// The offer that opens the needs has the same effect on the task as a fact on its chain followed by
// an offer.
func TestFreedOffer(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	spec := &job.Spec{Handler: "x", Timeout: job.Timeout{Pending: value.Duration(time.Minute), Total: value.Duration(time.Hour)}}
	needs := &task.Needs{Of: []task.Need{{Task: "01JNA000000000000000000001"}}}
	birth := func(change func(*task.Submitted)) task.Task {
		e := task.Submitted{Work: task.Work{Spec: spec, Route: "default.5", Needs: needs, Holds: []string{task.HoldNeeds}}}
		if change != nil {
			change(&e)
		}
		return task.Evolve(task.Task{ID: "01JNA000000000000000000002"}, task.Recorded{Seq: 5, At: at, Event: e})
	}
	told := json.RawMessage(`{"a":1}`)
	now := at.Add(10 * time.Second)

	held := birth(func(e *task.Submitted) { e.Inputs = json.RawMessage(`{"b":2}`) })
	offer, ok, err := task.FreedOffer(held, task.Unhold{Hold: task.HoldNeeds, Reason: "all is well", Inputs: told}, now)
	if !ok || err != nil {
		t.Fatalf("no offer: %v", err)
	}
	freed := task.Evolve(held, task.Recorded{Seq: 9, At: now, Event: offer})
	event, err := task.Decide(held, task.Unhold{Hold: task.HoldNeeds, Reason: "all is well", Inputs: told}, now)
	if err != nil {
		t.Fatal(err)
	}
	long := task.Evolve(held, task.Recorded{Seq: 8, Chain: true, At: now, Event: event})
	next, _ := task.NextOffer(&long)
	long = task.Evolve(long, task.Recorded{Seq: 9, At: now, Event: next})
	long.Head, long.Turn, long.Message, long.Holds, freed.Holds = 0, 0, freed.Message, nil, nil // all that differs
	if !reflect.DeepEqual(freed, long) {
		t.Errorf("freed by its offer it is\n%+v, by two facts\n%+v", freed, long)
	}
	if freed.State != task.Pending || !freed.Offered || freed.StartBy.IsZero() || freed.EndBy.IsZero() || string(freed.Inputs) != `{"a":1,"b":2}` {
		t.Errorf("it is %+v", freed)
	}
	if claimed := task.Evolve(task.Task{ID: held.ID}, task.Recorded{Seq: 9, At: now, Event: offer}); claimed.Turn != 0 || string(claimed.Inputs) != string(freed.Inputs) || claimed.EndBy != freed.EndBy {
		t.Errorf("who has the offer alone sees %+v", claimed)
	}
	if len(held.Holds) != 1 || held.Inputs == nil {
		t.Errorf("the task given has changed: %+v", held)
	}

	for name, not := range map[string]task.Task{
		"waits for a signal too": birth(func(e *task.Submitted) { e.Holds = []string{task.HoldNeeds, task.HoldSignal} }),
		"is under limits too":    birth(func(e *task.Submitted) { e.Holds = []string{task.HoldNeeds, task.HoldLimit} }),
		"needs nothing":          birth(func(e *task.Submitted) { e.Holds = []string{task.HoldSignal} }),
		"is due later":           birth(func(e *task.Submitted) { e.Due = at.Add(time.Hour) }),
		"is a parent": birth(func(e *task.Submitted) {
			e.Spec = &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "x"}}}}
		}),
		"was moved":    task.Evolve(held, task.Recorded{Seq: 7, Chain: true, At: at, Event: task.Reassigned{From: "default.5", To: "default.9"}}),
		"is offered":   freed,
		"is cancelled": task.Evolve(held, task.Recorded{Seq: 7, Chain: true, At: at, Event: task.CancelConfirmed{}}),
	} {
		if _, ok, err := task.FreedOffer(not, task.Unhold{Hold: task.HoldNeeds, Inputs: told}, now); ok || err != nil {
			t.Errorf("one that %s: an offer %v, %v", name, ok, err)
		}
	}
}
