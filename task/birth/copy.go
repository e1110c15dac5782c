package birth

import (
	"encoding/json"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// Copy makes the birth of a new task that does the same as t, apart from the changes in s. It keeps
// t's own spec, parameters, labels, queue, priority, group and title, whatever t's job says by now, and
// the inputs that t got from the tasks it needed; the copy itself needs no task. s must not name a
// job or a spec. The new task names t as its original, and t stays as it is. Declared are the
// parameters of t's job as they were declared for t; the parameters in s must fit them.
func Copy(t task.Task, declared []param.Param, s Submission, now time.Time) (task.Submitted, error) {
	if t.Spec == nil {
		return task.Submitted{}, fmt.Errorf("%w: %s has no spec that could be copied", task.ErrUnknown, t.ID)
	}
	if s.Job != "" || s.Spec != nil {
		return task.Submitted{}, fmt.Errorf("a copy of %s runs what that ran: leave job and spec out", t.ID)
	}
	job := job.Job{Name: t.Job, Labels: t.Labels, Queue: t.Route.Queue(), Priority: t.Route.Priority(), Group: t.Group, Spec: *t.Spec}
	if _, own := t.Route.Node(); own || t.Route.Selected() {
		job.Queue = t.FallbackQueue()
	}
	if len(t.Params) > 0 {
		if err := json.Unmarshal(t.Params, &job.Params.Defaults); err != nil {
			return task.Submitted{}, fmt.Errorf("the parameters of %s are no object: %w", t.ID, value.Plainly(err))
		}
	}
	for _, d := range declared {
		d.Optional, d.Default = true, nil // t's own values are already filled in
		job.Params.Declared = append(job.Params.Declared, d)
	}
	if s.FairKey == "" {
		s.FairKey = t.FairKey
	}
	if s.Title == "" {
		s.Title = t.Title
	}
	if s.Parent == "" {
		s.Parent = t.Parent
	}
	e, err := Of(s, &job, t.Revision, now)
	if err != nil {
		return e, err
	}
	e.RetryOf, e.Inputs, e.Step, e.Secrets = t.ID, t.Inputs, t.Step, t.Secrets
	if e.Origin = t.Origin; e.After != "" || e.MadeBy != "" {
		e.Origin = task.Origin{} // that has its task already
	} else if e.Schedule != "" {
		e.Trigger = task.TriggerManual // the tick has its task already
	}
	return e, nil
}
