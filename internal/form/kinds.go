package form

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/mailru/easyjson/jlexer"
)

func pool[T any]() *sync.Pool { return &sync.Pool{New: func() any { return new(T) }} }

// The codecs of plain types. Each covers all types of its kind, which have the same layout in
// memory.
var (
	text, ownText   = textBy(AppendString), textBy(AppendExact)
	texts, ownTexts = textsBy(AppendString), textsBy(AppendExact)
	truth           = codec{
		plain: flag,
		write: func(w *Writer, p unsafe.Pointer) { w.b = strconv.AppendBool(w.b, *(*bool)(p)) },
		read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(*bool)(p) = l.Bool() },
	}
	number = codec{
		plain: word,
		write: func(w *Writer, p unsafe.Pointer) { w.b = strconv.AppendInt(w.b, int64(*(*int)(p)), 10) },
		read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(*int)(p) = int(Signed(l)) },
	}
	long = codec{
		plain: double,
		write: func(w *Writer, p unsafe.Pointer) { w.b = strconv.AppendInt(w.b, *(*int64)(p), 10) },
		read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(*int64)(p) = Signed(l) },
	}
	unsigned = codec{
		plain: double, count: true,
		write: func(w *Writer, p unsafe.Pointer) { w.b = strconv.AppendUint(w.b, *(*uint64)(p), 10) },
		read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(*uint64)(p) = Unsigned(l) },
	}
	instant = codec{
		plain: moment,
		write: func(w *Writer, p unsafe.Pointer) { w.instant(*(*time.Time)(p)) },
		read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(*time.Time)(p) = Instant(l) },
	}
	ownInstant = codec{
		plain: moment, own: true,
		write: func(w *Writer, p unsafe.Pointer) { w.b = appendInstant(w.b, *(*time.Time)(p)) },
		read: func(l *jlexer.Lexer, p unsafe.Pointer) {
			if s := l.Raw(); l.Ok() {
				t, err := parseInstant(s)
				l.AddError(err)
				*(*time.Time)(p) = t
			}
		},
	}
	raw = codec{
		plain: counted,
		write: func(w *Writer, p unsafe.Pointer) { w.raw(*(*json.RawMessage)(p)) },
		read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(*json.RawMessage)(p) = Raw(l) },
	}
	ownRaw = codec{
		null:  true,
		plain: counted,
		write: func(w *Writer, p unsafe.Pointer) { w.b = append(w.b, *(*json.RawMessage)(p)...) },
		read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(*json.RawMessage)(p) = l.Raw() },
	}
)

// textBy is the codec of texts that are quoted by quote.
func textBy(quote func([]byte, string) []byte) codec {
	return codec{
		plain: counted, quote: quote,
		write: func(w *Writer, p unsafe.Pointer) { w.b = quote(w.b, *(*string)(p)) },
		read:  func(l *jlexer.Lexer, p unsafe.Pointer) { *(*string)(p) = l.UnsafeString() },
	}
}

// textsBy is the codec of maps of texts. Most tasks have one label.
func textsBy(quote func([]byte, string) []byte) codec {
	return codec{
		empty: func(p unsafe.Pointer) bool { return len(*(*map[string]string)(p)) == 0 },
		write: func(w *Writer, p unsafe.Pointer) {
			all := *(*map[string]string)(p)
			w.b = append(w.b, '{')
			if len(all) == 1 {
				for k, v := range all {
					w.b = quote(append(quote(w.b, k), ':'), v)
				}
			} else {
				for i, k := range slices.Sorted(maps.Keys(all)) {
					if i > 0 {
						w.b = append(w.b, ',')
					}
					w.b = quote(append(quote(w.b, k), ':'), all[k])
				}
			}
			w.b = append(w.b, '}')
		},
		read: func(l *jlexer.Lexer, p unsafe.Pointer) {
			var all map[string]string
			eachField(l, func(name string) {
				if all == nil {
					all = make(map[string]string, 1)
				}
				var v string
				if l.IsNull() {
					l.Skip()
				} else {
					v = l.UnsafeString()
				}
				all[name] = v
			})
			*(*map[string]string)(p) = all
		},
	}
}

