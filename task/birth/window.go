package birth

import (
	"time"

	"millrace/task"
	"millrace/task/job"
)

// Windowed tells whether the birth waits for its window. A task with another hold is checked when
// it is offered, and for a parent each child is checked.
func Windowed(e *task.Submitted) bool {
	return e.Spec.Window != "" && !e.Spec.Parental() && !e.WaitsForOthers()
}

// Await makes the birth wait until its window opens. The bounds on its waiting time begin then.
func Await(e *task.Submitted, opens time.Time, shut task.Shut) {
	e.Due, e.Window = opens, &shut
	e.StartBy, e.EndBy = time.Time{}, time.Time{}
	bound(e, opens)
}

// Windows returns the windows of the tasks that a submission makes, steps included; of is the spec
// of its job, nil if it has none.
func (s *Submission) Windows(of *job.Spec) []string {
	switch {
	case s.Spec != nil:
		of = s.Spec
	case of == nil:
		of = &job.Spec{}
	}
	if s.Window == nil {
		return of.Windows()
	}
	is := *of
	is.Window = *s.Window
	return is.Windows()
}
