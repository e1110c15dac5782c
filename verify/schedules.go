package verify

import (
	"encoding/json"
	"fmt"
	"strings"

	"millrace/events"
	"millrace/task"
)

// I-6. No fact of this version speaks of schedules. What the design says of them
// can be checked already: a `schedule.fired` names schedule, tick and the task
// that it made, and a birth may name its schedule and tick. One tick, one task.

const scheduleFired events.Type = "schedule.fired"

// tick is one moment of a schedule, as facts spell it.
type tick struct{ schedule, at string }

// fired reads the tick off a fact that names one.
func (v *Verifier) fired(r *events.Record) {
	f := &r.Fact
	if f.Task == "" || f.Extra == nil || f.Type != scheduleFired && f.Type != events.TaskSubmitted {
		return
	}
	var t tick
	for name, to := range map[string]*string{"schedule": &t.schedule, "tick": &t.at} {
		if json.Unmarshal(f.Extra[name], to) != nil || *to == "" {
			return // a later version may mean something else by it
		}
	}
	made, known := v.ticks[t]
	if !known {
		v.checked[OneTask]++
		v.ticks[t] = task.ID(strings.Clone(string(f.Task)))
		return
	}
	if made != f.Task {
		id := task.ID(strings.Clone(string(f.Task)))
		v.find(OneTask, Finding{Task: id, Seqs: []uint64{r.Seq},
			What: fmt.Sprintf("the tick %s of schedule %s made task %s, and before that task %s", t.at, t.schedule, id, made),
			Look: fmt.Sprintf("`millrace task events %s` and `millrace task events %s`", made, id)})
	}
}
