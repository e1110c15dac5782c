package jobfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

func (r *reader) text(v entry) string {
	switch v.kind {
	case text:
		return v.text
	case number, boolean:
		r.refuse(v, "want text, got %s: put it in quotes", describe(v.node))
	default:
		r.want(v, "text")
	}
	return ""
}

// line reads text that must not be empty: an empty field is a slip.
func (r *reader) line(v entry) string {
	s := r.text(v)
	if v.kind == text && s == "" {
		r.refuse(v, "it is empty: write a command or leave the field out")
	}
	return s
}

func (r *reader) name(v entry, what string) string {
	s := r.text(v)
	if v.kind != text {
		return ""
	}
	if err := value.ValidName(what, s); err != nil {
		r.add(v.pos, v.path, "%s", err)
		return ""
	}
	return s
}

func (r *reader) oneOf(v entry, words []string) string {
	s := r.text(v)
	if v.kind != text || slices.Contains(words, s) {
		return s
	}
	hint := ""
	if meant := value.Word(s, words); meant != "" {
		hint = fmt.Sprintf(": did you mean %q?", meant)
	}
	last := len(words) - 1
	r.refuse(v, "want %s or %s, got %s%s", strings.Join(words[:last], ", "), words[last], describe(v.node), hint)
	return s
}

// scalar reads a value that ends as text for a process or a label, where quotes around a number
// would be a nuisance: 1.10 stays "1.10".
func (r *reader) scalar(v entry) string {
	switch v.kind {
	case text, number, boolean:
		return v.text
	case null:
		r.refuse(v, `want text, got nothing: write "" for empty text`)
	default:
		r.want(v, "text")
	}
	return ""
}

func (r *reader) duration(v entry) value.Duration {
	var d value.Duration
	switch v.kind {
	case text:
		if err := d.UnmarshalText([]byte(v.text)); err != nil {
			r.refuse(v, "%v", err)
		}
	case number:
		if n, ok := value.ParseNumber(v.text); ok && n.Compare("0") == 0 {
			break // as a flag takes it
		}
		s := excerpt(v.text)
		r.refuse(v, "the duration %s has no unit: write %ss for seconds, %sm for minutes or %sh for hours", s, s, s, s)
	default:
		r.want(v, "a duration such as 90s or 1h30m")
	}
	return d
}

func (r *reader) size(v entry) value.Size {
	var s value.Size
	switch v.kind {
	case text:
		var err error
		if s, err = value.ParseSize(v.text); err != nil {
			r.refuse(v, "%v", err)
		}
	case number:
		if v.text == "0" {
			break
		}
		n := excerpt(v.text)
		r.refuse(v, "the size %s has no unit: write %sB for bytes or %sMiB", n, n, n)
	default:
		r.want(v, "a size such as 64MiB")
	}
	return s
}

func (r *reader) yes(v entry) bool {
	if v.kind != boolean {
		r.want(v, "true or false")
	}
	return v.kind == boolean && strings.ToLower(v.text) == "true"
}

// whole reads a whole number from a bound on. It may be written 3.0 or 3e0, as in JSON.
func (r *reader) whole(v entry, least int) int {
	n, ok := r.exact(v, "a whole number")
	switch i, fits := n.Int(); {
	case !ok:
	case !n.Whole():
		r.want(v, "a whole number")
	case !fits || max(i, -i) > math.MaxInt32:
		r.want(v, fmt.Sprintf("a whole number up to %d", math.MaxInt32))
	case i < least:
		r.refuse(v, "want %d or more, got %s", least, describe(v.node))
	default:
		return i
	}
	return 0
}

func (r *reader) float(v entry) float64 {
	n, ok := r.exact(v, "a number")
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		r.want(v, "a number")
		return 0
	}
	return f
}

// exact reads a number with all its digits.
func (r *reader) exact(v entry, what string) (value.Number, bool) {
	if v.kind != number {
		r.want(v, what)
		return "", false
	}
	s, err := jsonNumber(v.text)
	if err != nil {
		r.refuse(v, "%v", err)
		return "", false
	}
	return value.Number(s), true
}

// priority refuses a value out of bounds here, because the rules read 0 as unset.
func (r *reader) priority(v entry) int {
	n, ok := r.exact(v, "a whole number")
	if !ok {
		return 0
	}
	p, whole := n.Int()
	if !whole || p < placement.MinPriority || p > placement.MaxPriority {
		r.refuse(v, "want a whole number from %d to %d, the larger the more urgent", placement.MinPriority, placement.MaxPriority)
		return 0
	}
	return p
}

// json reads a value of any kind, or a mapping if the field wants one.
func (r *reader) json(v entry, f reflect.StructField) json.RawMessage {
	if f.Tag.Get("read") == "mapping" && v.kind != mapping {
		r.want(v, "a JSON Schema, which is a mapping such as {items: {type: string}}")
		return nil
	}
	return r.appendJSON(nil, v)
}

