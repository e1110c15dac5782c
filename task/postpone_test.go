package task_test

import (
	"errors"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// An operator postpones tasks that wait, and that nothing but their limits holds; none starts earlier
// because of it.
func TestPostponed(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	until := noon.Add(time.Hour)
	held := func(spec *job.Spec, holds ...string) task.Task {
		return task.Task{State: task.Held, Work: task.Work{Spec: spec, Holds: holds}}
	}
	limited := &job.Spec{Concurrency: limit.Concurrencies{{Max: 1}}}
	throttled := held(nil, task.HoldLimit)
	throttled.Throttled = true
	for name, c := range map[string]struct {
		is      task.Task
		refused error
		unmoved bool
	}{
		"pending, and offered":         {is: task.Task{State: task.Pending, Offered: true, Turn: 7}},
		"pending after it was due":     {is: task.Task{State: task.Pending, Due: noon.Add(-time.Minute), Turn: 7}},
		"due earlier":                  {is: task.Task{State: task.Scheduled, Due: noon.Add(time.Minute), Turn: 7}},
		"due then":                     {is: task.Task{State: task.Scheduled, Due: until}, unmoved: true},
		"due later":                    {is: task.Task{State: task.Scheduled, Due: until.Add(time.Second)}, unmoved: true},
		"waiting for another attempt":  {is: task.Task{State: task.Retrying, Due: noon.Add(time.Minute), Attempt: 1}},
		"held by its limits":           {is: held(limited, task.HoldLimit)},
		"held by the rate of a queue":  {is: throttled},
		"waiting for its signal":       {is: held(nil, task.HoldSignal), refused: task.ErrNotWaiting},
		"waiting for needs and limits": {is: held(limited, task.HoldNeeds, task.HoldLimit), refused: task.ErrNotWaiting},
		"running":                      {is: task.Task{State: task.Running, Epoch: 9}, refused: task.ErrNotWaiting},
		"finished":                     {is: task.Task{State: task.Finished}, refused: task.ErrEnded},
		"unknown":                      {is: task.Task{}, refused: task.ErrUnknown},
	} {
		c.is.ID, c.is.StartBy = "T", noon.Add(time.Minute)
		event, err := task.Decide(c.is, task.Postpone{Asked: true, Due: until, Detail: "later"}, noon)
		if !errors.Is(err, c.refused) || (event == nil) != (c.unmoved || c.refused != nil) {
			t.Errorf("%s: %+v, %v", name, event, err)
		}
		if event == nil {
			continue
		}
		is := c.is
		is.Apply(task.Recorded{Seq: 20, Chain: true, At: noon, Event: event})
		if is.State != task.Scheduled || !is.Due.Equal(until) || is.Turn != 20 || is.Offered || is.Message != "later" || !is.StartBy.Equal(c.is.StartBy) || is.Throttled || is.Admissible() != (is.Spec.Limited()) {
			t.Errorf("%s: it became %+v", name, is)
		}
		if owed := is.Owed(); owed.Timer == is.Spec.Limited() {
			t.Errorf("%s: it owes %+v", name, owed)
		}
	}
	// A rule is asked about one offer, and names itself.
	throttled.ID, throttled.Turn = "T", 7
	if _, err := task.Decide(throttled, task.Postpone{After: 7, Reason: value.Breaker, Due: until}, noon); !errors.Is(err, task.ErrStale) {
		t.Errorf("a rule postpones a held task: %v", err)
	}
}
