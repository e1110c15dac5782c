package events

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	fields "millrace/internal/form"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
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
	formOf[task.AttemptStepped](AttemptStepped, aboutTask),
	formOf[task.AttemptParked](AttemptParked, aboutTask),
	formOf[task.AttemptAdopted](AttemptAdopted, aboutTask),
	formOf[task.CancelRequested](TaskCancelRequested, aboutTask),
	formOf[task.CancelConfirmed](TaskCancelled, aboutTask),
	formOf[task.GivenUp](TaskAbnormal, aboutTask),
	checked(TaskReassigned, aboutTask, func(e *task.Reassigned) error { return e.To.Validate() }),
	formOf[task.Postponed](TaskPostponed, aboutTask),
	formOf[task.Collapsed](TaskCollapsed, aboutTask),
	formOf[task.Throttled](TaskThrottled, aboutTask),
	formOf[task.Reopened](TaskReopened, aboutTask),
	formOf[task.Unheld](TaskUnheld, aboutTask),
	formOf[task.Expanded](TaskExpanded, aboutTask),
	checked(TaskConcluded, aboutTask, conclusive),
	formOf[task.Dismissed](TaskDismissed, aboutTask),
	formOf[task.Granted](LimitGranted, aboutScope),
	formOf[task.CopiesRestored](CopiesRestored, aboutNothing),
	formOf[birth.KeyClaimed](UniqueClaimed, aboutKey),
	formOf[limit.Opened](BreakerOpened, aboutJob),
	formOf[limit.HalfOpened](BreakerHalfOpened, aboutJob),
	formOf[limit.Tried](BreakerTried, aboutJob),
	formOf[limit.Closed](BreakerClosed, aboutJob),
	formOf[task.MessageDismissed](MessageDismissed, aboutMessage),
	formOf[task.DefinitionApplied](DefinitionApplied, aboutDef),
	formOf[task.DefinitionRemoved](DefinitionRemoved, aboutDef),
	formOf[queue.Paused](QueuePaused, aboutQueue),
	formOf[queue.Resumed](QueueResumed, aboutQueue),
	formOf[queue.Limited](QueueLimited, aboutQueue),
	formOf[queue.Purged](QueuePurged, aboutQueue),
	formOf[task.SchedulePaused](SchedulePaused, aboutDef),
	formOf[task.ScheduleResumed](ScheduleResumed, aboutDef),
	formOf[task.ScheduleFired](ScheduleFired, aboutSchedule),
	formOf[task.ScheduleAdmitted](ScheduleAdmitted, aboutSchedule),
	formOf[task.ScheduleSkipped](ScheduleSkipped, aboutSchedule),
	formOf[task.ScheduleQueued](ScheduleQueued, aboutSchedule),
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
	checked(TaskCarried, aboutTask, func(e *task.Carried) error { return complete(&e.Fold.Work) }),
	formOf[task.Kept](TaskKept, aboutTask),
	formOf[node.Carried](NodeCarried, aboutNode),
	formOf[queue.Carried](QueueCarried, aboutQueue),
	formOf[task.DefinitionCarried](DefinitionCarried, aboutDef),
	formOf[task.HorizonChosen](HorizonChosen, aboutNothing),
	formOf[task.HorizonSealed](HorizonSealed, aboutNothing),
	formOf[task.HorizonCarried](HorizonCarried, aboutNothing),
	formOf[task.HorizonPurged](HorizonPurged, aboutNothing),
	formOf[task.ArchiveRemoved](ArchiveRemoved, aboutNothing),
	formOf[task.JobTallied](JobTallied, aboutJob),
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

// subject is a kind of subject of facts.
type subject uint8

// The subjects. Facts about copies of definitions and about the horizon name none.
const (
	aboutNothing subject = iota
	aboutTask
	aboutNode
	aboutDef
	aboutJob
	aboutQueue
	aboutSchedule
	aboutKey
	aboutMessage
	aboutScope
	subjects // their number
)

// name is the field with the subject of a fact; "" if there is none.
func (s subject) name() string {
	return [subjects]string{"", "task", "node", "def", "job", "queue", "schedule", "key", "seq", "scope"}[s]
}

// form is the form of facts of one type: their subject, and their fields beside those of every
// fact. It is the same code for all types: what is made for each of sixty is most of a small program.
type form struct {
	*fields.Any
	typ   Type
	about subject
	event reflect.Type
	check func(event any) error // of a pointer to an event; nil if every event is valid
	spare *sync.Pool            // of pointers to events: the fields' functions need a value on the heap
}

// formOf makes the form of an event.
func formOf[E any](typ Type, about subject) form { return makeForm(typ, about, reflect.TypeFor[E]()) }

// checked is formOf for an event that is not always a valid fact: check decides, on writing and on
// reading.
func checked[E any](typ Type, about subject, check func(*E) error) form {
	f := formOf[E](typ, about)
	f.check = func(event any) error { return check(event.(*E)) }
	return f
}

func makeForm(typ Type, about subject, event reflect.Type) form {
	return form{typ: typ, about: about, event: event, Any: fields.OfType(event, sharedSpecs), spare: &sync.Pool{
		New: func() any { return reflect.New(event).Interface() },
	}}
}

// sharedSpecs is the option for specs, which go through the cache of all facts.
var sharedSpecs = specs.Field()

// write appends the fields of an event.
func (f *form) write(w *fields.Writer, event any) {
	e := f.fresh()
	is := reflect.ValueOf(e).Elem()
	defer f.give(e, is)
	is.Set(reflect.ValueOf(event))
	if f.check != nil {
		if err := f.check(e); err != nil {
			w.Fail(err)
			return
		}
	}
	f.Write(w, e)
}

// fresh returns a pointer to a zero event, for ReadField and take.
func (f *form) fresh() any { return f.spare.Get() }

// take returns the event to which the pointer from fresh points. The pointer is void afterwards.
func (f *form) take(e any) (any, error) {
	is := reflect.ValueOf(e).Elem()
	defer f.give(e, is)
	if f.check != nil {
		if err := f.check(e); err != nil {
			return nil, err
		}
	}
	return is.Interface(), nil
}

func (f *form) give(e any, is reflect.Value) {
	is.SetZero()
	f.spare.Put(e)
}

// formByType and formByEvent find a form by its type and by its event.
var formByType, formByEvent = func() (map[Type]*form, map[reflect.Type]*form) {
	types, events := map[Type]*form{}, map[reflect.Type]*form{}
	for i := range forms {
		types[forms[i].typ], events[forms[i].event] = &forms[i], &forms[i]
	}
	return types, events
}()

// Types lists all types of facts.
var Types = func() (all []Type) {
	for i := range forms {
		all = append(all, forms[i].typ)
	}
	return all
}()

// TypeOf returns the type of an event, or "" if it is not an event of this package's facts.
func TypeOf(event any) Type {
	if f := formByEvent[reflect.TypeOf(event)]; f != nil {
		return f.typ
	}
	return ""
}

func known(t Type) bool { return formByType[t] != nil }