// defaults reads values of any kind by their names.
func (r *reader) defaults(v entry) map[string]json.RawMessage {
	if v.kind != mapping {
		r.want(v, "a mapping from names to default values, or a list that declares each, such as [{name: depth, type: integer}]")
		return nil
	}
	all := make(map[string]json.RawMessage, len(v.fields))
	for _, f := range v.fields {
		if declares(f.node) {
			r.refuse(entry{f.node, join(v.path, f.name), f.pos}, "this would be the default value, and reads like a declaration: declare parameters in a list, such as params: [{name: %s, …}]", f.name)
		}
		all[f.name] = r.appendJSON(nil, entry{f.node, join(v.path, f.name), f.pos})
	}
	return all
}

// declares tells whether a default value reads as what a list declares of a parameter: a type, an enumeration or a secret, and no other fields.
func declares(v *node) bool {
	if v.kind != mapping {
		return false
	}
	says := false
	for _, f := range v.fields {
		switch f.name {
		case "type":
			says = says || slices.Contains(param.Types, f.node.text)
		case "enum":
			says = says || f.node.kind == list
		case "secret":
			says = says || f.node.text == "true"
		case "title", "description", "min", "max", "pattern", "schema", "default", "optional":
		default:
			return false
		}
	}
	return says
}

// selector reads a list of requirements, or a mapping from labels to values.
func (r *reader) selector(v entry) placement.Selector {
	var s placement.Selector
	switch v.kind {
	case text:
		s = r.requirements(v)
	case list:
		if len(v.items) == 0 {
			r.refuse(v, "the list is empty: fill it or leave the field out")
		}
		for i, n := range v.items {
			s = append(s, r.requirements(entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos})...)
		}
	case mapping:
		for _, f := range v.fields {
			at := entry{f.node, join(v.path, f.name), f.pos}
			if f.node.kind == list {
				one := placement.Requirement{Key: f.name, Op: placement.OpIn}
				r.slice(at, reflect.ValueOf(&one.Values).Elem(), reflect.StructField{Tag: `read:"scalar"`})
				s = append(s, one)
			} else {
				s = append(s, placement.SelectLabel(f.name, r.scalar(at)))
			}
		}
	default:
		r.want(v, "a list such as [\"zone in (eu,us)\", gpu] or a mapping such as {zone: eu}")
	}
	return s
}

func (r *reader) requirements(v entry) placement.Selector {
	line := r.line(v)
	if v.kind != text {
		return nil
	}
	s, err := placement.ParseSelector(line)
	if err != nil {
		r.refuse(v, "%v", err)
	}
	return s
}

// appendJSON writes a value as JSON, with the digits of numbers as in the file.
func (r *reader) appendJSON(b []byte, v entry) []byte {
	switch v.kind {
	case boolean:
		return append(b, strings.ToLower(v.text)...)
	case number:
		s, err := jsonNumber(v.text)
		if err != nil {
			r.refuse(v, "%v", err)
		}
		return append(b, s...)
	case text:
		return appendJSONText(b, v.text)
	case list:
		b = append(b, '[')
		for i, n := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.appendJSON(b, entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos})
		}
		return append(b, ']')
	case mapping:
		b = append(b, '{')
		for i, f := range v.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSONText(b, f.name), ':')
			b = r.appendJSON(b, entry{f.node, join(v.path, f.name), f.pos})
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func appendJSONText(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always has a JSON form
	return append(b, quoted...)
}

// jsonNumber returns the JSON form of a YAML number.
func jsonNumber(s string) (string, error) {
	if json.Valid([]byte(s)) {
		return s, nil
	}
	digits := strings.TrimLeft(s, "+-")
	switch {
	case strings.ContainsAny(digits, "nN"): // .inf, .nan
		return "", fmt.Errorf("JSON has no number %s: put it in quotes for text", s)
	case strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0o"):
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			return "", fmt.Errorf("the number %s is too large: put it in quotes for text", excerpt(s))
		}
		return strconv.FormatUint(n, 10), nil
	case len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9':
		// Some readers of YAML read it as octal, others as decimal, and mostly neither is intended.
		return "", fmt.Errorf("the number %s begins with 0: put it in quotes for text, or drop the 0", excerpt(s))
	}
	// The remaining forms are +1, .5 and 1., which JSON writes 1, 0.5 and 1.
	whole, rest := digits, ""
	if i := strings.IndexAny(digits, ".eE"); i >= 0 {
		whole, rest = digits[:i], digits[i:]
	}
	if whole == "" {
		whole = "0"
	}
	if rest == "." || strings.HasPrefix(rest, ".e") || strings.HasPrefix(rest, ".E") {
		rest = rest[1:]
	}
	if s[0] == '-' {
		whole = "-" + whole
	}
	if n := whole + rest; json.Valid([]byte(n)) {
		return n, nil
	}
	return "", errors.New("the number " + excerpt(s) + " has no JSON form")
}
