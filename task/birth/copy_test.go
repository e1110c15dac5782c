package birth_test

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/value"
)

func TestCopy(t *testing.T) {
	k := logtest.Given(logtest.InError...)
	k.Route, k.Inputs = "default.8", json.RawMessage(`{"c":3}`)
	k.Needs = &task.Needs{Of: []task.Need{{Task: "x"}}}
	k.Labels = map[string]string{"a": "1"}
	run, none := value.Duration(time.Hour), 0
	e, err := birth.Copy(k, nil, birth.Submission{
		Params: map[string]json.RawMessage{"b": json.RawMessage("2")}, Labels: map[string]string{"b": "2"}, Run: &run, Retries: &none, Delay: value.Duration(time.Minute),
	}, logtest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	if e.RetryOf != k.ID || e.Job != "j" || e.Revision != 3 || e.Group != "g" || e.Needs != nil || len(e.Holds) > 0 || string(e.Inputs) != string(k.Inputs) || e.Route != k.Route || !e.Due.Equal(logtest.Noon.Add(time.Minute)) {
		t.Errorf("the copy is %+v", e)
	}
	if string(e.Params) != `{"a":1,"b":2}` || len(e.Labels) != 2 || e.Spec.Timeout.Run != run || e.Spec.Retry.Max != 0 || e.Spec.Timeout.Stop != k.Spec.Timeout.Stop {
		t.Errorf("the copy has params %s, labels %v, spec %+v", e.Params, e.Labels, e.Spec)
	}
	if k.Spec.Retry.Max != 2 || len(k.Labels) != 1 {
		t.Errorf("the original was changed: %+v", k.Spec)
	}
	if back := logtest.Given(e); back.RetryOf != k.ID {
		t.Errorf("the new task is a copy of %q", back.RetryOf)
	}
	own := k
	own.Route = "@n1.5"
	if e, err = birth.Copy(own, nil, birth.Submission{}, logtest.Noon); err != nil || e.Route != "default.5" { // "@n1.5" has that priority
		t.Errorf("of a task on a node's route: %s, %v", e.Route, err)
	}
	for name, c := range map[string]struct {
		task task.Task
		s    birth.Submission
		want string
	}{
		"no spec":         {task.Task{ID: "t"}, birth.Submission{}, "t has no spec"},
		"another job":     {k, birth.Submission{Job: "x"}, "leave job and spec out"},
		"another spec":    {k, birth.Submission{Spec: logtest.Spec}, "leave job and spec out"},
		"wrong in itself": {k, birth.Submission{Queue: "a b"}, "queue name"},
	} {
		_, err := birth.Copy(c.task, nil, c.s, logtest.Noon)
		logtest.CheckError(t, name, err, c.want)
	}
}
