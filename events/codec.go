package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mailru/easyjson/jlexer"

	fields "millrace/internal/form"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
)

// MaxFact is the largest encoded fact, in bytes. Parameters, results and messages of failures must
// fit into it.
const MaxFact = 512 << 10

// ErrTooLarge refuses a fact of more than [MaxFact] bytes.
var ErrTooLarge = fmt.Errorf("the fact is larger than %d kB", MaxFact>>10)

// Encode appends the wire form of a fact to dst: one flat JSON object. The error names the part
// that cannot be written; it wraps [ErrTooLarge] if the fact is too large.
func Encode(dst []byte, f *Fact) ([]byte, error) {
	typ, form := f.Type, formByEvent[reflect.TypeOf(f.Event)]
	switch {
	case form != nil:
		typ = form.typ
	case f.Event != nil || typ == "" || known(typ):
		return dst, fmt.Errorf("encode fact: %T is no event of type %q", f.Event, typ)
	}
	about, err := f.check(form)
	if err != nil {
		return dst, fmt.Errorf("encode %s: %w", typ, err)
	}
	w := fields.Begin(dst)
	w.Text("type", string(typ))
	w.Number("v", Version)
	w.Text("id", f.ID)
	w.Time("at", f.At)
	switch about {
	case aboutNothing:
	case aboutMessage:
		w.Number(about.name(), f.Message)
	default:
		w.Text(about.name(), f.About())
	}
	w.Text("actor", f.Actor)
	w.Text("cause", f.Cause)
	w.Text("corr", f.Corr)
	w.Number("repeats", f.Repeats)
	if f.By != nil {
		byForm.WriteField(w, "by", f.By)
	}
	if form != nil {
		form.write(w, f.Event)
	}
	if len(f.Extra) > 0 {
		writeExtra(w, f, form, about)
	}
	b, err := w.End()
	if err != nil {
		return dst, fmt.Errorf("encode %s: %w", typ, err)
	}
	if size := len(b) - len(dst); size > MaxFact {
		return dst, fmt.Errorf("encode %s: %w: it has %d bytes; put large data into a file or a bucket and pass its name", typ, ErrTooLarge, size)
	}
	return b, nil
}

// byForm is the form of a decision's inputs.
var byForm = fields.Of[task.By]()

// check refuses a fact that could not be decoded. It returns the subject of the fact.
func (f *Fact) check(form *form) (subject, error) {
	about, several := f.subject()
	switch {
	case f.ID == "":
		return about, errors.New("it has no id")
	case f.At.IsZero():
		return about, errors.New("it has no time (at)")
	case several > 1:
		return about, errors.New("it has more than one of task, node, job, queue, schedule, key, message, bundle and scope")
	case several == 0 && (form == nil || form.about != aboutNothing):
		return about, errAboutNothing
	case form != nil && about != form.about:
		return about, fmt.Errorf("it is about %q, which is the wrong kind of thing", f.About())
	}
	return about, nil
}

var errAboutNothing = errors.New("it has neither task nor node, job, queue, schedule, key, message, bundle or scope")

// writeExtra appends the fields that this version does not know, in a fixed order.
func writeExtra(w *fields.Writer, f *Fact, form *form, about subject) {
	for _, k := range slices.Sorted(maps.Keys(f.Extra)) {
		if own(k, form, about) {
			w.Fail(fmt.Errorf("the extra field %q is one of the type's own", k))
			return
		}
		w.Raw(k, f.Extra[k])
	}
}

// own tells whether this version gives a meaning to a field of a fact. In a fact of an unknown
// type, that includes fields that would be taken for its subject.
func own(name string, form *form, about subject) bool {
	if _, ok := envelope(name); ok || name == about.name() {
		return true
	}
	if form != nil {
		return form.Find(name, 0) >= 0
	}
	for s := aboutNothing + 1; s < about; s++ {
		if name == s.name() {
			return true
		}
	}
	return false
}

// Decode reads the wire form of a fact. An unknown type is not an error: Event is then nil. Unknown
// fields of a known type are kept in Extra. The strings of the fact may share data's memory, so
// data must not be modified afterwards.
//
// A fact of a later version is refused with an error that wraps [ErrLater], because the meaning of
// its fields is unknown. Any other error means that this is not a fact: broken JSON, a repeated
// field or one of the wrong kind, or a missing mandatory one. Where a missing field has a meaning,
// null has the same one.
func Decode(data []byte) (Fact, error) {
	var f Fact
	if err := DecodeInto(&f, data); err != nil {
		return Fact{}, err
	}
	return f, nil
}

