package events

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	fields "millrace/internal/form"
	"millrace/task"
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
	if f.By != nil {
		byForm.WriteField(w, "by", f.By)
	}
	if form != nil {
		form.body.write(w, f.Event)
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
		return form.body.find(name, 0) >= 0
	}
	for s := aboutNothing + 1; s < about; s++ {
		if name == s.name() {
			return true
		}
	}
	return false
}