// emptyOf returns how to recognize an empty value of a type that writes itself.
func emptyOf(t reflect.Type, path string) codec {
	switch t.Kind() {
	case reflect.Slice, reflect.String:
		return codec{plain: counted}
	case reflect.Int64:
		return codec{plain: double}
	case reflect.Uint8, reflect.Float64, reflect.Struct:
		return codec{empty: func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().IsZero() }}
	}
	wrong("nobody knows when a %s is empty (%s)", t, path)
	return codec{}
}

// marshalled is the codec of types that marshal themselves as JSON.
func marshalled(t reflect.Type, empty codec) codec {
	return codec{plain: empty.plain, empty: empty.empty,
		write: func(w *Writer, p unsafe.Pointer) { w.json(reflect.NewAt(t, p).Interface()) },
		read: func(l *jlexer.Lexer, p unsafe.Pointer) {
			if text := l.Raw(); l.Ok() {
				l.AddError(json.Unmarshal(text, reflect.NewAt(t, p).Interface()))
			}
		}}
}

// spelled is the codec of types that marshal themselves as text.
func spelled(t reflect.Type, empty codec) codec {
	return codec{plain: empty.plain, empty: empty.empty,
		write: func(w *Writer, p unsafe.Pointer) {
			text, err := reflect.NewAt(t, p).Interface().(encoding.TextMarshaler).MarshalText()
			w.Fail(err)
			w.b = AppendString(w.b, string(text))
		},
		read: func(l *jlexer.Lexer, p unsafe.Pointer) {
			if text := l.UnsafeString(); l.Ok() {
				l.AddError(reflect.NewAt(t, p).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)))
			}
		}}
}

func pointer(to reflect.Type, of codec) codec {
	return codec{
		plain: word,
		write: func(w *Writer, p unsafe.Pointer) {
			if v := *(*unsafe.Pointer)(p); v != nil {
				of.write(w, v)
			} else {
				w.b = append(w.b, "null"...)
			}
		},
		read: func(l *jlexer.Lexer, p unsafe.Pointer) {
			v := reflect.New(to).UnsafePointer()
			*(*unsafe.Pointer)(p) = v
			of.read(l, v)
		}}
}

// A list of items of largeItem bytes or more is expensive to copy as it grows. So it gets room at
// once for as many like the first one as may follow in the text, at most mostAhead. And each must have a
// byte of text for perByte of its own: else a small text, a list of {}, takes hundreds of times its size.
const (
	largeItem = 512
	mostAhead = 1000
	perByte   = 64
)

var errHollow = errors.New("a list has items that say next to nothing")

func list(t reflect.Type, of codec) codec {
	size := t.Elem().Size()
	return codec{plain: counted,
		write: func(w *Writer, p unsafe.Pointer) {
			n := len(*(*[]struct{})(p))
			first := *(*unsafe.Pointer)(p) // a slice begins with the pointer to its array
			w.b = append(w.b, '[')
			for i := range n {
				if i > 0 {
					w.b = append(w.b, ',')
				}
				of.write(w, unsafe.Add(first, uintptr(i)*size))
			}
			w.b = append(w.b, ']')
		},
		read: func(l *jlexer.Lexer, p unsafe.Pointer) {
			all := reflect.NewAt(t, p).Elem()
			all.SetZero()
			l.Delim('[')
			for l.Ok() && !l.IsDelim(']') {
				n, begins := all.Len(), l.GetPos()
				all.Grow(1)
				all.SetLen(n + 1)
				of.value(l, unsafe.Add(all.UnsafePointer(), uintptr(n)*size))
				if size >= largeItem && uintptr(l.GetPos()-begins)*perByte < size && l.Ok() { // the text goes on, not back
					l.AddError(errHollow)
				}
				if n == 0 && size >= largeItem {
					all.Grow(min((len(l.Data)-l.GetPos())/max(l.GetPos()-begins, 1), mostAhead))
				}
				l.WantComma()
			}
			l.Delim(']')
		}}
}

