package param

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"millrace/task/value"
)

// Param declares a parameter of a job: its name and its valid values.
type Param struct {
	// Name is 1 to 64 letters, digits, '_' or '-', unique in a job.
	Name string `json:"name" redact:"keep" names:"parameter"`
	// Title and Description are for people.
	Title       string `json:"title,omitempty" redact:"hide"`
	Description string `json:"description,omitempty" redact:"hide"`
	// Type is one of [Types]. Default: any.
	Type string `json:"type,omitempty" redact:"word" words:"string,integer,number,boolean,array,object"`
	// Enum lists the valid values. Default: all values of its type.
	Enum []json.RawMessage `json:"enum,omitempty" redact:"data"`
	// Min and Max bound a number, the characters of a string, the elements of an array or the
	// fields of an object. Default: no bound.
	Min *value.Number `json:"min,omitempty" redact:"keep"`
	Max *value.Number `json:"max,omitempty" redact:"keep"`
	// Pattern is a regular expression (RE2) that must match part of a string. Default: none.
	Pattern string `json:"pattern,omitempty" redact:"hide" read:"line"`
	// Schema is a JSON Schema (draft 2020-12) for rules beyond the fields above. It may not refer
	// to other schemas. Default: none.
	Schema json.RawMessage `json:"schema,omitempty" redact:"drop" read:"mapping"`
	// Default is its value unless a submission sets another. Without one a submission must set it,
	// unless it is optional.
	Default json.RawMessage `json:"default,omitempty" redact:"data"`
	// Optional says that it may be missing.
	Optional bool `json:"optional,omitempty"`
	// Secret says that its value is {"file": PATH}: the file on the node that holds the secret, not
	// the secret itself, because all parameters stay in the log. A program gets the text of the
	// file as the value.
	Secret bool `json:"secret,omitempty"`
}

// Types of parameters.
const (
	String  = "string"
	Integer = "integer"
	Number  = "number"
	Boolean = "boolean"
	Array   = "array"
	Object  = "object"
)

// Types are the types that a parameter can have.
var Types = value.WordsOf[Param]("type")

// Max is how many parameters a job can declare.
const Max = 100

// SecretFile precedes the file name where a secret is given as text.
const SecretFile = "file:"

// MostDigits is how many digits a whole number can have.
const MostDigits = 1000

// Check refuses an invalid value of the parameter; the error says which values are valid. It never
// shows the value of a secret.
func (d *Param) Check(given json.RawMessage) error {
	if _, ok := FileOf(given); d.Secret && !ok {
		return fmt.Errorf("parameter %s is a secret, and a value would stay in the log for all to read: want %s", d.Name, d.Allowed())
	}
	if err := d.tooLong(given); err != nil {
		return err
	}
	is, err := value.Decode(given)
	if err != nil {
		return fmt.Errorf("parameter %s: %w", d.Name, err)
	}
	if d.fits(is) {
		if len(d.Schema) == 0 {
			return nil
		}
		schema, err := value.Decode(d.Schema)
		if err == nil {
			err = hold(schema, is)
		}
		if err == nil {
			return nil
		}
		return fmt.Errorf("parameter %s is %s, want %s: %w", d.Name, cut(string(given)), d.Allowed(), err)
	}
	return fmt.Errorf("parameter %s is %s, want %s", d.Name, cut(string(given)), d.Allowed())
}

// fits tells whether a value has the type and keeps to enum, min, max and pattern.
func (d *Param) fits(is any) bool {
	if d.Type != "" && !isType(d.Type, is) {
		return false
	}
	if len(d.Enum) > 0 && !slices.ContainsFunc(d.Enum, func(e json.RawMessage) bool {
		one, err := value.Decode(e)
		return err == nil && value.Equal(one, is)
	}) {
		return false
	}
	size := value.Number("")
	switch is := is.(type) {
	case value.Number:
		if size = is; d.Type == Integer && strings.Contains(is.Digits(MostDigits), "e") {
			return false
		}
	case string:
		size = counting(utf8.RuneCountInString(is))
		if d.Pattern != "" && !matches(d.Pattern, is) {
			return false
		}
	case []any:
		size = counting(len(is))
	case map[string]any:
		size = counting(len(is))
	}
	return (d.Min == nil || size.Compare(*d.Min) >= 0) && (d.Max == nil || size.Compare(*d.Max) <= 0)
}

func counting(n int) value.Number { return value.Number(strconv.Itoa(n)) }

// Given returns a valid value as a task has it: a whole number is written in digits, also one that
// was given as 1.0 or 1e3. Any other value stays as it is.
func (d *Param) Given(is json.RawMessage) json.RawMessage {
	if n, ok := value.ParseNumber(string(bytes.TrimSpace(is))); ok && d.Type == Integer {
		return json.RawMessage(n.Digits(MostDigits))
	}
	return is
}

// Allowed describes the valid values in words.
func (d *Param) Allowed() string {
	one, many := "", ""
	switch d.Type {
	case String:
		one, many = "text", "characters"
	case Integer:
		one = "a whole number"
	case Number:
		one = "a number"
	case Boolean:
		one = "true or false"
	case Array:
		one, many = "a JSON list", "values"
	case Object:
		one, many = "a JSON object", "fields"
	default:
		one = "any JSON value"
	}
	if d.Secret {
		one = "a file on the node that holds it, as " + SecretFile + "PATH or {\"file\": \"PATH\"}"
	}
	if len(d.Enum) > 0 {
		words := make([]string, len(d.Enum))
		for i, e := range d.Enum {
			words[i] = plainText(e)
		}
		last := len(words) - 1
		if last == 0 {
			return words[0]
		}
		return strings.Join(words[:last], ", ") + " or " + words[last]
	}
	of := ""
	if many != "" {
		of, many = " of", " "+many
	}
	switch {
	case d.Min != nil && d.Max != nil:
		one += fmt.Sprintf("%s %s to %s%s", cmp.Or(of, " from"), *d.Min, *d.Max, many)
	case d.Min != nil:
		one += fmt.Sprintf("%s at least %s%s", of, *d.Min, many)
	case d.Max != nil:
		one += fmt.Sprintf("%s at most %s%s", of, *d.Max, many)
	}
	if d.Pattern != "" {
		one += " in the form " + d.Pattern
	}
	if len(d.Schema) > 0 {
		one += " as its schema has it"
	}
	return one
}

