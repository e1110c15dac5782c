package form

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/mailru/easyjson/jlexer"
)

// Form is the JSON form of values of the struct type T. It is safe for concurrent use.
type Form[T any] struct{ Any }

// Any is [Form] for a struct type of which only the program that runs knows. What is here a program has once,
// and not once for each type. Its values are pointers to such structs.
type Any struct {
	of      reflect.Type
	options []Option
	once    sync.Once
	made    *object // set by once
}

// Option changes the treatment of some fields.
type Option func(*compiler)

// Of is the form of a type. It analyses the type on first use, because many processes need none. It
// then panics if a field's type is unsupported, or if two fields have one name. So every form
// should be used by a test.
func Of[T any](options ...Option) *Form[T] {
	return &Form[T]{Any{of: reflect.TypeFor[T](), options: options}}
}

// OfType is [Of] for [Any].
func OfType(t reflect.Type, options ...Option) *Any { return &Any{of: t, options: options} }

func (f *Any) object() *object {
	f.once.Do(f.make)
	return f.made
}

func (f *Any) make() {
	c := &compiler{kinds: map[reflect.Type]codec{}, objects: map[reflect.Type]*object{}}
	for _, o := range f.options {
		o(c)
	}
	t := f.of
	if t.Kind() != reflect.Struct {
		wrong("%s is no struct", t)
	}
	o := c.object(t)
	for _, name := range c.without {
		i := slices.IndexFunc(o.fields, func(f field) bool { return f.name == name })
		if i < 0 {
			wrong("%s has no field %s that could be left out", t, name)
		}
		o.fields = slices.Delete(o.fields, i, i+1)
	}
	o.seal()
	f.made = o
}

// wrong ends the program at a type that has no form, which the first test of the type shows.
func wrong(format string, args ...any) { panic("form: " + fmt.Sprintf(format, args...)) }

// Without leaves out fields of the type itself: they are neither written nor known.
func Without(names ...string) Option {
	return func(c *compiler) { c.without = append(c.without, names...) }
}

// As makes functions write and read values of a pointer's type. Write is not called for nil.
func As[V any](write func(w *Writer, v *V), read func(l *jlexer.Lexer) *V) Option {
	return func(c *compiler) {
		c.kinds[reflect.TypeFor[*V]()] = codec{
			plain: word,
			write: func(w *Writer, p unsafe.Pointer) { write(w, *(**V)(p)) },
			read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(**V)(p) = read(l) },
		}
	}
}

// Own is for data that only Millrace writes and reads: times are numbers, which is exact for every
// year and half as long, and so are durations; texts keep bytes that are not UTF-8; raw JSON was
// checked before, and its null is a value.
func Own() Option { return func(c *compiler) { c.own = true } }

// Names returns the names of the fields, in the order in which they are written.
func (f *Any) Names() []string {
	var names []string
	for _, at := range f.object().fields {
		names = append(names, at.name)
	}
	return names
}

// Find returns the number of a field, -1 if there is none of that name. It searches from from on,
// and then the earlier ones: our own output comes in order.
func (f *Any) Find(name string, from int) int { return f.object().find(name, from) }

// Nulls tells whether null is a value of a field. Otherwise it means that the field is missing.
func (f *Any) Nulls(number int) bool { return f.object().fields[number].null }

// Write appends the fields of a value to a begun object.
func (f *Form[T]) Write(w *Writer, v *T) { f.object().writeFields(w, unsafe.Pointer(v)) }

// Write appends the fields of a value to a begun object.
func (f *Any) Write(w *Writer, v any) { f.object().writeFields(w, reflect.ValueOf(v).UnsafePointer()) }

// ReadField reads the field with a number.
func (f *Any) ReadField(l *jlexer.Lexer, v any, number int) {
	f.object().readField(l, reflect.ValueOf(v).UnsafePointer(), number)
}

// WriteField appends a value as a field of a begun object.
func (f *Form[T]) WriteField(w *Writer, name string, v *T) {
	w.Key(name)
	f.object().write(w, unsafe.Pointer(v))
}

// Append appends a value as an object. The error names the part that cannot be written.
func (f *Form[T]) Append(dst []byte, v *T) ([]byte, error) {
	w := Begin(dst)
	f.Write(w, v)
	b, err := w.End()
	if err != nil {
		return dst, err
	}
	return b, nil
}

// ReadField reads the field with a number.
func (f *Form[T]) ReadField(l *jlexer.Lexer, v *T, number int) {
	f.object().readField(l, unsafe.Pointer(v), number)
}

// ReadValue reads a value that is part of another one.
func (f *Form[T]) ReadValue(l *jlexer.Lexer, v *T) { f.object().read(l, unsafe.Pointer(v)) }

// Read reads the output of Append. It ignores unknown fields; of a repeated one the last counts.
// Strings share the memory of data, which must not be modified afterwards.
func (f *Form[T]) Read(data []byte, v *T) error {
	l := lexers.Get().(*jlexer.Lexer)
	defer lexers.Put(l)
	*l = jlexer.Lexer{Data: data}
	f.object().read(l, unsafe.Pointer(v))
	l.Consumed()
	err := l.Error()
	*l = jlexer.Lexer{}
	return err
}

