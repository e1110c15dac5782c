package task_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// A task takes further submissions until its time comes, if it never ran, moves by them, and keeps what they say.
func TestCollapse(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	spec := func(keep string) *job.Spec {
		return &job.Spec{Handler: "h", Collapse: &job.Collapse{Key: "k", Quiet: value.Duration(10 * time.Second), Most: value.Duration(time.Minute), Keep: keep},
			Timeout: job.Timeout{Pending: value.Duration(time.Hour)}}
	}
	waits := func(change func(*task.Task)) task.Task {
		is := task.Task{ID: "T", State: task.Scheduled, SubmittedAt: noon, Due: noon.Add(10 * time.Second), Turn: 7,
			Work: task.Work{Spec: spec(""), Params: json.RawMessage(`{"n":1}`)}}
		if change != nil {
			change(&is)
		}
		return is
	}
	limited := func(is *task.Task) {
		is.Spec.Concurrency = limit.Concurrencies{{Max: 1}}
		is.State, is.Holds = task.Held, []string{task.HoldLimit}
	}
	for name, c := range map[string]struct {
		is      task.Task
		after   time.Duration
		of      task.ID
		refused error
		unmoved bool
		due     time.Duration
	}{
		"soon after":                {is: waits(nil), after: 4 * time.Second, due: 14 * time.Second},
		"before the latest":         {is: waits(func(is *task.Task) { is.Due = noon.Add(58 * time.Second) }), after: 55 * time.Second, due: time.Minute},
		"its time has come":         {is: waits(nil), after: 10 * time.Second, refused: task.ErrNotWaiting},
		"its limits hold it longer": {is: waits(limited), after: 11 * time.Second, refused: task.ErrNotWaiting},
		"its window opens later":    {is: waits(func(is *task.Task) { is.Due = noon.Add(time.Hour) }), after: 4 * time.Second, due: time.Hour},
		"held by its limits":        {is: waits(limited), after: 4 * time.Second, due: 14 * time.Second},
		"offered, not started":      {is: waits(func(is *task.Task) { is.State, is.Offered = task.Pending, true }), after: 12 * time.Second, refused: task.ErrNotWaiting},
		"offered by a fast clock":   {is: waits(func(is *task.Task) { is.State, is.Offered = task.Pending, true }), after: 9 * time.Second, due: 19 * time.Second},
		"the same once more":        {is: waits(func(is *task.Task) { is.CollapsedOf = []task.ID{"A"} }), of: "A", unmoved: true},
		"the same, and it runs":     {is: waits(func(is *task.Task) { is.State, is.Epoch, is.CollapsedOf = task.Running, 9, []task.ID{"A"} }), of: "A", unmoved: true},
		"the last that it may take": {is: waits(func(is *task.Task) { is.Collapsed = job.MaxCollapsed - 2 }), after: 4 * time.Second, due: 4 * time.Second},
		"too much":                  {is: waits(func(is *task.Task) { is.Spec, is.Collected = spec(job.KeepAll), job.MaxCollected }), refused: task.ErrNotWaiting},
		"one too many":              {is: waits(func(is *task.Task) { is.Collapsed = job.MaxCollapsed - 1 }), refused: task.ErrNotWaiting},
		"running":                   {is: waits(func(is *task.Task) { is.State, is.Epoch = task.Running, 9 }), refused: task.ErrNotWaiting},
		"a function that sleeps":    {is: waits(func(is *task.Task) { is.Epoch = 9 }), refused: task.ErrNotWaiting},
		"without collapse":          {is: waits(func(is *task.Task) { is.Spec = &job.Spec{Handler: "h"} }), refused: task.ErrNotWaiting},
		"finished":                  {is: waits(func(is *task.Task) { is.State = task.Finished }), refused: task.ErrEnded},
		"unknown":                   {is: task.Task{ID: "T"}, refused: task.ErrUnknown},
	} {
		now := noon.Add(c.after)
		event, err := task.Decide(c.is, task.Collapse{Of: c.of, Params: json.RawMessage(`{"n":2}`)}, now)
		if !errors.Is(err, c.refused) || (event == nil) != (c.unmoved || c.refused != nil) {
			t.Errorf("%s: %+v, %v", name, event, err)
		}
		if event == nil {
			continue
		}
		is := task.Evolve(c.is, task.Recorded{Seq: 20, Chain: true, At: now, Event: event})
		if due := noon.Add(c.due); is.State != task.Scheduled || !is.Due.Equal(due) || is.Turn != 20 || is.Offered || is.Collapsed != c.is.Collapsed+1 || !is.StartBy.Equal(due.Add(time.Hour)) {
			t.Errorf("%s: it became %+v", name, is)
		}
		if string(is.Params) != `{"n":2}` || is.Admissible() != is.Spec.Limited() {
			t.Errorf("%s: it has the parameters %s, and may be admitted: %v", name, is.Params, is.Admissible())
		}
	}

	all := waits(func(is *task.Task) { is.Spec = spec(job.KeepAll) })
	for n := range 3 {
		params, err := all.Spec.Collapse.Collects(fmt.Appendf(nil, `{"n":%d}`, n))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			all.Params = params
			continue
		}
		event, err := task.Decide(all, task.Collapse{Params: params}, noon)
		if err != nil {
			t.Fatal(err)
		}
		all = task.Evolve(all, task.Recorded{Seq: uint64(20 + n), Chain: true, At: noon, Event: event})
	}
	if want := `{"n":2,"collected":[{"n":0},{"n":1},{"n":2}]}`; string(all.Params) != want {
		t.Errorf("a task of three submissions has the parameters %s, want %s", all.Params, want)
	}
}
