package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"millrace/service/client"
)

// Document returns the OpenAPI document of a version, ready for JSON.
func Document(version string) any { return document(version, operations()) }

// document builds the OpenAPI document of the operations from the types of requests and answers.
func document(version string, all []operation) *huma.OpenAPI {
	schemas := huma.NewMapRegistry("#/components/schemas/", func(t reflect.Type, hint string) string {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Name() == "" {
			return hint
		}
		// With its package: several packages have types of one name.
		return strings.Trim(strings.Map(plainRune, schemaName(t)), "_")
	})
	for _, o := range all {
		spelled(o.endpoint.Request, schemas, map[reflect.Type]bool{})
		spelled(o.endpoint.Answer, schemas, map[reflect.Type]bool{})
	}
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Millrace", Version: version, Description: preface},
		Components: &huma.Components{
			Schemas:   schemas,
			Responses: map[string]*huma.Response{},
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "a token, or the credential of the machine"},
			},
		},
		Security: []map[string][]string{{"token": {}}},
		Paths:    map[string]*huma.PathItem{},
	}
	named := map[string]bool{}
	for i := range all {
		o := &all[i]
		id := string(o.verb)
		if named[id] { // a second route to the same verb
			id += "." + strings.ToLower(o.method) + "." + strings.Join(o.named, ".")
		}
		named[id] = true
		doc.AddOperation(&huma.Operation{
			OperationID: id, Method: o.method, Path: prefix + o.path, Summary: o.about(),
			Tags:       []string{strings.Split(strings.TrimPrefix(o.path, "/"), "/")[0]},
			Parameters: append(o.parameters(schemas), o.headers()...), RequestBody: o.body(schemas),
			Responses: responses(doc, o.refusals(), "200", o.answer(schemas), o.reads()),
		})
	}
	for i := range carriers {
		doc.AddOperation(carriers[i].describe(doc))
	}
	describe(schemas)
	// Only bodies have it as a schema of its own, as the filter of many tasks.
	filter := schemas.Map()["client.ListRequest"]
	maps.DeleteFunc(filter.Properties, func(name string, _ *huma.Schema) bool { return slices.Contains(client.Unchoosing, name) })
	filter.Description = "which tasks; all fields that are set must hold"
	return doc
}

// preface is the description of the service.
const preface = "What the NATS service answers, over HTTP: see docs/http.md. HEAD answers as GET does, without the body. " +
	"With `Accept-Encoding: gzip` long answers come compressed. A refused request gets a problem (RFC 9457), which says what to do next."

// plainRune replaces runes that may not occur in a reference.
func plainRune(r rune) rune {
	if r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return '_'
}

// about returns the endpoint's description, without its example, which has another form.
func (o *operation) about() string {
	text, _, _ := strings.Cut(o.endpoint.About, ": {")
	return strings.TrimSuffix(text, ":")
}

func (o *operation) parameters(schemas huma.Registry) (all []*huma.Param) {
	for _, name := range o.named {
		f := o.fields[name]
		all = append(all, &huma.Param{Name: name, In: "path", Required: true, Description: f.about(), Schema: plain(schemas, f.is)})
	}
	if !o.reads() {
		return all
	}
	explode := true
	for _, name := range o.asked() {
		f := o.fields[name]
		p := &huma.Param{Name: name, In: "query", Description: f.about(), Schema: plain(schemas, f.is)}
		switch f.is.Kind() {
		case reflect.Slice:
			p.Style, p.Explode = "form", &explode
		case reflect.Map:
			p.Style, p.Explode = "deepObject", &explode
		}
		all = append(all, p)
	}
	return all
}

// askable tells whether a query can hold a value of the type.
func askable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Struct && t.Elem() != reflect.TypeFor[byte]()
	case reflect.Struct:
		return reflect.PointerTo(t).Implements(textUnmarshaler)
	case reflect.Map:
		return t.Elem().Kind() == reflect.String
	case reflect.Pointer, reflect.Interface:
		return false
	}
	return true
}

// plain returns the schema of a parameter, which is never null.
func plain(schemas huma.Registry, t reflect.Type) *huma.Schema {
	s := *schemas.Schema(t, true, "")
	s.Nullable = false
	return &s
}

// reads tells whether the operation has its fields in the query.
func (o *operation) reads() bool { return o.method == http.MethodGet }

func (o *operation) body(schemas huma.Registry) *huma.RequestBody {
	if o.reads() || len(o.fields) == len(o.named) {
		return nil
	}
	is := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
	for _, name := range o.taken() {
		f := o.fields[name]
		property := *schemas.Schema(f.is, true, "")
		property.Description = f.about()
		is.Properties[name] = &property
		if !f.optional {
			is.Required = append(is.Required, name)
		}
	}
	return &huma.RequestBody{Required: len(is.Required) > 0, Content: map[string]*huma.MediaType{"application/json": {Schema: is}}}
}

func (o *operation) answer(schemas huma.Registry) *huma.Response {
	r := &huma.Response{Description: "what was asked for", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemas.Schema(o.endpoint.Answer, true, "")},
	}}
	if o.reads() && !o.endpoint.Once {
		r.Content["text/event-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "the same whenever it has changed, as server-sent events"}}
	}
	if o.reads() {
		r.Headers = map[string]*huma.Param{"ETag": etag}
	}
	return r
}

// anything stands in the document for a type that writes its own JSON.
type anything struct{}

// Schema implements [huma.SchemaProvider].
func (anything) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

var (
	textUnmarshaler = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
	marshaler       = reflect.TypeFor[json.Marshaler]()
)

// spelled maps types that write their own JSON, whose fields therefore say nothing, to anything.
func spelled(t reflect.Type, schemas huma.Registry, seen map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		if t.Implements(marshaler) && t.Kind() != reflect.Pointer {
			break
		}
		// Huma takes a list of bytes for base64, but not these: JSON has a list of their names.
		if e := t.Elem(); t.Kind() == reflect.Slice && e.Kind() == reflect.Uint8 && reflect.PointerTo(e).Implements(textUnmarshaler) {
			schemas.RegisterTypeAlias(t, reflect.TypeFor[[]string]())
		}
		t = t.Elem()
	}
	if seen[t] {
		return
	}
	seen[t] = true
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.PkgPath() == "time":
	case reflect.PointerTo(t).Implements(marshaler) && !reflect.PointerTo(t).Implements(textUnmarshaler):
		schemas.RegisterTypeAlias(t, reflect.TypeFor[anything]())
	case t.Kind() == reflect.Map:
		spelled(t.Elem(), schemas, seen)
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			spelled(f.Type, schemas, seen)
		}
	}
}

// former are the packages by which the document names types: programs are made from it, and a type that moves to
// another package keeps its name there.
var former = map[string]string{"answers": "api", "findings": "book", "placement": "where", "submit": "desk"}

// ofBreakers are types of package limit that the document has under breaker.
var ofBreakers = []string{"Breaker", "Circuit", "Outcomes", "Opened", "HalfOpened", "Tried", "Closed"}

// schemaName returns the name of a type in the document.
func schemaName(t reflect.Type) string {
	of, name, _ := strings.Cut(t.String(), ".")
	switch {
	case of == "limit" && slices.Contains(ofBreakers, name):
		of = "breaker"
	case former[of] != "":
		of = former[of]
	}
	return of + "." + name
}
