package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"millrace/task"
)

// MaxFact is the largest encoded fact, in bytes; parameters, results and
// messages of failures have to fit into it.
const MaxFact = 512 << 10

// ErrTooLarge refuses a fact of more than [MaxFact] bytes.
var ErrTooLarge = fmt.Errorf("the fact is larger than %d kB", MaxFact>>10)

// Encode appends the wire form of a fact to dst: one flat JSON object. The
// error says which part cannot be written; it wraps [ErrTooLarge] if it is the size.
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
	o := objects.Get().(*object)
	defer objects.Put(o)
	*o = object{b: append(dst, '{'), start: len(dst)}
	o.str("type", string(typ))
	o.num("v", Version)
	o.str("id", f.ID)
	o.time("at", f.At)
	switch about {
	case aboutLimits:
	case aboutMessage:
		o.seq(about.name(), f.Message)
	default:
		o.str(about.name(), f.About())
	}
	o.str("actor", f.Actor)
	o.str("cause", f.Cause)
	o.str("corr", f.Corr)
	if form != nil {
		form.body.write(o, f.Event)
	}
	if len(f.Extra) > 0 {
		o.extra(f, form, about)
	}
	if o.err != nil {
		return dst, fmt.Errorf("encode %s: %w", typ, o.err)
	}
	o.b = append(o.b, '}')
	if size := len(o.b) - len(dst); size > MaxFact {
		return dst, fmt.Errorf("encode %s: %w: it has %d bytes; put large data into a file or a bucket and pass its name", typ, ErrTooLarge, size)
	}
	return o.b, nil
}

// check refuses what nobody could decode. It returns what the fact is about.
func (f *Fact) check(form *form) (subject, error) {
	about, several := f.subject()
	switch {
	case f.ID == "":
		return about, errors.New("it has no id")
	case f.At.IsZero():
		return about, errors.New("it has no time (at)")
	case several > 1:
		return about, errors.New("it has more than one of task, node, job, queue, schedule, key and message")
	case several == 0 && (form == nil || form.about != aboutLimits):
		return about, errAboutNothing
	case form != nil && about != form.about:
		return about, fmt.Errorf("it is about %q, which is the wrong kind of thing", f.About())
	}
	return about, nil
}

var errAboutNothing = errors.New("it has neither task nor node, job, queue, schedule, key or message")

// extra appends the fields that this version does not know, in a fixed order.
func (o *object) extra(f *Fact, form *form, about subject) {
	for _, k := range slices.Sorted(maps.Keys(f.Extra)) {
		if own(k, form, about) {
			o.fail(fmt.Errorf("the extra field %q is one of the type's own", k))
			return
		}
		o.raw(k, f.Extra[k])
	}
}

// own tells whether a field of a fact means something to this version. In a fact of a
// type that it does not know, that is also what would be taken for what the fact is about.
func own(name string, form *form, about subject) bool {
	if _, ok := envelope(name); ok || name == about.name() {
		return true
	}
	if form != nil {
		return form.find(name, 0) >= 0
	}
	for s := aboutLimits + 1; s < about; s++ {
		if name == s.name() {
			return true
		}
	}
	return false
}

// objects are used again: the functions of fields would have each escape to the heap.
var objects = sync.Pool{New: func() any { return new(object) }}

// object appends the fields of a JSON object. Empty values are left out.
type object struct {
	b     []byte
	start int
	err   error
}

func (o *object) key(k string) *object {
	if len(o.b) > o.start+1 {
		o.b = append(o.b, ',')
	}
	o.b = appendString(o.b, k)
	o.b = append(o.b, ':')
	return o
}

func (o *object) str(k, v string) {
	if v != "" {
		o.key(k).b = appendString(o.b, v)
	}
}

func (o *object) num(k string, v int) {
	if v != 0 {
		o.key(k).b = strconv.AppendInt(o.b, int64(v), 10)
	}
}

func (o *object) seq(k string, v uint64) {
	if v != 0 {
		o.key(k).b = strconv.AppendUint(o.b, v, 10)
	}
}

func (o *object) time(k string, v time.Time) {
	if v.IsZero() {
		return
	}
	v, err := inUTC(v)
	if err != nil {
		o.fail(fmt.Errorf("%s: %w", k, err))
		return
	}
	o.key(k)
	o.b = append(o.b, '"')
	o.b = v.AppendFormat(o.b, time.RFC3339Nano)
	o.b = append(o.b, '"')
}

func (o *object) duration(k string, v task.Duration) {
	if v != 0 {
		o.str(k, v.String())
	}
}

func (o *object) yes(k string, v bool) {
	if v {
		o.key(k).b = append(o.b, "true"...)
	}
}

// fail keeps the first error.
func (o *object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// raw appends a value that is JSON already; it must be valid.
func (o *object) raw(k string, v json.RawMessage) {
	if len(v) == 0 {
		return
	}
	if !json.Valid(v) || !utf8.Valid(v) {
		o.fail(fmt.Errorf("%s is not valid JSON in UTF-8", k))
		return
	}
	o.key(k).b = append(o.b, v...)
}

func (o *object) json(k string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		o.fail(fmt.Errorf("%s: %w", k, err))
		return
	}
	o.key(k).b = append(o.b, b...)
}

// appendString quotes a string. Nearly all of ours are plain, which needs no escapes.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			q, _ := json.Marshal(s) // a string always marshals
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
