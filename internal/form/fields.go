package form

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
)

// Field is a field of a struct in a form.
type Field struct {
	// Name is the name in JSON.
	Name string
	// Type is the Go type.
	Type reflect.Type
	// Index is the position, for [reflect.Value.FieldByIndex].
	Index []int
	// Always says that the field is written even when empty.
	Always bool

	path   string // the path to it
	offset uintptr
	null   bool // null has a meaning
}

// Fields returns the fields of a struct, in the order in which they are written; those of embedded
// structs count as its own. It panics if one has no tag with its name.
func Fields(t reflect.Type) []Field { return fieldsAt(nil, t, 0, nil) }

func fieldsAt(all []Field, t reflect.Type, offset uintptr, index []int) []Field {
	for i := range t.NumField() {
		at, index := t.Field(i), append(slices.Clip(index), i)
		tag, tagged := at.Tag.Lookup("json")
		switch {
		case tag == "-":
			continue
		case at.Anonymous && !tagged && at.Type.Kind() == reflect.Struct:
			all = fieldsAt(all, at.Type, offset+at.Offset, index)
			continue
		case !tagged || !at.IsExported():
			wrong("%s.%s has no json tag that names it", t, at.Name)
		}
		name, rest, _ := strings.Cut(tag, ",")
		all = append(all, Field{
			Name: name, Type: at.Type, Index: index, Always: !strings.Contains(rest, "omitzero") && !strings.Contains(rest, "omitempty"),
			path: t.String() + "." + at.Name, offset: offset + at.Offset, null: at.Tag.Get("form") == "null",
		})
	}
	return all
}

// Spelled tells whether a type marshals and unmarshals itself as text.
func Spelled(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
