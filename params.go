package millrace

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// fault returns what is wrong with the options.
func (s *settings) fault() error { return value.JoinFaults(s.wrong...) }

// lone is the parameter of a function whose argument has no fields.
const lone = job.Lone

// fielded tells whether values of a type are written as objects, whose fields become parameters.
func fielded(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return (t.Kind() == reflect.Struct || t.Kind() == reflect.Map) && !writesItself(t)
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonReader    = reflect.TypeFor[json.Unmarshaler]()
	textReader    = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// writesItself tells whether a type has a JSON form of its own.
func writesItself(t reflect.Type) bool { return has(t, jsonMarshaler) || has(t, textMarshaler) }

func has(t, method reflect.Type) bool {
	return t.Implements(method) || reflect.PointerTo(t).Implements(method)
}

// encode returns an argument as parameters.
func encode[In any](in In) (params map[string]json.RawMessage, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	if !fielded(reflect.TypeFor[In]()) {
		return map[string]json.RawMessage{lone: body}, nil
	}
	return params, json.Unmarshal(body, &params)
}

// decode is the reverse of encode.
func decode[In any](params json.RawMessage) (in In, err error) {
	if fielded(reflect.TypeFor[In]()) {
		return in, json.Unmarshal(params, &in)
	}
	var one struct {
		Value In `json:"value"`
	}
	err = json.Unmarshal(params, &one)
	return one.Value, err
}

// encodeResult returns what a function returned as a task's result; nil for nothing.
func encodeResult(out any) (json.RawMessage, error) {
	if _, none := out.(struct{}); none {
		return nil, nil
	}
	body, err := json.Marshal(out)
	if bytes.Equal(body, []byte("null")) {
		return nil, err
	}
	return body, err
}

// decodeResult reads a task's result, which another program may have made: one that does not fit the type is an
// error that says where, and what is wanted there.
func decodeResult[Out any](result json.RawMessage, out *Out) error {
	if err := json.Unmarshal(result, out); err != nil {
		return value.Plainly(err)
	}
	t := reflect.TypeFor[Out]()
	schema, known := shapes.Load(t)
	if !known {
		schema = value.Must(value.Decode(shapeOf(t)))
		shapes.Store(t, schema)
	}
	return param.Hold(schema, result) // a field that is missing
}

// shapeOf is the schema of a type, as JSON.
func shapeOf(t reflect.Type) []byte { return value.Must(json.Marshal(schemaOf(t, nil))) } // words and maps always marshal

// returned is the schema that the results of a function have, for its job; nil for any, or if it is too dear.
func returned(t reflect.Type) json.RawMessage {
	if schema := shapeOf(t); t != reflect.TypeFor[struct{}]() && string(schema) != "null" && param.ValidResult(schema) == nil {
		return schema
	}
	return nil
}

// shapes are the schemas of results, by their types.
var shapes sync.Map

// declared returns the parameters of a function with such an argument. A map may have any.
func declared(t reflect.Type) (all []param.Param) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case !fielded(t):
		return []param.Param{declare(lone, "", t, false)}
	case t.Kind() == reflect.Map:
		return nil
	}
	eachField(t, func(f reflect.StructField, name string, optional bool) {
		p := declare(name, f.Tag.Get("doc"), f.Type, optional)
		p.Enum = choices(f)
		all = append(all, p)
	})
	return all
}

// choices are the values that a field may have by its tag enum, with commas between; none for any.
func choices(f reflect.StructField) (all []json.RawMessage) {
	tag, ok := f.Tag.Lookup("enum")
	if !ok {
		return nil
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t, all = t.Elem(), append(all, json.RawMessage("null"))
	}
	for text := range strings.SplitSeq(tag, ",") {
		raw := json.RawMessage(text)
		if t.Kind() == reflect.String || !json.Valid(raw) {
			raw = value.Must(json.Marshal(text))
		}
		all = append(all, raw)
	}
	return all
}

// asked is the form of an answer that becomes a value of a type, and whether that is its only question's value; none
// for a type that may read any JSON, or whose form is no valid one, or too large.
func asked(t reflect.Type) (form []param.Param, alone bool) {
	perhaps := t.Kind() == reflect.Pointer
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if alone = t.Kind() != reflect.Struct || writesItself(t) || has(t, jsonReader) || has(t, textReader); alone {
		form = []param.Param{declare(lone, "", t, perhaps)}
	} else {
		form = declared(t)
	}
	anything := alone && form[0].Type == "" && form[0].Schema == nil
	large := len(value.Must(json.Marshal(form))) > job.MaxForm
	if anything || large || (&param.Params{Declared: form}).Validate() != nil {
		return nil, false
	}
	return form, alone
}

