package task_test

import (
	"reflect"
	"testing"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// A renewed offer is valid for the turn of the one before it, and for no other.
func TestRenewed(t *testing.T) {
	work := task.Work{Spec: &job.Spec{Handler: "h"}, Route: placement.QueueRoute("q", 5)}
	for name, c := range map[string]struct {
		offer task.Event
		want  task.Event
		ok    bool
	}{
		"a birth":        {task.Submitted{Work: work}, task.Queued{Work: work, Attempt: 1}, true},
		"a later offer":  {task.Queued{Work: work, Attempt: 3, After: 41, Reason: value.Exit}, task.Queued{Work: work, Attempt: 3, After: 41, Reason: value.Exit}, true},
		"a timer's":      {task.Due{After: 41, Route: "q.5"}, task.Due{After: 41, Route: "q.5"}, true},
		"no offer":       {task.AttemptStarted{Attempt: 1}, nil, false},
		"nothing at all": {nil, nil, false},
	} {
		got, ok := task.Renewed(c.offer)
		if ok != c.ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
	born := task.Evolve(task.Task{ID: "T"}, task.Recorded{Seq: 7, Event: task.Submitted{Work: work}})
	renewed, _ := task.Renewed(task.Submitted{Work: work})
	again := renewed.(task.Queued)
	now := task.Evolve(born, task.Recorded{Seq: 8, Event: again})
	if now.Seq = born.Seq; !reflect.DeepEqual(now, born) {
		t.Errorf("placed anew the task is\n%+v, was\n%+v", now, born)
	}
	if _, err := task.Decide(born, task.Claim{Node: "n", Session: "s", Offer: 8, After: again.After}, born.Since); err != nil {
		t.Errorf("it cannot be claimed: %v", err)
	}
}
