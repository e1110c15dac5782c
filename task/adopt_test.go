package task

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

var adopting = &job.Spec{Run: &job.Run{Shell: "x"}, OnRestart: job.RestartAdopt}

func TestAdopt(t *testing.T) {
	running := Task{State: Running, Epoch: 7, Attempt: 2, Node: "n1", Session: "s1"}
	with := func(change func(*Task)) Task {
		k := running
		change(&k)
		return k
	}
	adopt := Adopt{Epoch: 7, Node: "n1", Session: "s2", PID: 42, Gap: value.Duration(time.Second)}
	adopted := AttemptAdopted{Attempt: 2, Epoch: 7, Node: "n1", Session: "s2", PID: 42, Gap: value.Duration(time.Second)}
	for name, c := range map[string]struct {
		task Task
		want Event
		err  error
	}{
		"its own":         {running, adopted, nil},
		"being cancelled": {with(func(k *Task) { k.State = Cancelling }), adopted, nil},
		"already":         {with(func(k *Task) { k.Session = "s2" }), nil, nil},
		"taken over":      {with(func(k *Task) { k.Epoch = 9 }), nil, ErrFenced},
		"another node's":  {with(func(k *Task) { k.Node = "n2" }), nil, ErrFenced},
		"lost":            {with(func(k *Task) { k.State = Pending }), nil, ErrFenced},
		"finished":        {with(func(k *Task) { k.State = Finished }), nil, ErrFenced},
		"unknown":         {Task{}, nil, ErrUnknown},
	} {
		e, err := Decide(c.task, adopt, noon)
		if !errors.Is(err, c.err) || !reflect.DeepEqual(e, c.want) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, e, err, c.want, c.err)
		}
		if e == nil {
			continue
		}
		after := Evolve(c.task, Recorded{Seq: 11, Chain: true, At: noon, Event: e})
		if after.Session != "s2" || after.Head != 11 || after.Epoch != 7 || after.State != c.task.State || after.Since != c.task.Since {
			t.Errorf("%s: afterwards %+v", name, after)
		}
	}
	late := Evolve(with(func(k *Task) { k.Epoch = 9 }), Recorded{Seq: 11, Chain: true, At: noon, Event: adopted})
	if late.Session != "s1" || late.Head != 11 {
		t.Errorf("a fact of an older epoch made %+v", late)
	}
}

// The node of an attempt that outlives its worker has an AckWait to come back.
func TestOwesWhatOutlivesItsWorker(t *testing.T) {
	gone := noon.Add(time.Hour)
	bound := &job.Spec{Run: &job.Run{Shell: "x"}, OnRestart: job.RestartAdopt, Timeout: job.Timeout{Run: value.Duration(time.Hour), Stop: value.Duration(time.Second)}}
	for name, c := range map[string]struct {
		task Task
		gone time.Time
		who  string
		by   time.Time
	}{
		"attended":                {Task{State: Running, StartedAt: noon, Work: Work{Spec: adopting}}, time.Time{}, "node n1", noon.Add(settings.AckWait)},
		"alone":                   {Task{State: Running, StartedAt: noon, Work: Work{Spec: adopting}}, gone, "scheduler", gone.Add(settings.AckWait)},
		"alone, sooner bound":     {Task{State: Running, StartedAt: noon, Work: Work{Spec: bound}}, gone, "scheduler", gone.Add(time.Second + StopMargin)},
		"alone, being cancelled":  {Task{State: Cancelling, CancelBy: gone.Add(time.Minute), Work: Work{Spec: adopting}}, gone, "scheduler", gone.Add(settings.AckWait)},
		"alone, cancelled before": {Task{State: Cancelling, CancelBy: gone.Add(time.Second), Work: Work{Spec: adopting}}, gone, "scheduler", gone.Add(time.Second)},
	} {
		c.task.Node, c.task.Epoch, c.task.Attempt = "n1", 7, 1
		d := Owes(c.task, Surroundings{NodeGone: c.gone}, settings)
		if d.Who != c.who || !d.By.Equal(c.by) {
			t.Errorf("%s: %+v, want %s by %v", name, d, c.who, c.by)
		}
		if c.who != "scheduler" {
			continue
		}
		if lose, ok := d.Command.(Lose); !ok || lose.Epoch != 7 || d.Look || !strings.Contains(d.What, "comes back") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