func table(t reflect.Type, of codec) codec {
	return codec{
		empty: func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().Len() == 0 },
		write: func(w *Writer, p unsafe.Pointer) {
			all := reflect.NewAt(t, p).Elem()
			if all.IsNil() {
				w.b = append(w.b, "null"...)
				return
			}
			w.b = append(w.b, '{')
			keys := all.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, k := range keys {
				v := reflect.New(t.Elem())
				v.Elem().Set(all.MapIndex(k))
				w.Key(k.String())
				of.write(w, v.UnsafePointer())
			}
			w.b = append(w.b, '}')
		},
		read: func(l *jlexer.Lexer, p unsafe.Pointer) {
			all := reflect.NewAt(t, p).Elem()
			all.SetZero()
			eachField(l, func(name string) {
				if all.IsNil() {
					all.Set(reflect.MakeMap(t))
				}
				v := reflect.New(t.Elem())
				of.value(l, v.UnsafePointer())
				all.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), v.Elem())
			})
		}}
}

// eachField calls read for each field of an object.
func eachField(l *jlexer.Lexer, read func(name string)) {
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		name := l.UnsafeFieldName(false)
		l.WantColon()
		read(name)
		l.WantComma()
	}
	l.Delim('}')
}

// Signed reads an integer.
func Signed(l *jlexer.Lexer) int64 {
	text := integer(l)
	if n, ok := digits(text); ok {
		return int64(n)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if l.Ok() {
		l.AddError(err)
	}
	return n
}

// Unsigned reads a non-negative integer.
func Unsigned(l *jlexer.Lexer) uint64 {
	text := integer(l)
	if n, ok := digits(text); ok {
		return n
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if l.Ok() {
		l.AddError(err)
	}
	return n
}

// digits parses up to 18 digits, enough for nearly all numbers.
func digits(text []byte) (n uint64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, len(text) > 0 && len(text) <= 18
}

// integer returns a number's text; the lexer's own methods would accept 007.
func integer(l *jlexer.Lexer) []byte {
	text := l.Raw()
	if len(text) > 1 && (text[0] == '0' || text[0] == '-' && text[1] == '0' && len(text) > 2) {
		l.AddError(fmt.Errorf("%q is no integer", text))
	}
	return text
}

// Raw takes any valid JSON value unchanged. The lexer checks objects and arrays, but does not check
// strings and numbers that it need not convert.
func Raw(l *jlexer.Lexer) json.RawMessage {
	v := l.Raw()
	if l.Ok() && v[0] != '{' && v[0] != '[' && !json.Valid(v) {
		l.AddError(fmt.Errorf("%.20q is not valid JSON", v))
	}
	return v
}

// Instant reads a time in RFC 3339, in any zone, and returns it in UTC.
func Instant(l *jlexer.Lexer) time.Time {
	s := l.UnsafeString()
	if !l.Ok() {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err == nil {
		t, err = inUTC(t)
	}
	l.AddError(err)
	return t
}

// inUTC refuses a time whose year in UTC does not have four digits, because it could not be
// written.
func inUTC(t time.Time) (time.Time, error) {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return t, fmt.Errorf("the year %d is out of range", y)
	}
	return t, nil
}

// appendInstant writes an instant as seconds since 1970 with nine decimals: exact for every year
// and half as long as RFC 3339.
func appendInstant(b []byte, t time.Time) []byte {
	b = strconv.AppendInt(b, t.Unix(), 10)
	b = append(b, '.')
	ns := strconv.AppendInt(b, int64(t.Nanosecond())+1e9, 10)
	return append(b, ns[len(b)+1:]...)
}

// parseInstant reads the output of appendInstant.
func parseInstant(s []byte) (time.Time, error) {
	whole, fraction, _ := bytes.Cut(s, []byte("."))
	sec, ok := digits(whole)
	ns, exact := digits(fraction)
	if !ok {
		before, err := strconv.ParseInt(string(whole), 10, 64) // before 1970
		sec, ok = uint64(before), err == nil
	}
	if !ok || !exact {
		return time.Time{}, fmt.Errorf("%q is no instant", s)
	}
	return time.Unix(int64(sec), int64(ns)).UTC(), nil
}
