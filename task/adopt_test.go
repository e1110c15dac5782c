package task_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/value"
)

var adopting = &job.Spec{Run: &job.Run{Shell: "x"}, OnRestart: job.RestartAdopt}

func TestAdopt(t *testing.T) {
	running := task.Task{State: task.Running, Epoch: 7, Attempt: 2, Node: "n1", Session: "s1"}
	with := func(change func(*task.Task)) task.Task {
		k := running
		change(&k)
		return k
	}
	adopt := task.Adopt{Epoch: 7, Node: "n1", Session: "s2", PID: 42, Gap: value.Duration(time.Second)}
	adopted := task.AttemptAdopted{Attempt: 2, Epoch: 7, Node: "n1", Session: "s2", PID: 42, Gap: value.Duration(time.Second)}
	for name, c := range map[string]struct {
		task task.Task
		want task.Event
		err  error
	}{
		"its own":         {running, adopted, nil},
		"being cancelled": {with(func(k *task.Task) { k.State = task.Cancelling }), adopted, nil},
		"already":         {with(func(k *task.Task) { k.Session = "s2" }), nil, nil},
		"taken over":      {with(func(k *task.Task) { k.Epoch = 9 }), nil, task.ErrFenced},
		"another node's":  {with(func(k *task.Task) { k.Node = "n2" }), nil, task.ErrFenced},
		"lost":            {with(func(k *task.Task) { k.State = task.Pending }), nil, task.ErrFenced},
		"finished":        {with(func(k *task.Task) { k.State = task.Finished }), nil, task.ErrFenced},
		"unknown":         {task.Task{}, nil, task.ErrUnknown},
	} {
		e, err := task.Decide(c.task, adopt, logtest.Noon)
		if !errors.Is(err, c.err) || !reflect.DeepEqual(e, c.want) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, e, err, c.want, c.err)
		}
		if e == nil {
			continue
		}
		after := task.Evolve(c.task, task.Recorded{Seq: 11, Chain: true, At: logtest.Noon, Event: e})
		if after.Session != "s2" || after.Head != 11 || after.Epoch != 7 || after.State != c.task.State || after.Since != c.task.Since {
			t.Errorf("%s: afterwards %+v", name, after)
		}
	}
	late := task.Evolve(with(func(k *task.Task) { k.Epoch = 9 }), task.Recorded{Seq: 11, Chain: true, At: logtest.Noon, Event: adopted})
	if late.Session != "s1" || late.Head != 11 {
		t.Errorf("a fact of an older epoch made %+v", late)
	}
}

// The node of an attempt that outlives its worker has an AckWait to come back.
func TestOwesWhatOutlivesItsWorker(t *testing.T) {
	gone := logtest.Noon.Add(time.Hour)
	bound := &job.Spec{Run: &job.Run{Shell: "x"}, OnRestart: job.RestartAdopt, Timeout: job.Timeout{Run: value.Duration(time.Hour), Stop: value.Duration(time.Second)}}
	for name, c := range map[string]struct {
		task task.Task
		gone time.Time
		who  string
		by   time.Time
	}{
		"attended":                {task.Task{State: task.Running, StartedAt: logtest.Noon, Work: task.Work{Spec: adopting}}, time.Time{}, "node n1", logtest.Noon.Add(logtest.Settings.AckWait)},
		"alone":                   {task.Task{State: task.Running, StartedAt: logtest.Noon, Work: task.Work{Spec: adopting}}, gone, "scheduler", gone.Add(logtest.Settings.AckWait)},
		"alone, sooner bound":     {task.Task{State: task.Running, StartedAt: logtest.Noon, Work: task.Work{Spec: bound}}, gone, "scheduler", gone.Add(time.Second + task.StopMargin)},
		"alone, being cancelled":  {task.Task{State: task.Cancelling, CancelBy: gone.Add(time.Minute), Work: task.Work{Spec: adopting}}, gone, "scheduler", gone.Add(logtest.Settings.AckWait)},
		"alone, cancelled before": {task.Task{State: task.Cancelling, CancelBy: gone.Add(time.Second), Work: task.Work{Spec: adopting}}, gone, "scheduler", gone.Add(time.Second)},
	} {
		c.task.Node, c.task.Epoch, c.task.Attempt = "n1", 7, 1
		d := duties.Owes(c.task, duties.Surroundings{NodeGone: c.gone}, logtest.Settings)
		if d.Who != c.who || !d.By.Equal(c.by) {
			t.Errorf("%s: %+v, want %s by %v", name, d, c.who, c.by)
		}
		if c.who != "scheduler" {
			continue
		}
		if lose, ok := d.Command.(task.Lose); !ok || lose.Epoch != 7 || d.Look || !strings.Contains(d.What, "comes back") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
