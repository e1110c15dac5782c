package form

import (
	"fmt"
	"reflect"
	"strings"
)

// Shape describes what a type is made of, at every depth: names in tags, and kinds. As long as it stays the same, whatever
// was written of a value of the type can be read, and has all that it would have if it were written today.
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
		if within[t] || t.NumField() == 0 || t.Field(0).PkgPath != "" { // itself once more, or with a form of its own, such as a time
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
