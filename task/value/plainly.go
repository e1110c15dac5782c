package value

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Plainly explains an error of encoding/json without words of Go: as a [*Misfit] if a value is of
// another type than the field.
func Plainly(err error) error {
	var is *json.UnmarshalTypeError
	if errors.As(err, &is) {
		path := written(is.Field)
		return &Misfit{path, fmt.Sprintf("%s is %s, want %s", cmp.Or(path, "it"), gotWord(is.Value), wantedWord(is.Type))}
	}
	if is, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Errorf("%q is no time, want one such as \"2026-03-01T12:00:00Z\"", is.Value)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no field %s", field)
	}
	return err
}

// written is a path without embedded structs, which stand in it under their names in Go.
func written(path string) string {
	ofGo := func(part string) bool { return part != "" && 'A' <= part[0] && part[0] <= 'Z' }
	parts := strings.Split(path, ".")
	if named := slices.DeleteFunc(slices.Clone(parts), ofGo); len(named) > 0 {
		parts = named
	}
	return strings.Join(parts, ".")
}

// gotWord names a received value, in the decoder's terms, with an article.
func gotWord(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + value // string, or number with its value
}

// wantedWord names the JSON form of a type's values.
func wantedWord(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on"
	case reflect.Pointer:
		return wantedWord(t.Elem())
	}
	return "a whole number"
}

// Legible returns JSON with <, > and & as they are, which encoding/json writes as \u003c, \u003e and
// \u0026: for programs that look for a text in it.
func Legible(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u00`)) {
		return data
	}
	plain := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' || i+1 == len(data) {
			plain = append(plain, data[i])
			continue
		}
		switch code := string(data[i:min(i+6, len(data))]); code {
		case `\u003c`, `\u003e`, `\u0026`:
			plain = append(plain, map[string]byte{`\u003c`: '<', `\u003e`: '>', `\u0026`: '&'}[code])
			i += 5
		default:
			plain = append(plain, data[i], data[i+1])
			i++
		}
	}
	return plain
}

// Cut returns a text of at most so many bytes as it is, and of a longer one as much of its beginning
// with a mark of omission.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