// ReadText is [Form.Read] of a text.
func (f *Form[T]) ReadText(text string, v *T) error {
	return f.Read(unsafe.Slice(unsafe.StringData(text), len(text)), v)
}

// object is the form of a struct.
type object struct {
	fields []field
	slots  []slot // of the fields
}

// slot is what is needed to see whether a field is empty. Most are, so slots are compact.
type slot struct {
	offset uint32
	plain  kind // given if the field is always written
}

func (o *object) readField(l *jlexer.Lexer, p unsafe.Pointer, number int) {
	at := &o.fields[number]
	at.read(l, unsafe.Add(p, at.offset))
}

// seal completes an object with all fields.
func (o *object) seal() {
	o.slots = nil
	for i := range o.fields {
		f := &o.fields[i]
		s := slot{uint32(f.offset), f.plain}
		if f.always {
			s.plain = given
		}
		o.slots = append(o.slots, s)
	}
}

// field is a field of a struct, or of an embedded one.
type field struct {
	name   string
	key    string // the written name, with the colon
	offset uintptr
	codec
	always bool // written even if it is empty
}

// codec writes and reads values of a type. The pointers are to values of that type.
type codec struct {
	plain kind
	empty func(p unsafe.Pointer) bool // of others
	write func(w *Writer, p unsafe.Pointer)
	read  func(l *jlexer.Lexer, p unsafe.Pointer)
	// The writing of plain values: the quotes of a text, whether eight bytes are a number, and
	// whether a time has the own form.
	quote      func(b []byte, s string) []byte
	count, own bool
	// null says that null is a value. Otherwise it means that the value is missing.
	null bool
}

// kind says how to recognize an empty value. Most fields are empty, and a call for each would cost
// more than all the rest.
type kind uint8

const (
	others  kind = iota
	word         // an int or a pointer: empty is 0
	double       // eight bytes: empty is 0
	counted      // a text or a list, whose length comes second in memory
	moment       // a time
	flag         // a truth value
	given        // always written
)

// void tells whether a value is empty.
func (c *codec) void(p unsafe.Pointer) bool {
	switch c.plain {
	case word:
		return *(*uintptr)(p) == 0
	case double:
		return *(*uint64)(p) == 0
	case counted:
		return len(*(*string)(p)) == 0
	case moment:
		return (*time.Time)(p).IsZero()
	case flag:
		return !*(*bool)(p)
	}
	return c.empty(p)
}

func (o *object) find(name string, from int) int {
	for i := from; i < len(o.fields); i++ {
		if o.fields[i].name == name {
			return i
		}
	}
	for i := range min(from, len(o.fields)) {
		if o.fields[i].name == name {
			return i
		}
	}
	return -1
}

func (o *object) empty(p unsafe.Pointer) bool {
	for i := range o.fields {
		if f := &o.fields[i]; !f.void(unsafe.Add(p, f.offset)) {
			return false
		}
	}
	return true
}

func (o *object) write(w *Writer, p unsafe.Pointer) {
	w.b = append(w.b, '{')
	o.writeFields(w, p)
	w.b = append(w.b, '}')
}

// writeFields appends the fields that are not empty. It writes plain ones itself, which are nearly
// all.
func (o *object) writeFields(w *Writer, p unsafe.Pointer) {
	b := w.b
	for i, slot := range o.slots {
		at := unsafe.Add(p, slot.offset)
		switch slot.plain {
		case word:
			if *(*uintptr)(at) == 0 {
				continue
			}
		case double:
			if *(*uint64)(at) == 0 {
				continue
			}
		case counted:
			if len(*(*string)(at)) == 0 {
				continue
			}
		case moment:
			if (*time.Time)(at).IsZero() {
				continue
			}
		case flag:
			if !*(*bool)(at) {
				continue
			}
		case others:
			if o.fields[i].empty(at) {
				continue
			}
		}
		f := &o.fields[i]
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, f.key...)
		switch {
		case f.plain == counted && f.quote != nil:
			b = f.quote(b, *(*string)(at))
		case f.plain == double && f.count:
			b = strconv.AppendUint(b, *(*uint64)(at), 10)
		case f.plain == moment && f.own:
			b = appendInstant(b, *(*time.Time)(at))
		default:
			w.b, w.field = b, f.name
			f.write(w, at)
			b = w.b
		}
	}
	w.b = b
}

func (o *object) read(l *jlexer.Lexer, p unsafe.Pointer) {
	next := 0
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		name := l.UnsafeFieldName(false)
		l.WantColon()
		i := o.find(name, next)
		if i < 0 {
			l.SkipRecursive()
		} else {
			next = i + 1
			f := &o.fields[i]
			f.value(l, unsafe.Add(p, f.offset))
		}
		l.WantComma()
	}
	l.Delim('}')
}

// value reads a value, or skips a null that means none.
func (c *codec) value(l *jlexer.Lexer, p unsafe.Pointer) {
	if !c.null && l.IsNull() {
		l.Skip()
		return
	}
	c.read(l, p)
}
