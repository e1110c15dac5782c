package task

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/value"
)

var adopting = &Spec{Run: &Run{Shell: "x"}, OnRestart: RestartAdopt}

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
	bound := &Spec{Run: &Run{Shell: "x"}, OnRestart: RestartAdopt, Timeout: Timeout{Run: value.Duration(time.Hour), Stop: value.Duration(time.Second)}}
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

func TestValidateOnRestart(t *testing.T) {
	run := &Run{Shell: "x"}
	files := func(mode string) *Files {
		return &Files{Bundle: "b@9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Mode: mode}
	}
	for name, c := range map[string]struct {
		spec Spec
		want string // in the error; "" for none
	}{
		"adopt":             {Spec{Run: run, OnRestart: RestartAdopt}, ""},
		"stop":              {Spec{Handler: "h", OnRestart: RestartStop, OnDisconnect: DisconnectContinue}, ""},
		"unknown":           {Spec{Run: run, OnRestart: "go_on"}, "want stop or adopt"},
		"a handler":         {Spec{Handler: "h", OnRestart: RestartAdopt}, "for commands"},
		"without an end":    {Spec{Run: run, OnRestart: RestartAdopt, OnDisconnect: DisconnectContinue}, "choose one"},
		"shared files":      {Spec{Run: run, OnRestart: RestartAdopt, Files: files(FilesShared)}, "copy or link"},
		"files of its own":  {Spec{Run: run, OnRestart: RestartAdopt, Files: files(FilesLink)}, ""},
		"files, as default": {Spec{Run: run, OnRestart: RestartAdopt, Files: files("")}, ""},
	} {
		err := c.spec.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
