package form

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Field is a field of a struct as a form has it.
type Field struct {
	// Name is what it is called.
	Name string
	// Type is its type in Go.
	Type reflect.Type
	// Index is where it is, for [reflect.Value.FieldByIndex].
	Index []int
	// Always says that it is there when it is empty, too.
	Always bool

	path   string // where it was found
	offset uintptr
	null   bool // null means something
}

// Fields are those of a struct, in the order in which they are written; those of structs that it embeds count as its own.
// It panics if one has no tag that names it.
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
			panic(fmt.Sprintf("form: %s.%s has no json tag that names it", t, at.Name))
		}
		name, rest, _ := strings.Cut(tag, ",")
		all = append(all, Field{
			Name: name, Type: at.Type, Index: index, Always: !strings.Contains(rest, "omitzero") && !strings.Contains(rest, "omitempty"),
			path: t.String() + "." + at.Name, offset: offset + at.Offset, null: at.Tag.Get("form") == "null",
		})
	}
	return all
}

// Spelled tells whether values of a type are written as text that they spell themselves.
func Spelled(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
