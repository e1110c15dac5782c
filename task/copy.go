package task

import (
	"encoding/json"
	"fmt"
	"time"

	"millrace/task/job"
	"millrace/task/param"
)

// Copy makes the birth of a new task that does what t does, as far as s does not
// change it: with t's own spec, parameters, labels, queue, priority and group, whatever its job says
// by now, and with what t was told by those that it needed; it needs nobody. Of s the job and the spec are not asked for. The new task names t as
// the one of which it is a copy, and t stays as it is. Declared are the parameters of t's job as they were declared for t:
// what s changes of them has to fit.
func Copy(t Task, declared []param.Param, s Submission, now time.Time) (Submitted, error) {
	if t.Spec == nil {
		return Submitted{}, fmt.Errorf("%w: %s has no spec that could be copied", ErrUnknown, t.ID)
	}
	if s.Job != "" || s.Spec != nil {
		return Submitted{}, fmt.Errorf("a copy of %s runs what that ran: leave job and spec out", t.ID)
	}
	job := job.Job{Name: t.Job, Labels: t.Labels, Queue: t.Route.Queue(), Priority: t.Route.Priority(), Group: t.Group, Spec: *t.Spec}
	if _, own := t.Route.Node(); own || t.Route.Selected() {
		job.Queue = t.sharedName()
	}
	if len(t.Params) > 0 {
		if err := json.Unmarshal(t.Params, &job.Params.Defaults); err != nil {
			return Submitted{}, fmt.Errorf("the parameters of %s are no object: %w", t.ID, err)
		}
	}
	for _, d := range declared {
		d.Optional, d.Default = true, nil // what t had it has
		job.Params.Declared = append(job.Params.Declared, d)
	}
	if s.FairKey == "" {
		s.FairKey = t.FairKey
	}
	if s.Parent == "" {
		s.Parent = t.Parent
	}
	e, err := Birth(s, &job, t.Revision, now)
	if err != nil {
		return e, err
	}
	e.RetryOf, e.Inputs, e.Step, e.Secrets = t.ID, t.Inputs, t.Step, t.Secrets
	if e.Origin = t.Origin; e.Schedule != "" {
		e.Trigger = TriggerManual // the tick has its task already
	}
	return e, nil
}
