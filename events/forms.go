package events

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/mailru/easyjson/jlexer"

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
// fact.
type form struct {
	typ   Type
	about subject
	event reflect.Type
	body  body
}

// body reads and writes the fields of an event.
type body interface {
	// write appends the fields of an event of the form's type.
	write(w *fields.Writer, event any)
	// fresh returns a pointer to a zero event, for read and take.
	fresh() any
	// find returns the number of the field with a name, -1 if there is none. It tries the number
	// from first.
	find(name string, from int) int
	// read reads the field with a number.
	read(event any, number int, l *jlexer.Lexer)
	// nulls tells whether null has a meaning in the field with a number.
	nulls(number int) bool
	// take returns the event to which the pointer from fresh points. The pointer is void
	// afterwards.
	take(event any) (any, error)
}

// formOf makes the form of an event.
func formOf[E any](typ Type, about subject) form { return checked[E](typ, about, nil) }

// checked is formOf for an event that is not always a valid fact: check decides, on writing and on
// reading.
func checked[E any](typ Type, about subject, check func(*E) error) form {
	f := &fieldsOf[E]{Form: fields.Of[E](sharedSpecs), check: check, spare: sync.Pool{New: func() any { return new(E) }}}
	return form{typ: typ, about: about, event: reflect.TypeFor[E](), body: f}
}

// sharedSpecs is the option for specs, which go through the cache of all facts.
var sharedSpecs = specs.Field()

// fieldsOf is the body of events of type E.
type fieldsOf[E any] struct {
	*fields.Form[E]
	check func(*E) error // nil if every event is valid
	spare sync.Pool      // of *E: the fields' functions need a value on the heap
}

func (b *fieldsOf[E]) write(w *fields.Writer, event any) {
	e := b.spare.Get().(*E)
	defer b.give(e)
	*e = event.(E)
	if b.check != nil {
		if err := b.check(e); err != nil {
			w.Fail(err)
			return
		}
	}
	b.Write(w, e)
}

func (b *fieldsOf[E]) fresh() any { return b.spare.Get() }

func (b *fieldsOf[E]) find(name string, from int) int { return b.Find(name, from) }

func (b *fieldsOf[E]) read(event any, number int, l *jlexer.Lexer) {
	b.ReadField(l, event.(*E), number)
}

func (b *fieldsOf[E]) nulls(number int) bool { return b.Nulls(number) }

func (b *fieldsOf[E]) take(event any) (any, error) {
	e := event.(*E)
	defer b.give(e)
	if b.check != nil {
		if err := b.check(e); err != nil {
			return nil, err
		}
	}
	return *e, nil
}

func (b *fieldsOf[E]) give(e *E) {
	var zero E
	*e = zero
	b.spare.Put(e)
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
