package triggers

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
)

// The task that follows is told of the end by the parameters that its job declares, and two servers make the same.
func TestFollowing(t *testing.T) {
	ended := task.Task{Work: task.Work{Job: "extract"}, ID: "01K9XA7F3BQZ8M4T2VJ6C0DPRN", State: task.Error, Reason: "exit", Message: "code 3", Result: json.RawMessage(`{"rows":7}`)}
	by := task.Origin{Trigger: task.TriggerEnd, Tick: time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC), After: ended.ID, Ended: 12}
	for name, c := range map[string]struct {
		declared []string
		want     string
	}{
		"all of it":     {nil, `{"payload":{"task":"01K9XA7F3BQZ8M4T2VJ6C0DPRN","job":"extract","state":"error","reason":"exit","message":"code 3","result":{"rows":7}}}`},
		"what it names": {[]string{"result", "state", "other"}, `{"result":{"rows":7},"state":"error"}`},
	} {
		t.Run(name, func(t *testing.T) {
			of := job.Job{Name: "load"}
			for _, name := range c.declared {
				of.Params.Declared = append(of.Params.Declared, param.Param{Name: name})
			}
			s, err := Following(&of, &ended, by)
			got, _ := json.Marshal(s.Params)
			if err != nil || string(got) != c.want {
				t.Errorf("the parameters are %s (%v), want %s", got, err, c.want)
			}
			again, _ := Following(&of, &ended, by)
			by := by
			by.Ended++
			if later, _ := Following(&of, &ended, by); !s.ID.Derived() || s.ID != again.ID || later.ID == s.ID || s.Origin.After != ended.ID {
				t.Errorf("ids are %s, again %s, of a later end %s", s.ID, again.ID, later.ID)
			}
		})
	}
}