// plainText is a value as typed on a command line: text without its quotes.
func plainText(value json.RawMessage) string {
	var text string
	if bytes.HasPrefix(value, []byte(`"`)) && json.Unmarshal(value, &text) == nil {
		return text
	}
	if file, ok := FileOf(value); ok {
		return SecretFile + file
	}
	return string(value)
}

// DefaultText is the default as a person types it on a command line; "" if there is none.
func (d *Param) DefaultText() string {
	if len(d.Default) == 0 {
		return ""
	}
	return plainText(d.Default)
}

// Texts lists the valid values as a person types them on a command line; none if there are too many
// to list.
func (d *Param) Texts() (texts []string) {
	if d.Type == Boolean && len(d.Enum) == 0 {
		return []string{"true", "false"}
	}
	for _, e := range d.Enum {
		texts = append(texts, plainText(e))
	}
	return texts
}

// shown is how much of a value an error shows.
const shown = 60

// cut shortens a long text for an error.
func cut(text string) string {
	if utf8.RuneCountInString(text) <= shown {
		return text
	}
	return string([]rune(text)[:shown]) + "…"
}

func quoted(name string) string { return strconv.Quote(cut(name)) }

// read parses text as a value of the parameter's type. Invalid text becomes a JSON string, which
// [Param.Check] refuses.
func (d *Param) read(text string) json.RawMessage {
	if file, ok := strings.CutPrefix(text, SecretFile); ok && d.Secret {
		of, _ := value.JSON(secret{file}) // text always marshals
		return of
	}
	for _, e := range d.Enum {
		if plainText(e) == text {
			return e
		}
	}
	if d.Type == String {
		value, _ := value.JSON(text)
		return value
	}
	return textValue(text)
}

// textValue parses text as JSON, or else takes it as a string.
func textValue(text string) json.RawMessage {
	if json.Valid([]byte(text)) && utf8.ValidString(text) {
		return json.RawMessage(text)
	}
	value, _ := value.JSON(text) // text always marshals
	return value
}

// secret is the value of a secret parameter.
type secret struct {
	File string `json:"file"`
}

// FileOf is the file that the value of a secret parameter names; false if the value is anything else.
func FileOf(value json.RawMessage) (file string, ok bool) {
	var s secret
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	ok = d.Decode(&s) == nil && s.File != "" && !strings.ContainsRune(s.File, 0)
	return s.File, ok
}

// short and spelled are a part of a value, or all of it, as an error shows it.
func short(is any) string   { return cut(value.SpellOut(is)) }
func spelled(is any) string { return value.SpellOut(is) }

// validate refuses an invalid declaration. The error begins with the field.
func (d *Param) validate() error {
	if value.ValidName("parameter", d.Name) != nil {
		return fmt.Errorf("name is %q, want 1 to 64 letters a to z or A to Z, digits, '_' or '-', not beginning with '-'", d.Name)
	}
	counted := slices.Contains([]string{String, Array, Object}, d.Type)
	switch {
	case d.Type != "" && !slices.Contains(Types, d.Type):
		return fmt.Errorf("type is %q, want one of %s", d.Type, strings.Join(Types, ", "))
	case d.Secret && (d.Type != "" || d.Min != nil || d.Max != nil || d.Pattern != "" || len(d.Schema) > 0):
		return errors.New("secret is the name of a file on the node: of type, enum, min, max, pattern and schema it can have enum alone")
	case d.Min != nil || d.Max != nil:
		for _, b := range []struct {
			name string
			is   *value.Number
		}{{"min", d.Min}, {"max", d.Max}} {
			switch {
			case b.is == nil:
			case !counted && d.Type != Integer && d.Type != Number:
				return fmt.Errorf("%s bounds a number, or how long something is: set type to one of %s, %s, %s, %s, %s", b.name, Integer, Number, String, Array, Object)
			case counted && (!b.is.Whole() || b.is.Compare("0") < 0):
				return fmt.Errorf("%s is %s, want a whole number of at least 0", b.name, *b.is)
			}
		}
		if d.Min != nil && d.Max != nil && d.Min.Compare(*d.Max) > 0 {
			return fmt.Errorf("max is %s, want at least the min of %s", *d.Max, *d.Min)
		}
	}
	if d.Pattern != "" && d.Type != String {
		return errors.New("pattern is for text: set type to string")
	}
	if err := validPattern(d.Pattern); err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	if len(d.Schema) > 0 {
		schema, err := value.Decode(d.Schema)
		if err == nil {
			err = validSchema(schema)
		}
		if err != nil {
			return fmt.Errorf("schema: %w", err)
		}
	}
	bare := *d
	bare.Enum = nil
	for i, e := range d.Enum {
		if err := bare.Check(e); err != nil {
			return fmt.Errorf("enum[%d]: %w", i, err)
		}
	}
	if len(d.Default) > 0 {
		if err := d.Check(d.Default); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	return nil
}
