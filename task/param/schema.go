package param

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"millrace/task/value"
)

// This file holds values against JSON Schema, draft 2020-12, without references. Numbers are
// compared with all their digits. Values and schemas are what [value.Decode] returns.

// wants says what a keyword of a schema must be.
type wants string

const (
	aSchema   wants = "a schema"
	schemas   wants = "a list of schemas"
	byName    wants = "a mapping from names to schemas"
	byPattern wants = "a mapping from regular expressions to schemas"
	aCount    wants = "a whole number from 0 on"
	aNumber   wants = "a number"
	positive  wants = "a number above 0"
	typeNames wants = "one of null, boolean, integer, number, string, array, object, or a list of them"
	names     wants = "a list of names"
	namesEach wants = "a mapping from names to lists of names"
	aPattern  wants = "a regular expression"
	aList     wants = "a list"
	yesOrNo   wants = "true or false"
	text      wants = "text"
	anything  wants = "any value"
)

var keywords = map[string]wants{
	"type": typeNames, "enum": aList, "const": anything,
	"minimum": aNumber, "maximum": aNumber, "exclusiveMinimum": aNumber, "exclusiveMaximum": aNumber, "multipleOf": positive,
	"minLength": aCount, "maxLength": aCount, "pattern": aPattern,
	"items": aSchema, "prefixItems": schemas, "contains": aSchema, "minContains": aCount, "maxContains": aCount,
	"minItems": aCount, "maxItems": aCount, "uniqueItems": yesOrNo, "unevaluatedItems": aSchema,
	"properties": byName, "patternProperties": byPattern, "additionalProperties": aSchema, "propertyNames": aSchema, "unevaluatedProperties": aSchema,
	"required": names, "dependentRequired": namesEach, "dependentSchemas": byName, "minProperties": aCount, "maxProperties": aCount,
	"allOf": schemas, "anyOf": schemas, "oneOf": schemas, "not": aSchema, "if": aSchema, "then": aSchema, "else": aSchema,
	"title": text, "description": text, "default": anything, "examples": aList, "deprecated": yesOrNo, "readOnly": yesOrNo, "writeOnly": yesOrNo,
	"format": text, "contentEncoding": text, "contentMediaType": text, "contentSchema": aSchema, "$comment": text,
}

