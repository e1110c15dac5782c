package value

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Plainly explains an error of encoding/json, strconv, time, net/url or an encoding without words of
// Go: as a [*Misfit] if a value is of another type than the field. Any other error stays as it is.
func Plainly(err error) error {
	var is *json.UnmarshalTypeError
	if errors.As(err, &is) {
		path := written(is.Field)
		return &Misfit{path, fmt.Sprintf("%s is %s, want %s", cmp.Or(path, "it"), gotWord(is.Value), wantedWord(is.Type))}
	}
	if is, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Errorf("%q is no time, want one such as \"2026-03-01T12:00:00Z\"", is.Value)
	}
	if is, ok := errors.AsType[*json.SyntaxError](err); ok {
		return syntax(is)
	}
	if is, ok := errors.AsType[*strconv.NumError](err); ok {
		return number(is)
	}
	if is, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%q is no URL: %w", is.URL, is.Err)
	}
	if is, ok := errors.AsType[url.EscapeError](err); ok {
		return fmt.Errorf("%q is no escape of a URL, such as %%20", string(is))
	}
	if is, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return fmt.Errorf("it is no base64 at byte %d", int64(is)+1)
	}
	if is, ok := errors.AsType[hex.InvalidByteError](err); ok {
		return fmt.Errorf("%q is no hexadecimal digit", rune(is))
	}
	text := err.Error()
	if field, ok := strings.CutPrefix(text, "json: unknown field "); ok {
		return fmt.Errorf("there is no field %s", field)
	}
	if of := notDuration.FindStringSubmatch(text); of != nil {
		return fmt.Errorf("%s is no duration, such as 90s or 2h30m", of[1])
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && text == io.ErrUnexpectedEOF.Error() {
		return errors.New("it ends too early")
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

// notDuration is what time says of a text that is no duration.
var notDuration = regexp.MustCompile(`^time: .* duration (".*")$`)

// syntax says what is wrong with a text that is no JSON.
func syntax(is *json.SyntaxError) error {
	text := is.Error()
	if strings.HasPrefix(text, "unexpected end") {
		return errors.New("the JSON ends too early")
	}
	if of := strangeCharacter.FindStringSubmatch(text); of != nil {
		return fmt.Errorf("%s does not belong there in JSON (byte %d)", of[1], is.Offset)
	}
	return fmt.Errorf("it is no JSON (byte %d)", is.Offset)
}

// strangeCharacter is what encoding/json says of a character that it cannot take.
var strangeCharacter = regexp.MustCompile(`^invalid character ('.*')`)

// number says why a text is no number, or not true or false.
func number(is *strconv.NumError) error {
	want := "number"
	switch is.Func {
	case "ParseBool":
		return fmt.Errorf("%q is neither true nor false", is.Num)
	case "Atoi", "ParseInt", "ParseUint":
		want = "whole number"
	}
	if errors.Is(is, strconv.ErrRange) {
		return fmt.Errorf("%s is a number that is too large or too small here", is.Num)
	}
	return fmt.Errorf("%q is no %s", is.Num, want)
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

// Printable is a text as a line, with a dot for each character that could move a cursor or worse: much of what is
// shown was written by tasks' programs.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, text)
}
