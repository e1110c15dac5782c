package duties

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// heldDuty says which component opens the holds of a task.
func heldDuty(t task.Task, around Surroundings, s Settings) Duty {
	if !slices.Contains(t.Holds, task.HoldNeeds) && slices.Contains(t.Holds, task.HoldSignal) {
		return signalDuty(t, around, s)
	}
	if t.Throttled {
		return awaited(t, around, s, Duty{Who: "scheduler", What: fmt.Sprintf("offer it when the rate of queue %q admits it (`millrace queue limit %[1]s --rate`)", t.QueueName())})
	}
	d := Duty{Who: "scheduler", What: "offer it when what holds it has opened: " + strings.Join(t.Holds, ", ")}
	if t.Needs != nil && slices.Contains(t.Holds, task.HoldNeeds) {
		d.What = "offer it when it has got what it needs: " + t.Needs.String()
		if waits := t.Waits(); waits != nil {
			d.What = "offer it when its children have ended, for it " + waits.Words() + ": " + t.Needs.String()
		}
	}
	return awaited(t, around, s, d)
}

// SignalBy is the deadline of the signal that holds the task; zero if there is no deadline, or if
// another hold comes first.
func SignalBy(t *task.Task) time.Time {
	if t.State != task.Held || !slices.Contains(t.Holds, task.HoldSignal) || slices.Contains(t.Holds, task.HoldNeeds) {
		return time.Time{}
	}
	signal := t.Signal()
	if signal == nil || signal.Timeout == 0 {
		return time.Time{}
	}
	return value.Later(t.Since, t.Due).Add(signal.Timeout.Std())
}

// signalDuty says who gives the signal for which a task waits.
func signalDuty(t task.Task, around Surroundings, s Settings) Duty {
	signal, policy := t.Signal(), job.SignalExpire
	if signal != nil {
		policy = cmp.Or(signal.OnTimeout, policy)
	}
	name, answers := signal.Called(), ""
	if signal != nil {
		for _, asked := range signal.Form {
			if asked.Default == nil && !asked.Optional {
				answers += " --answer " + asked.Name + "=…"
			}
		}
	}
	d := Duty{Who: operator, What: fmt.Sprintf("give approval %q (`millrace task approve %s%s`), or refuse it (`millrace task reject %[2]s`)", name, t.ID, answers)}
	if t.Spec.Monitors() {
		d = Duty{Who: "monitored program", What: "ping: `millrace ping " + t.Job + "`, or over HTTP /ping/" + t.Job}
	}
	if asked := signal.Asked(); asked != "" {
		d.What += "; only " + asked + " may"
	}
	by := SignalBy(&t)
	if by.IsZero() {
		return awaited(t, around, s, d)
	}
	late := fmt.Sprintf("signal %q did not come by %s", name, value.Clock(by))
	if d.By = by; policy == job.SignalGoOn {
		d.Else, d.Command = "it goes on without", task.Unhold{Hold: task.HoldSignal, Reason: late}
		if t.Spec.Monitors() {
			d.Else = "it ends as error/silent"
		}
		return d
	}
	d.Else, d.Command = "it ends as abnormal/expired", task.Expire{Detail: late}
	return d
}
