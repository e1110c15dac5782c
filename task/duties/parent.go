package duties

import (
	"fmt"

	"millrace/task"
	"millrace/task/birth"
)

// parentDuty says which component must act on a parent.
func parentDuty(t task.Task, around Surroundings, s Settings) Duty {
	d := Duty{Who: "its children", By: looked(t.Since, around).Add(s.look()), Look: true,
		Else: "the sweep of any scheduler looks whether all of them have ended"}
	_, own := birth.OwnChildren(&t)
	switch {
	case t.Children == nil && own:
		d.Who, d.What = "scheduler", "make its children: the submitter has not"
	case t.Children == nil:
		d.Who, d.What = "scheduler", "find out which nodes it is meant for: the submitter has not"
	case t.State == task.Cancelling:
		d.What = fmt.Sprintf("stop, %s; then it is cancelled", allOf(len(t.Children.Names)))
	case len(t.Children.Names) == 0 && t.Spec.Includes():
		d.Who, d.What = operator, "start a worker that matches: it includes nodes that come late, and none has come"
	default:
		d.What = fmt.Sprintf("end, %s; it has ended with the last", allOf(len(t.Children.Names)))
	}
	return d
}

func allOf(n int) string {
	if n == 1 {
		return "the one there is"
	}
	return fmt.Sprintf("all %d of them", n)
}
