package value

import (
	"fmt"
	"reflect"
	"strings"
)

// List names several things in a text, "day, week, month"; "none" if there are none.
func List[T any](all []T) string {
	if len(all) == 0 {
		return "none"
	}
	parts := make([]string, len(all))
	for i, one := range all {
		parts[i] = fmt.Sprint(one)
	}
	return strings.Join(parts, ", ")
}

// WordsOf returns the words that a field of a struct accepts, by its name in JSON: those of its tag
// "words".
func WordsOf[T any](field string) []string {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == field {
			return strings.Split(f.Tag.Get("words"), ",")
		}
	}
	Assert(false, "value: %v has no field %s", reflect.TypeFor[T](), field)
	return nil
}
