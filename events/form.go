package events

import (
	"reflect"
	"sync"

	"github.com/mailru/easyjson/jlexer"
)

// subject is a kind of thing that a fact can be about.
type subject uint8

// The subjects. A fact about the limits as such names nothing.
const (
	aboutLimits subject = iota
	aboutTask
	aboutNode
	aboutJob
	aboutQueue
	aboutSchedule
	aboutKey
	aboutMessage
	subjects // their number
)

// name is the field that holds what a fact is about, "" if there is none.
func (s subject) name() string {
	return [subjects]string{"", "task", "node", "job", "queue", "schedule", "key", "seq"}[s]
}

// form is how the facts of one type are written: what they are about, and the
// fields that they have beside those of every fact.
type form struct {
	typ   Type
	about subject
	event reflect.Type
	names []string // of the fields, in the order in which they are written
	body  body
}

// body reads and writes the fields of an event.
type body interface {
	// write appends the fields of an event of the form's type.
	write(o *object, event any)
	// fresh returns a pointer to a zero event, for read and take.
	fresh() any
	// read reads the field of a number.
	read(event any, number int, l *jlexer.Lexer)
	// nulls tells whether null means something in the field of a number.
	nulls(number int) bool
	// take returns the event to which fresh has given a pointer, which is void afterwards.
	take(event any) (any, error)
}

// field is one field of an event of type E.
type field[E any] struct {
	name string
	// write appends the field; an empty one is left out.
	write func(o *object, e *E)
	read  func(l *jlexer.Lexer, e *E)
	// null is whether null is a value of the field. Otherwise it means that the field is not there.
	null bool
}

// formOf makes a form of the fields of an event.
func formOf[E any](typ Type, about subject, list ...field[E]) form {
	return checked(typ, about, nil, list...)
}

// checked is formOf for an event that is not always fit to be a fact: check says so
// whenever one is written or read.
func checked[E any](typ Type, about subject, check func(*E) error, list ...field[E]) form {
	f := form{typ: typ, about: about, event: reflect.TypeFor[E]()}
	for _, one := range list {
		f.names = append(f.names, one.name)
	}
	f.body = &fieldsOf[E]{list: list, check: check, spare: sync.Pool{New: func() any { return new(E) }}}
	return f
}

// fieldsOf is the body of events of type E.
type fieldsOf[E any] struct {
	list  []field[E]
	check func(*E) error // nil if every event will do
	spare sync.Pool      // of *E: what a field's functions work on lies on the heap
}

func (b *fieldsOf[E]) write(o *object, event any) {
	e := b.spare.Get().(*E)
	defer b.give(e)
	*e = event.(E)
	if b.check != nil {
		if err := b.check(e); err != nil {
			o.fail(err)
			return
		}
	}
	for i := range b.list {
		b.list[i].write(o, e)
	}
}

func (b *fieldsOf[E]) fresh() any { return b.spare.Get() }

func (b *fieldsOf[E]) read(event any, number int, l *jlexer.Lexer) {
	b.list[number].read(l, event.(*E))
}

func (b *fieldsOf[E]) nulls(number int) bool { return b.list[number].null }

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

// find returns the number of a field, -1 if the form has none of that name. It
// looks from a number on, and then at those before: what we write comes in order.
func (f *form) find(name string, from int) int {
	for i := from; i < len(f.names); i++ {
		if f.names[i] == name {
			return i
		}
	}
	for i := range min(from, len(f.names)) {
		if f.names[i] == name {
			return i
		}
	}
	return -1
}

// formByType and formByEvent find a form by what it is the form of.
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

// TypeOf returns the type of an event, or "" if it is none of ours.
func TypeOf(event any) Type {
	if f := formByEvent[reflect.TypeOf(event)]; f != nil {
		return f.typ
	}
	return ""
}

func known(t Type) bool { return formByType[t] != nil }