// DecodeInto is [Decode] in place. f must be zero, and is useless after an error.
func DecodeInto(f *Fact, data []byte) error {
	r := reader{Fact: f, form: formOfText(data)}
	if err := r.read(data); err != nil {
		return fmt.Errorf("decode fact: %w", value.Plainly(err))
	}
	return nil
}

// lexers are pooled, because the functions of fields would make each escape to the heap.
var lexers = sync.Pool{New: func() any { return new(jlexer.Lexer) }}

// reader reads one fact.
type reader struct {
	*Fact
	form  *form  // nil for an unknown type
	event any    // the value that the form works on
	next  int    // the number of the next expected field
	seen  uint64 // bits: the fields of the form by number, and those of every fact from the other end
}

// read reads a whole fact.
func (r *reader) read(data []byte) error {
	if err := readable(data); err != nil {
		return err
	}
	if r.form != nil {
		r.event = r.form.fresh()
	}
	l := lexers.Get().(*jlexer.Lexer)
	defer lexers.Put(l)
	*l = jlexer.Lexer{Data: data}
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		name := l.UnsafeFieldName(false)
		l.WantColon()
		r.field(name, l)
		l.WantComma()
	}
	if before := bytes.TrimRight(data[:max(l.GetPos()-1, 0)], " \t\r\n"); bytes.HasSuffix(before, []byte(",")) {
		return errors.New("a comma stands before the end")
	}
	l.Delim('}')
	l.Consumed()
	if err := l.Error(); err != nil {
		return err
	}
	return r.end()
}

// field reads one field.
func (r *reader) field(name string, l *jlexer.Lexer) {
	if bit, ok := envelope(name); ok {
		if r.first(63-bit, name, l) && present(l) {
			r.common(name, l)
		}
		return
	}
	if r.form == nil {
		r.keep(name, l)
		return
	}
	if name == r.form.about.name() {
		if r.first(63-aboutBit, name, l) && present(l) {
			r.about(r.form.about, l)
		}
		return
	}
	number := r.form.Find(name, r.next)
	if number < 0 {
		r.keep(name, l)
		return
	}
	r.next = number + 1
	if r.first(number, name, l) && (r.form.Nulls(number) || present(l)) {
		r.form.ReadField(l, r.event, number)
	}
}

// readable refuses invalid JSON that the lexer would accept.
func readable(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	for _, c := range data {
		if c < ' ' { // valid between values and invalid in a string; our own facts have none
			if !json.Valid(data) {
				return errors.New("it is not valid JSON")
			}
			break
		}
	}
	return nil
}

// formOfText finds the form by the type, which is the first field in all our own facts.
func formOfText(data []byte) *form {
	if name, ok := bytes.CutPrefix(data, []byte(`{"type":"`)); ok {
		if f := formByType[Type(name[:max(bytes.IndexByte(name, '"'), 0)])]; f != nil {
			return f // its name has no characters that could be escaped
		}
	}
	l := &jlexer.Lexer{Data: data}
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		name := l.UnsafeFieldName(false)
		l.WantColon()
		if name == "type" {
			return formByType[Type(l.UnsafeString())]
		}
		l.SkipRecursive()
		l.WantComma()
	}
	return nil
}

// first tells whether a field is new, and refuses a repeated one.
func (r *reader) first(bit int, name string, l *jlexer.Lexer) bool {
	if r.seen&(1<<bit) != 0 {
		l.AddError(errTwice(name))
		return false
	}
	r.seen |= 1 << bit
	return true
}

// present tells whether a field has a value. It skips a null.
func present(l *jlexer.Lexer) bool {
	if l.IsNull() {
		l.Skip()
		return false
	}
	return true
}

// aboutBit is the bit of the subject's field, beside those of [envelope].
const aboutBit = 9

// envelope tells whether every fact has a field of that name, and returns its bit.
func envelope(name string) (bit int, ok bool) {
	switch name {
	case "type":
		return 0, true
	case "v":
		return 1, true
	case "id":
		return 2, true
	case "at":
		return 3, true
	case "actor":
		return 4, true
	case "cause":
		return 5, true
	case "corr":
		return 6, true
	case "by":
		return 7, true
	case "repeats":
		return 8, true
	}
	return 0, false
}

