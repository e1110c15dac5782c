package promises

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
)

// A worker may place births and offers in any queue. None that it forges under the id of a task that
// is due later, or that needs another one, starts it early, or with other work or inputs.
func TestForgeriesStartNothing(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("forged offers stand where the sweep looks")
	p.Dev("--name", "here")
	c, js := p.Connect(), p.JetStream()
	log, err := js.Stream(t.Context(), "MR_LOG")
	if err != nil {
		t.Fatal(err)
	}
	first := p.Submit(harness.StayUntilGo, "--dir", p.Dir)
	p.Await(c, first, task.Running)
	held := p.Submit("true", "--needs", string(first))
	later := p.Submit("true", "--delay", "1h")
	bounded := p.Submit("true", "--delay", "1h", "--concurrency", "1")
	evil := filepath.Join(p.Dir, "evil")
	for _, id := range []task.ID{held, later, bounded} {
		born, err := log.GetLastMsgForSubject(t.Context(), "mr.task."+string(id))
		if err != nil {
			t.Fatal(err)
		}
		var birth map[string]any
		if err := json.Unmarshal(born.Data, &birth); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"holds", "due", "needs"} {
			delete(birth, field)
		}
		birth["inputs"] = map[string]any{"a": 1}
		forge := func(typ string, more map[string]any) {
			m := maps.Clone(birth)
			m["type"] = typ
			maps.Copy(m, more)
			body, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), "mr.queue.default.5."+string(id), body); err != nil {
				t.Fatal(err)
			}
		}
		other := map[string]any{"run": map[string]any{"shell": "touch " + evil}}
		forge("task.submitted", map[string]any{"spec": other})
		for _, after := range []uint64{0, born.Sequence} {
			forge("task.queued", map[string]any{"attempt": 1, "after": after})
			forge("task.queued", map[string]any{"attempt": 1, "after": after, "spec": other})
		}
	}
	p.Await(c, p.Submit("true"), task.Finished) // it comes behind them
	for id, want := range map[task.ID]task.State{held: task.Held, later: task.Scheduled, bounded: task.Held} {
		if k, err := c.Task(t.Context(), id); err != nil || k.State != want || k.Attempt != 0 || k.Inputs != nil {
			t.Errorf("it is %s with %s after %d attempts (%v), want %s", k.State, k.Inputs, k.Attempt, err, want)
		}
	}
	p.Write("go", "")
	p.Await(c, held, task.Finished)
	if _, err := os.Stat(evil); err == nil {
		t.Error("another command ran")
	}
}
