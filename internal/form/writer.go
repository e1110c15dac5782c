package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Writer appends the fields of a JSON object to a text. It keeps the first error for End.
type Writer struct {
	b     []byte
	field string // the present field, for errors
	err   error
}

// writers are pooled, because the functions of fields would make each escape to the heap.
var writers = pool[Writer]()

// Begin begins an object behind dst.
func Begin(dst []byte) *Writer {
	w := writers.Get().(*Writer)
	*w = Writer{b: append(dst, '{')}
	return w
}

// End ends the object and returns the whole text. The writer must not be used afterwards. The error
// is the first one that occurred.
func (w *Writer) End() ([]byte, error) {
	b, err := append(w.b, '}'), w.err
	*w = Writer{}
	writers.Put(w)
	return b, err
}

// Fail keeps the first error.
func (w *Writer) Fail(err error) {
	if w.err == nil && err != nil {
		w.err = err
	}
}

// Key begins a field of any name. A method appends its value.
func (w *Writer) Key(name string) *Writer {
	w.b = append(AppendString(w.next(), name), ':')
	w.field = name
	return w
}

// ours begins a field whose name is in the code and needs no escapes.
func (w *Writer) ours(name string) *Writer {
	w.b = append(append(append(w.next(), '"'), name...), '"', ':')
	w.field = name
	return w
}

// next returns the text, with a comma unless the field is the first.
func (w *Writer) next() []byte {
	if w.b[len(w.b)-1] != '{' {
		return append(w.b, ',')
	}
	return w.b
}

// Given appends a value that is JSON already.
func (w *Writer) Given(v []byte) { w.b = append(w.b, v...) }

// Text appends a field, unless it is empty. Its name must need no escapes, as with Number and Time.
func (w *Writer) Text(name, v string) {
	if v != "" {
		w.ours(name).b = AppendString(w.b, v)
	}
}

// Number appends a field, unless it is 0.
func (w *Writer) Number(name string, v uint64) {
	if v != 0 {
		w.ours(name).b = strconv.AppendUint(w.b, v, 10)
	}
}

// Time appends a field, unless the time is zero.
func (w *Writer) Time(name string, v time.Time) {
	if !v.IsZero() {
		w.ours(name).instant(v)
	}
}

// Raw appends a field of any name with a valid JSON value, unless it is empty.
func (w *Writer) Raw(name string, v json.RawMessage) {
	if len(v) > 0 {
		w.Key(name).raw(v)
	}
}

func (w *Writer) instant(t time.Time) {
	t, err := inUTC(t)
	if err != nil {
		w.Fail(fmt.Errorf("%s: %w", w.field, err))
		return
	}
	w.b = append(w.b, '"')
	w.b = t.AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
}

var errRaw = errors.New("not valid JSON in UTF-8")

func (w *Writer) raw(v json.RawMessage) {
	if !json.Valid(v) || !utf8.Valid(v) {
		w.Fail(fmt.Errorf("%s is %w", w.field, errRaw))
		return
	}
	w.b = append(w.b, v...)
}

func (w *Writer) json(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		w.Fail(fmt.Errorf("%s: %w", w.field, err))
		return
	}
	w.b = append(w.b, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// AppendString quotes a text. It escapes only what JSON requires, so that a search finds the typed
// text. Like encoding/json it replaces bytes that are not UTF-8.
func AppendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			if !utf8.ValidString(s) {
				s = string([]rune(s)) // each invalid byte becomes a replacement character
			}
			return AppendExact(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"') // the usual case
}

// AppendExact is AppendString for data that only Millrace reads: it keeps every byte, UTF-8 or not.
func AppendExact(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		switch {
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, '\\', c)
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}