func (r *reader) common(name string, l *jlexer.Lexer) {
	switch name {
	case "type":
		r.Type = Type(l.UnsafeString())
	case "v":
		if v := fields.Signed(l); v > Version {
			l.AddError(fmt.Errorf("a fact (%s) of version %d, and this program reads up to %d: %w", r.Type, v, Version, ErrLater))
		}
	case "id":
		r.ID = l.UnsafeString()
	case "at":
		r.At = fields.Instant(l)
	case "actor":
		r.Actor = l.UnsafeString()
	case "cause":
		r.Cause = l.UnsafeString()
	case "corr":
		r.Corr = l.UnsafeString()
	case "repeats":
		r.Repeats = fields.Unsigned(l)
	case "by":
		r.By = new(task.By)
		byForm.ReadValue(l, r.By)
	}
}

// about reads the subject of the fact.
func (r *reader) about(s subject, l *jlexer.Lexer) {
	switch s {
	case aboutTask:
		r.Task = task.ID(l.UnsafeString())
	case aboutNode:
		r.Node = node.ID(l.UnsafeString())
	case aboutDef:
		r.Def = task.Def(l.UnsafeString())
	case aboutJob:
		r.Job = l.UnsafeString()
	case aboutQueue:
		r.Queue = l.UnsafeString()
	case aboutSchedule:
		r.Schedule = l.UnsafeString()
	case aboutKey:
		r.Key = l.UnsafeString()
	case aboutMessage:
		r.Message = fields.Unsigned(l)
	case aboutScope:
		r.Scope = limit.Scope(l.UnsafeString())
	}
}

// keep keeps a field that this version does not know for the type.
func (r *reader) keep(name string, l *jlexer.Lexer) {
	if _, twice := r.Extra[name]; twice {
		l.AddError(errTwice(name))
		return
	}
	if r.Extra == nil {
		r.Extra = make(map[string]json.RawMessage)
	}
	r.Extra[name] = fields.Raw(l)
}

// end checks for the mandatory fields.
func (r *reader) end() (err error) {
	switch {
	case r.Type == "":
		return errors.New("it has no type")
	case r.ID == "":
		return errors.New("it has no id")
	case r.At.IsZero():
		return errors.New("it has no time (at)")
	}
	if r.form == nil {
		return r.guess()
	}
	if about, _ := r.subject(); about != r.form.about {
		return fmt.Errorf("%s has no %s", r.Type, r.form.about.name())
	}
	r.Event, err = r.form.take(r.event)
	return err
}

// guess finds the subject of a fact of an unknown type: the first kind of subject whose field it
// has. Further such fields have a meaning that this version does not know.
func (r *reader) guess() error {
	for s := aboutNothing + 1; s < subjects; s++ {
		text, ok := r.Extra[s.name()]
		if !ok || string(text) == "null" {
			continue
		}
		l := &jlexer.Lexer{Data: text}
		if r.about(s, l); l.Error() != nil {
			return fmt.Errorf("%s: %w", s.name(), l.Error())
		}
		if about, _ := r.subject(); about == s {
			delete(r.Extra, s.name())
			if len(r.Extra) == 0 {
				r.Extra = nil
			}
			return nil
		}
	}
	return errAboutNothing
}

type errTwice string

func (key errTwice) Error() string { return fmt.Sprintf("the field %q is there twice", string(key)) }

// Dropped names the fields of a record's message that this version reads with loss: those that it does
// not know, which [Fact.Extra] keeps, and those within others, which reading drops. A field without a
// value does not count. The record must be readable.
func Dropped(r *Record) ([]string, error) {
	f, e := r.Fact, reflect.New(reflect.TypeOf(r.Fact.Event)).Elem()
	e.Set(reflect.ValueOf(f.Event))
	if spec := e.FieldByName("Spec"); spec.IsValid() && !spec.IsNil() { // one that was read is written from its text
		again := reflect.New(spec.Type().Elem())
		again.Elem().Set(spec.Elem())
		spec.Set(again)
	}
	f.Event, f.Extra = e.Interface(), nil
	again, err := Encode(nil, &f)
	if err != nil || bytes.Equal(again, r.Raw) {
		return nil, err
	}
	var was, is map[string]any
	err = errors.Join(json.Unmarshal(r.Raw, &was), json.Unmarshal(again, &is))
	return missing("", was, is), err
}

// missing names the fields of a value of JSON that another one has not, with their path.
func missing(path string, was, is any) (names []string) {
	switch was := was.(type) {
	case map[string]any:
		has, _ := is.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(was)) {
			names = append(names, missing(strings.TrimPrefix(path+"."+k, "."), was[k], has[k])...)
		}
	case []any:
		has, _ := is.([]any)
		for i := range was {
			if i >= len(has) {
				return append(names, path)
			}
			names = append(names, missing(path, was[i], has[i])...)
		}
	default:
		if is == nil && was != nil && !reflect.ValueOf(was).IsZero() {
			return []string{path}
		}
	}
	return names
}
