package promises

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// `task ls` and `task show` say the same of a task, in every field that both have: the one asks the
// read model, the other the log.
func TestListAndShowAgree(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Dev()
	c := p.Connect()
	spec := &job.Spec{
		Run:     &job.Run{Shell: `millrace ipc extend 5m --wait; millrace ipc result '{"a":1}'; echo to stderr >&2; exit $MILLRACE_ATTEMPT`, Stdin: job.StdinOpen},
		Timeout: job.Timeout{Run: value.Duration(time.Minute)},
		Retry:   job.Retry{Max: 1, AvoidNode: true, Budget: value.Duration(time.Hour), Min: value.Duration(time.Millisecond)},
	}
	ids := []task.ID{
		p.SubmitAs(c, birth.Submission{Spec: spec, Labels: map[string]string{"a": "<b>"}, Params: map[string]json.RawMessage{"x": json.RawMessage(`"<ü>"`)}}),
		p.SubmitAs(c, birth.Submission{Spec: &job.Spec{Run: &job.Run{Shell: "kill -9 $$"}}}),
		p.SubmitAs(c, birth.Submission{Spec: &job.Spec{Handler: "nobody"}}),
	}
	p.Await(c, ids[0], task.Error)
	p.Await(c, ids[1], task.Error)
	p.Until("the task that nobody can run is passed on and offered again", func() bool { now := p.State(c, ids[2]); return now.Asked != nil && now.Offered })
	var listed struct {
		Tasks []map[string]any `json:"tasks"`
	}
	if err := json.Unmarshal([]byte(p.Run("task", "ls", "--consistent", "-o", "json")), &listed); err != nil {
		t.Fatal(err)
	}
	rows := map[string]map[string]any{}
	for _, row := range listed.Tasks {
		rows[row["id"].(string)] = row
	}
	for _, id := range ids {
		var shown map[string]any
		if err := json.Unmarshal([]byte(p.Run("task", "show", string(id), "-o", "json")), &shown); err != nil {
			t.Fatal(err)
		}
		for _, more := range []string{"suspect", "live", "checkpoint", "attempts", "phases", "evidence"} {
			delete(shown, more)
		}
		if row := rows[string(id)]; !reflect.DeepEqual(row, shown) {
			t.Errorf("task %s\nls   %v\nshow %v", id, row, shown)
		}
	}
}
