package httpapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"millrace/events/jet/rights"
	"millrace/service/answers"
	"millrace/task/value"
)

// Tool is how an assistant asks for a verb. Its arguments are fields of the verb's request.
type Tool struct {
	Verb rights.Verb
	// Name is that of the verb, as assistants may spell one: task_why.
	Name string
	// About says what it answers, mostly with examples of arguments.
	About string

	request operation
}

// Tools returns the tools, in the order of the endpoints: verbs of whose requests a query can hold all that
// an assistant may set.
func Tools() (tools []Tool) {
	for _, e := range answers.Endpoints() {
		if e.Tool == nil {
			continue
		}
		o := operation{route: route{verb: e.Verb}, endpoint: e, fields: fieldsOf(e.Request)}
		all, about := len(o.fields), e.About
		maps.DeleteFunc(o.fields, func(name string, f field) bool {
			return e.Tool.Only == nil && !askable(f.is) || e.Tool.Only != nil && !slices.Contains(e.Tool.Only, name)
		})
		if len(o.fields) < all { // an example may have one of the others
			about = o.about()
		}
		tools = append(tools, Tool{e.Verb, strings.ReplaceAll(string(e.Verb), ".", "_"), about, o})
	}
	return tools
}

// Schema is the JSON Schema of the arguments.
func (t *Tool) Schema() any {
	schemas := huma.NewMapRegistry("", huma.DefaultSchemaNamer)
	spelled(t.request.endpoint.Request, schemas, map[reflect.Type]bool{})
	is := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
	for _, name := range t.request.taken() {
		f := t.request.fields[name]
		property := *schemas.Schema(f.is, false, "")
		property.Nullable, property.Description = false, f.about()
		is.Properties[name] = &property
		if !f.optional {
			is.Required = append(is.Required, name)
		}
	}
	return is
}

// Read turns arguments into the request. A null counts as none; an unknown name is refused.
func (t *Tool) Read(arguments json.RawMessage) (json.RawMessage, error) {
	request := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(arguments)) > 0 {
		if err := json.Unmarshal(arguments, &request); err != nil {
			return nil, wrong("the arguments are no JSON object: %w", value.Plainly(err))
		}
	}
	maps.DeleteFunc(request, func(_ string, is json.RawMessage) bool { return string(is) == "null" })
	if err := t.request.knows(request); err != nil {
		return nil, err
	}
	return value.JSON(request)
}

// Takes tells whether it has an argument of a name.
func (t *Tool) Takes(name string) bool {
	_, ok := t.request.fields[name]
	return ok
}