// validSchema refuses what is no schema, and one that refers to others, because resolving it could
// take for ever.
func validSchema(schema any) error {
	s, ok := schema.(map[string]any)
	if !ok {
		if _, ok = schema.(bool); !ok {
			return fmt.Errorf("%s is no schema: want a mapping such as {type: string}", short(schema))
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		want, known := keywords[name]
		switch {
		case !known && strings.HasPrefix(name, "$"):
			return fmt.Errorf("%s refers to another schema: write out what is meant", name)
		case !known:
			return fmt.Errorf("%q is no keyword of JSON Schema", name)
		}
		if err := want.check(s[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// check refuses the value of a keyword.
func (w wants) check(is any) error {
	each := func(all []any, ok func(any) bool) bool {
		return !slices.ContainsFunc(all, func(one any) bool { return !ok(one) })
	}
	isText := func(is any) bool { _, ok := is.(string); return ok }
	list, isList := is.([]any)
	named, isNamed := is.(map[string]any)
	n, isNumber := is.(value.Number)
	ok := true
	switch w {
	case aSchema:
		return validSchema(is)
	case schemas:
		if ok = isList && len(list) > 0; ok {
			for i, one := range list {
				if err := validSchema(one); err != nil {
					return fmt.Errorf("[%d]: %w", i, err)
				}
			}
		}
	case byName, byPattern:
		ok = isNamed
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if w == byPattern {
				if err := aPattern.check(name); err != nil {
					return err
				}
			}
			if err := validSchema(named[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	case aCount:
		count, small := n.Int()
		ok = isNumber && small && count >= 0
	case aNumber:
		ok = isNumber
	case positive:
		ok = isNumber && n.Compare("0") > 0
	case typeNames:
		isType := func(is any) bool { return is == "null" || slices.Contains(Types, fmt.Sprint(is)) }
		ok = isType(is) || isList && len(list) > 0 && each(list, isType)
	case names:
		ok = isList && each(list, isText)
	case namesEach:
		ok = isNamed
		for _, one := range named {
			its, isList := one.([]any)
			ok = ok && isList && each(its, isText)
		}
	case aPattern:
		if ok = isText(is); ok {
			return validPattern(is.(string))
		}
	case aList:
		ok = isList
	case yesOrNo:
		_, ok = is.(bool)
	case text:
		ok = isText(is)
	}
	if !ok {
		return fmt.Errorf("want %s, got %s", w, short(is))
	}
	return nil
}

func validPattern(pattern string) error {
	if _, err := regexp.Compile(pattern); err != nil {
		return fmt.Errorf("%q is no regular expression (RE2): %s", cut(pattern), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return nil
}

// reached is what of a list or an object some schema has looked at.
type reached struct {
	items  map[int]bool
	fields map[string]bool
}

func (r *reached) add(more reached) {
	if r.items == nil {
		r.items, r.fields = map[int]bool{}, map[string]bool{}
	}
	maps.Copy(r.items, more.items)
	maps.Copy(r.fields, more.fields)
}

// Hold tells where a value does not fit a schema, which is as [value.Decode] returns it; one that is null fits all.
func Hold(schema any, given json.RawMessage) error {
	is, err := value.Decode(given)
	if err != nil || schema == nil {
		return err
	}
	return hold(schema, is)
}

// ValidResult refuses a schema of results that is none, or that takes too long; none is valid.
func ValidResult(schema json.RawMessage) error {
	d := Param{Name: "result", Schema: schema}
	return cmp.Or(d.tooDear(), d.validate())
}

// HoldResult is [Hold] for a result and a valid schema. No result is null. One that would take too long is
// refused.
func HoldResult(schema, result json.RawMessage) error {
	d := Param{Name: "result", Schema: schema}
	if most := d.most(); len(result) > most {
		return fmt.Errorf("it has %d bytes, and its schema is for at most %d", len(result), most)
	}
	is, err := value.Decode(schema)
	if err != nil {
		return err
	}
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	return Hold(is, result)
}

// hold returns what of a value its schema refuses; nil if nothing.
func hold(schema, is any) error {
	_, err := holds(schema, is)
	return err
}

// holds is [hold], and says what of the value the schema has looked at.
func holds(schema, is any) (seen reached, err error) {
	s, ok := schema.(map[string]any)
	if !ok {
		if schema == false {
			return seen, errors.New("nothing is allowed here")
		}
		return seen, nil
	}
	seen.add(reached{})
	if err := isOne(s, is); err != nil {
		return seen, err
	}
	switch is := is.(type) {
	case value.Number:
		err = inRange(s, is)
	case string:
		err = counted(s, "Length", utf8.RuneCountInString(is), "characters")
		if p, ok := s["pattern"].(string); ok && err == nil && !matches(p, is) {
			err = fmt.Errorf("%s does not match %s", short(is), p)
		}
	case []any:
		err = items(s, is, seen)
	case map[string]any:
		err = fields(s, is, seen)
	}
	if err == nil {
		err = combined(s, is, &seen)
	}
	if err != nil {
		return seen, err
	}
	return seen, rest(s, is, seen)
}

// isOne applies type, enum and const.
func isOne(s map[string]any, is any) error {
	if want := s["type"]; want != nil {
		all, several := want.([]any)
		if !several {
			all = []any{want}
		}
		if !slices.ContainsFunc(all, func(t any) bool { return isType(t, is) }) {
			return fmt.Errorf("%s is not of type %s", short(is), spelled(want))
		}
	}
	equals := func(one any) bool { return value.Equal(one, is) }
	if all, ok := s["enum"].([]any); ok && !slices.ContainsFunc(all, equals) {
		return fmt.Errorf("%s is not one of %s", short(is), spelled(all))
	}
	if one, ok := s["const"]; ok && !equals(one) {
		return fmt.Errorf("%s is not %s", short(is), spelled(one))
	}
	return nil
}

// isType tells whether a value is of a type of JSON Schema.
func isType(name, is any) bool {
	switch is := is.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == Boolean
	case value.Number:
		return name == Number || name == Integer && is.Whole()
	case string:
		return name == String
	case []any:
		return name == Array
	}
	return name == Object
}

// inRange applies the bounds of numbers.
func inRange(s map[string]any, is value.Number) error {
	for _, b := range []struct {
		name, want string
		holds      func(bound value.Number) bool
	}{
		{"minimum", "at least", func(b value.Number) bool { return is.Compare(b) >= 0 }},
		{"maximum", "at most", func(b value.Number) bool { return is.Compare(b) <= 0 }},
		{"exclusiveMinimum", "above", func(b value.Number) bool { return is.Compare(b) > 0 }},
		{"exclusiveMaximum", "below", func(b value.Number) bool { return is.Compare(b) < 0 }},
		{"multipleOf", "a multiple of", is.MultipleOf},
	} {
		if bound, ok := s[b.name].(value.Number); ok && !b.holds(bound) {
			return fmt.Errorf("%s is not %s %s", short(is), b.want, bound)
		}
	}
	return nil
}

// counted applies the bounds of a length.
func counted(s map[string]any, of string, n int, what string) error {
	if least, ok := count(s, "min"+of); ok && n < least {
		return fmt.Errorf("there are %d %s, want at least %d", n, what, least)
	}
	if most, ok := count(s, "max"+of); ok && n > most {
		return fmt.Errorf("there are %d %s, want at most %d", n, what, most)
	}
	return nil
}

func count(s map[string]any, name string) (int, bool) {
	n, ok := s[name].(value.Number)
	if !ok {
		return 0, false
	}
	return n.Int()
}

// items applies what is said of lists.
func items(s map[string]any, is []any, seen reached) error {
	first, _ := s["prefixItems"].([]any)
	for i := range is {
		schema, ok := s["items"]
		if i < len(first) {
			schema, ok = first[i], true
		}
		if !ok {
			continue
		}
		if err := hold(schema, is[i]); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		seen.items[i] = true
	}
	if schema, ok := s["contains"]; ok {
		n := 0
		for i := range is {
			if hold(schema, is[i]) == nil {
				seen.items[i] = true
				n++
			}
		}
		least, set := count(s, "minContains")
		if most, ok := count(s, "maxContains"); !set && n == 0 || n < least || ok && n > most {
			return fmt.Errorf("%d values are as its contains has them", n)
		}
	}
	if s["uniqueItems"] == true {
		there := map[string]bool{}
		for _, one := range is {
			text := spelled(one)
			if there[text] {
				return fmt.Errorf("%s is there twice", short(one))
			}
			there[text] = true
		}
	}
	return counted(s, "Items", len(is), "values")
}

// fields applies what is said of objects.
func fields(s map[string]any, is map[string]any, seen reached) error {
	sorted := slices.Sorted(maps.Keys(is))
	missing := func(all any, because string) error {
		list, _ := all.([]any)
		for _, name := range list {
			if _, there := is[fmt.Sprint(name)]; !there {
				return fmt.Errorf("the field %q is missing%s", name, because)
			}
		}
		return nil
	}
	if err := missing(s["required"], ""); err != nil {
		return err
	}
	own, _ := s["properties"].(map[string]any)
	patterns, _ := s["patternProperties"].(map[string]any)
	together, _ := s["dependentRequired"].(map[string]any)
	for _, name := range sorted {
		var apply []any
		if schema, ok := own[name]; ok {
			apply = append(apply, schema)
		}
		for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
			if matches(pattern, name) {
				apply = append(apply, patterns[pattern])
			}
		}
		if schema, ok := s["additionalProperties"]; ok && len(apply) == 0 {
			apply = append(apply, schema)
		}
		for _, schema := range apply {
			if err := hold(schema, is[name]); err != nil {
				return fmt.Errorf("%s: %w", cut(name), err)
			}
			seen.fields[name] = true
		}
		if schema, ok := s["propertyNames"]; ok {
			if err := hold(schema, name); err != nil {
				return fmt.Errorf("the name of the field %q: %w", cut(name), err)
			}
		}
		if err := missing(together[name], fmt.Sprintf(" beside %q", name)); err != nil {
			return err
		}
	}
	return counted(s, "Properties", len(is), "fields")
}

// combined applies the schemas that a schema combines.
func combined(s map[string]any, is any, seen *reached) error {
	apply := func(schema any) error {
		more, err := holds(schema, is)
		if err == nil {
			seen.add(more)
		}
		return err
	}
	all, _ := s["allOf"].([]any)
	for _, one := range all {
		if err := apply(one); err != nil {
			return err
		}
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		all, set := s[name].([]any)
		n := 0
		var first error
		for _, one := range all {
			if err := apply(one); err == nil {
				n++
			} else if first == nil {
				first = err
			}
		}
		switch {
		case set && n == 0:
			return fmt.Errorf("none of the schemas of its %s holds: %w", name, first)
		case name == "oneOf" && n > 1:
			return fmt.Errorf("%d schemas of its oneOf hold, want one", n)
		}
	}
	if not, ok := s["not"]; ok && hold(not, is) == nil {
		return fmt.Errorf("%s is what its not excludes", short(is))
	}
	if when, ok := s["if"]; ok {
		branch := "then"
		if apply(when) != nil {
			branch = "else"
		}
		if schema, ok := s[branch]; ok {
			if err := apply(schema); err != nil {
				return err
			}
		}
	}
	if object, ok := is.(map[string]any); ok {
		beside, _ := s["dependentSchemas"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(beside)) {
			if _, there := object[name]; there {
				if err := apply(beside[name]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// rest applies what is said of items and fields that no other schema has looked at.
func rest(s map[string]any, is any, seen reached) error {
	switch is := is.(type) {
	case []any:
		if schema, ok := s["unevaluatedItems"]; ok {
			for i := range is {
				if !seen.items[i] {
					if err := hold(schema, is[i]); err != nil {
						return fmt.Errorf("[%d]: %w", i, err)
					}
					seen.items[i] = true
				}
			}
		}
	case map[string]any:
		if schema, ok := s["unevaluatedProperties"]; ok {
			for _, name := range slices.Sorted(maps.Keys(is)) {
				if !seen.fields[name] {
					if err := hold(schema, is[name]); err != nil {
						return fmt.Errorf("%s: %w", cut(name), err)
					}
					seen.fields[name] = true
				}
			}
		}
	}
	return nil
}

// matches tells whether a valid pattern matches part of a text.
func matches(pattern, text string) bool {
	re, err := compiled(pattern)
	return err == nil && re.MatchString(text)
}

// latest is the pattern that was compiled last: a schema holds one item of a list after the other
// against the same.
var latest atomic.Pointer[regexp.Regexp]

func compiled(pattern string) (*regexp.Regexp, error) {
	if re := latest.Load(); re != nil && re.String() == pattern {
		return re, nil
	}
	re, err := regexp.Compile(pattern)
	if err == nil {
		latest.Store(re)
	}
	return re, err
}
