package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Formed is a type whose JSON has several forms.
type Formed interface {
	// FormOf returns a value of the type as which data is decoded.
	FormOf(data []byte) any
}

// Misfit says why a part of a JSON text is not taken.
type Misfit struct {
	// Path is the part, "retry.max"; "" for the whole.
	Path string
	why  string
}

// Error implements error.
func (m *Misfit) Error() string { return m.why }

// Strictly decodes what somebody has written, where nothing may be lost in silence: it refuses, in
// every part, a field that does not exist, a name that an object has twice, and a zero that would
// mean the default ([ZeroIsDefault]). What a type keeps as JSON is not looked into. And it refuses lists
// whose items would take more than 32 MiB together: a text of 1 MB with nothing but {} is a gigabyte of them.
func Strictly(data []byte, into any) error {
	l := look{room: mostItems}
	if m := l.misfit(reflect.TypeOf(into), data, ""); m != nil {
		return m
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return Plainly(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("it goes on behind its end")
	}
	return nil
}

// Members returns the members of an object in JSON. The error is a [*Misfit] if a name is there
// twice.
func Members(data []byte) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, errors.New("it is no object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var is json.RawMessage
		if err := d.Decode(&is); err != nil {
			return nil, err
		}
		if _, twice := all[name.(string)]; twice {
			return nil, &Misfit{name.(string), fmt.Sprintf("%s is there twice", name)}
		}
		all[name.(string)] = is
	}
	_, err := d.Token()
	return all, err
}

// mostItems is how many bytes the items of all lists may take.
const mostItems = 32 << 20

// mostPerByte is how many bytes they may take for one of the text, up to mostItems, where only that is
// looked at, and largestItem about the size of the largest.
const mostPerByte, largestItem = 64, 1 << 10

// Dense refuses a text of which a small one would take hundreds of times as much in memory: a list of
// items that say next to nothing, {} or null. It refuses nothing else that the decoder takes.
func Dense(data []byte, into any) error {
	if bytes.Count(data, []byte{','})*largestItem <= mostPerByte*len(data) {
		return nil
	}
	l := look{room: min(mostPerByte*len(data), mostItems), loose: true}
	if m := l.misfit(reflect.TypeOf(into), data, ""); m != nil {
		return m
	}
	return nil
}

// look is one look at a text.
type look struct {
	room  int
	loose bool // look at nothing but lists, and names that are there twice
}

// misfit returns the first part of data that a type does not take. What is no JSON, or of another
// type, is left to the decoder.
func (l *look) misfit(t reflect.Type, data []byte, path string) *Misfit {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil
	}
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[Formed]()) {
		return l.misfit(reflect.TypeOf(reflect.New(t).Interface().(Formed).FormOf(data)), data, path)
	}
	if p.Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch kind := t.Kind(); {
	case kind == reflect.Slice && data[0] == '[':
		var items []json.RawMessage
		if t.Elem().Kind() == reflect.Uint8 || json.Unmarshal(data, &items) != nil {
			return nil
		}
		if l.room -= len(items) * int(t.Elem().Size()); l.room < 0 { // a size in memory
			return &Misfit{path, fmt.Sprintf("%s has %d items, which with all other lists is too much", path, len(items))}
		}
		for i, item := range items {
			if m := l.misfit(t.Elem(), item, fmt.Sprintf("%s[%d]", path, i)); m != nil {
				return m
			}
		}
	case (kind == reflect.Struct || kind == reflect.Map) && data[0] == '{':
		members, err := Members(data)
		var twice *Misfit
		if errors.As(err, &twice) {
			at := under(path, twice.Path)
			return &Misfit{at, at + " is there twice"}
		}
		if err != nil {
			return nil
		}
		if kind == reflect.Map {
			return l.misfitOf(members, path, func(string) (reflect.Type, *Misfit) { return t.Elem(), nil })
		}
		fields := fieldsOf(t)
		return l.misfitOf(members, path, func(name string) (reflect.Type, *Misfit) {
			f, ok := fields.byName[name]
			at := under(path, name)
			switch {
			case l.loose:
				return fields.folded(name), nil
			case !ok && path == "":
				return nil, &Misfit{at, fmt.Sprintf("there is no field %q; it takes %s", name, fields.names)}
			case !ok:
				return nil, &Misfit{at, fmt.Sprintf("there is no field %q in %s, which takes %s", name, path, fields.names)}
			case ZeroIsDefault(f) && isZero(f.Type, members[name]):
				return nil, &Misfit{at, fmt.Sprintf("%s is %s: want more than zero, or leave it out for its default", at, bytes.Trim(members[name], `"`))}
			}
			return f.Type, nil
		})
	}
	return nil
}

// misfitOf looks into the members of an object, in the order of their names.
func (l *look) misfitOf(members map[string]json.RawMessage, path string, of func(name string) (reflect.Type, *Misfit)) *Misfit {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t, m := of(name)
		if m == nil && t != nil {
			m = l.misfit(t, members[name], under(path, name))
		}
		if m != nil {
			return m
		}
	}
	return nil
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// ZeroIsDefault tells whether a number, duration or size of zero in a field would silently mean the
// default, as it is the same as none. The tag `least:"0"` says that zero means what it says.
// Numbers without a sign are sequences, of which 0 is the first.
func ZeroIsDefault(f reflect.StructField) bool {
	_, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !strings.Contains(rest, "omit") || f.Tag.Get("least") == "0" {
		return false
	}
	switch f.Type.Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64:
		return true
	}
	return false
}

func isZero(t reflect.Type, data json.RawMessage) bool {
	is := reflect.New(t)
	return string(data) != "null" && json.Unmarshal(data, is.Interface()) == nil && is.Elem().IsZero()
}

// fieldSet are the fields of a struct by their names in JSON; names lists them.
type fieldSet struct {
	byName map[string]reflect.StructField
	names  string
}

// folded is the type of the field that the decoder takes for a name, whose case does not matter to it; nil
// if it takes none.
func (s *fieldSet) folded(name string) reflect.Type {
	for is, f := range s.byName {
		if strings.EqualFold(is, name) {
			return f.Type
		}
	}
	return nil
}

var fieldSets sync.Map // of fieldSet, by reflect.Type

func fieldsOf(t reflect.Type) fieldSet {
	if known, ok := fieldSets.Load(t); ok {
		return known.(fieldSet)
	}
	all := fieldSet{byName: map[string]reflect.StructField{}}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			all.byName[name] = f
			names = append(names, name)
		}
	}
	all.names = "none"
	if len(names) > 0 {
		all.names = strings.Join(names, ", ")
	}
	fieldSets.Store(t, all)
	return all
}
