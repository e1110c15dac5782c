package form

import (
	"fmt"
	"reflect"
	"strings"
)

// Shape describes the structure of a type, at every depth: names in tags, and kinds. While it stays
// the same, all earlier output for the type can be read, and is as complete as today's.
func Shape[T any]() string {
	var b strings.Builder
	shape(&b, reflect.TypeFor[T](), map[reflect.Type]bool{})
	return b.String()
}

func shape(b *strings.Builder, t reflect.Type, within map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer:
		b.WriteByte('*')
		shape(b, t.Elem(), within)
	case reflect.Slice:
		b.WriteString("[]")
		shape(b, t.Elem(), within)
	case reflect.Map:
		fmt.Fprintf(b, "map[%s]", t.Key().Kind())
		shape(b, t.Elem(), within)
	case reflect.Struct:
		if within[t] || t.NumField() == 0 || t.Field(0).PkgPath != "" { // a recursion, or a type with its own form, such as a time
			b.WriteString(t.Name())
			return
		}
		within[t] = true
		b.WriteByte('{')
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(b, "%s ", f.Tag.Get("json"))
			shape(b, f.Type, within)
			b.WriteByte(';')
		}
		b.WriteByte('}')
		delete(within, t)
	default:
		b.WriteString(t.Kind().String())
	}
}
