package events

import (
	"errors"
	"fmt"

	"millrace/node"
	"millrace/task"
	"millrace/task/breaker"
	"millrace/task/definition"
	"millrace/task/queue"
	"millrace/task/unique"
)

// forms are the forms of all facts: the type and the subject of each event. The tags of the event
// give its fields and their names. docs/wire.md and the schemas explain them.
var forms = []form{
	checked(TaskSubmitted, aboutTask, func(e *task.Submitted) error { return complete(&e.Work) }),
	checked(TaskQueued, aboutTask, func(e *task.Queued) error { return complete(&e.Work) }),
	checked(TaskDue, aboutTask, func(e *task.Due) error { return e.Route.Validate() }),
	formOf[task.AttemptStarted](AttemptStarted, aboutTask),
	formOf[task.AttemptFinished](AttemptFinished, aboutTask),
	formOf[task.AttemptFailed](AttemptFailed, aboutTask),
	formOf[task.AttemptReleased](AttemptReleased, aboutTask),
	formOf[task.AttemptLost](AttemptLost, aboutTask),
	formOf[task.AttemptLate](AttemptLate, aboutTask),
	formOf[task.AttemptExtended](AttemptExtended, aboutTask),
	formOf[task.AttemptAdopted](AttemptAdopted, aboutTask),
	formOf[task.CancelRequested](TaskCancelRequested, aboutTask),
	formOf[task.CancelConfirmed](TaskCancelled, aboutTask),
	formOf[task.GivenUp](TaskAbnormal, aboutTask),
	checked(TaskReassigned, aboutTask, func(e *task.Reassigned) error { return e.To.Validate() }),
	formOf[task.Postponed](TaskPostponed, aboutTask),
	formOf[task.Throttled](TaskThrottled, aboutTask),
	formOf[task.Reopened](TaskReopened, aboutTask),
	formOf[task.Unheld](TaskUnheld, aboutTask),
	formOf[task.Expanded](TaskExpanded, aboutTask),
	checked(TaskConcluded, aboutTask, conclusive),
	formOf[task.Dismissed](TaskDismissed, aboutTask),
	formOf[task.Granted](LimitGranted, aboutScope),
	formOf[definition.CopiesRestored](CopiesRestored, aboutNothing),
	formOf[unique.KeyClaimed](UniqueClaimed, aboutKey),
	formOf[breaker.Opened](BreakerOpened, aboutJob),
	formOf[breaker.HalfOpened](BreakerHalfOpened, aboutJob),
	formOf[breaker.Tried](BreakerTried, aboutJob),
	formOf[breaker.Closed](BreakerClosed, aboutJob),
	formOf[task.MessageDismissed](MessageDismissed, aboutMessage),
	formOf[definition.DefinitionApplied](DefinitionApplied, aboutDef),
	formOf[definition.DefinitionRemoved](DefinitionRemoved, aboutDef),
	formOf[queue.Paused](QueuePaused, aboutQueue),
	formOf[queue.Resumed](QueueResumed, aboutQueue),
	formOf[queue.Limited](QueueLimited, aboutQueue),
	formOf[queue.Purged](QueuePurged, aboutQueue),
	formOf[definition.SchedulePaused](SchedulePaused, aboutDef),
	formOf[definition.ScheduleResumed](ScheduleResumed, aboutDef),
	formOf[definition.ScheduleFired](ScheduleFired, aboutSchedule),
	formOf[definition.ScheduleAdmitted](ScheduleAdmitted, aboutSchedule),
	formOf[definition.ScheduleSkipped](ScheduleSkipped, aboutSchedule),
	formOf[definition.ScheduleQueued](ScheduleQueued, aboutSchedule),
	formOf[node.Registered](NodeRegistered, aboutNode),
	formOf[node.WentOnline](NodeOnline, aboutNode),
	formOf[node.BecameReady](NodeReady, aboutNode),
	formOf[node.Drained](NodeDraining, aboutNode),
	formOf[node.WentOffline](NodeOffline, aboutNode),
	checked(NodeChanged, aboutNode, possible),
	formOf[node.WasQuarantined](NodeQuarantined, aboutNode),
	formOf[node.WasReleased](NodeReleased, aboutNode),
	formOf[node.WasRetired](NodeRetired, aboutNode),
	formOf[node.Labelled](NodeLabelled, aboutNode),
}

// complete refuses work that no node could run.
func complete(w *task.Work) error {
	if w.Spec == nil {
		return errors.New("the task has no spec")
	}
	return w.Route.Validate()
}

// conclusive refuses an end in a state that is not terminal.
func conclusive(e *task.Concluded) error {
	if !e.State.Terminal() {
		return fmt.Errorf("a parent does not end as %s", e.State)
	}
	return nil
}

// possible refuses an order that does not exist.
func possible(e *node.Changed) error {
	if e.Order > node.OrderDrain {
		return fmt.Errorf("there is no %s", e.Order)
	}
	return nil
}
