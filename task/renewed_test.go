package task

import (
	"reflect"
	"testing"

	"millrace/task/job"
	"millrace/task/reason"
	"millrace/task/where"
)

// A renewed offer is valid for the turn of the one before it, and for no other.
func TestRenewed(t *testing.T) {
	work := Work{Spec: &job.Spec{Handler: "h"}, Route: where.QueueRoute("q", 5)}
	for name, c := range map[string]struct {
		offer Event
		want  Event
		ok    bool
	}{
		"a birth":        {Submitted{Work: work}, Queued{Work: work, Attempt: 1}, true},
		"a later offer":  {Queued{Work: work, Attempt: 3, After: 41, Reason: reason.Exit}, Queued{Work: work, Attempt: 3, After: 41, Reason: reason.Exit}, true},
		"a timer's":      {Due{After: 41, Route: "q.5"}, Due{After: 41, Route: "q.5"}, true},
		"no offer":       {AttemptStarted{Attempt: 1}, nil, false},
		"nothing at all": {nil, nil, false},
	} {
		got, ok := Renewed(c.offer)
		if ok != c.ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
	born := Evolve(Task{ID: "T"}, Recorded{Seq: 7, Event: Submitted{Work: work}})
	renewed, _ := Renewed(Submitted{Work: work})
	again := renewed.(Queued)
	now := Evolve(born, Recorded{Seq: 8, Event: again})
	if now.Seq = born.Seq; !reflect.DeepEqual(now, born) {
		t.Errorf("placed anew the task is\n%+v, was\n%+v", now, born)
	}
	if _, err := Decide(born, Claim{Node: "n", Session: "s", Offer: 8, After: again.After}, born.Since); err != nil {
		t.Errorf("it cannot be claimed: %v", err)
	}
}