func declare(name, doc string, t reflect.Type, optional bool) param.Param {
	p := param.Param{Name: name, Description: doc, Optional: optional}
	schema := schemaOf(t, nil)
	if simple, ok := schema["type"].(string); ok && len(schema) == 1 {
		p.Type = simple
	} else if len(schema) > 0 {
		p.Schema, _ = json.Marshal(schema) // words and maps always marshal
	}
	return p
}

// field is a field of a struct as JSON has it. It is optional if it may be left out: one with omitempty or
// omitzero, a pointer, and all of an embedded pointer.
type field struct {
	reflect.StructField
	name             string
	optional, tagged bool
	depth            int
}

// eachField calls do with the fields of a struct as JSON has them: of several with one name the outermost, or the
// one with a tag, or none.
func eachField(t reflect.Type, do func(f reflect.StructField, name string, optional bool)) {
	all := fieldsOf(t, nil, false)
	for i, f := range all {
		hides := func(o field) bool {
			return o.name == f.name && (o.depth < f.depth || o.depth == f.depth && (o.tagged || !f.tagged))
		}
		if !slices.ContainsFunc(all[:i], hides) && !slices.ContainsFunc(all[i+1:], hides) {
			do(f.StructField, f.name, f.optional)
		}
	}
}

// fieldsOf lists the fields of a struct and of those embedded in it; above are the structs around it.
func fieldsOf(t reflect.Type, above []reflect.Type, optional bool) (all []field) {
	if slices.Contains(above, t) {
		return nil
	}
	for f := range t.Fields() {
		name, flags, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-" && flags == "":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct && !writesItself(inner):
			all = append(all, fieldsOf(inner, append(above, t), optional || inner != f.Type)...)
		case f.IsExported():
			may := optional || strings.Contains(flags, "omit") || f.Type.Kind() == reflect.Pointer
			switch quoted := strings.Contains(flags, "string"); {
			case quoted && f.Type != inner:
				f.Type = reflect.TypeFor[*string]()
			case quoted:
				f.Type = reflect.TypeFor[string]()
			}
			all = append(all, field{f, cmp.Or(name, f.Name), may, name != "", len(above)})
		}
	}
	return all
}

// schemaOf returns the JSON Schema of how a type is written, as far as the type says it; above are
// the structs around it.
func schemaOf(t reflect.Type, above []reflect.Type) map[string]any {
	of := func(kind string) map[string]any { return map[string]any{"type": kind} }
	orNull := func(kind string) map[string]any { return map[string]any{"type": []string{kind, "null"}} }
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": param.String, "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		s := schemaOf(t.Elem(), above)
		if kind, ok := s["type"].(string); ok {
			s["type"] = []string{kind, "null"}
		}
		return s
	case t == reflect.TypeFor[json.Number]():
		return of(param.Number)
	case has(t, jsonMarshaler) || has(t, jsonReader):
		return nil
	case has(t, textMarshaler):
		return of(param.String)
	case has(t, textReader):
		return nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return of(param.Boolean)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return of(param.Integer)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return map[string]any{"type": param.Integer, "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return of(param.Number)
	case reflect.String:
		return of(param.String)
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return orNull(param.String)
		}
		s := of(param.Array)
		if t.Kind() == reflect.Slice {
			s = orNull(param.Array)
		}
		s["items"] = schemaOf(t.Elem(), above)
		return orAny(s, "items")
	case reflect.Map:
		s := orNull(param.Object)
		s["additionalProperties"] = schemaOf(t.Elem(), above)
		return orAny(s, "additionalProperties")
	case reflect.Struct:
		return structSchema(t, above)
	}
	return nil
}

// orAny leaves out a part that says nothing.
func orAny(s map[string]any, part string) map[string]any {
	if in, _ := s[part].(map[string]any); len(in) == 0 {
		delete(s, part)
	}
	return s
}

func structSchema(t reflect.Type, above []reflect.Type) map[string]any {
	for _, a := range above {
		if a == t { // schemas here cannot refer to themselves
			return map[string]any{"type": param.Object}
		}
	}
	above = append(above, t)
	properties, required := map[string]any{}, []string{}
	eachField(t, func(f reflect.StructField, name string, optional bool) {
		s := schemaOf(f.Type, above)
		if s == nil {
			s = map[string]any{}
		}
		if enum := choices(f); enum != nil {
			s["enum"] = enum
		}
		if properties[name] = s; !optional {
			required = append(required, name)
		}
	})
	return map[string]any{"type": param.Object, "properties": properties, "required": required}
}
