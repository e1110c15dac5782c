package events

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"millrace/internal/corpus"
	"millrace/task"
)

const schemaURL = "file:///schema/"

func compile(t *testing.T, typ Type) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range []Type{typ, "fact"} {
		text, ok := Schema(name)
		if !ok {
			t.Fatalf("%s has no schema", name)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("schema of %s: %v", name, err)
		}
		if err := c.AddResource(schemaURL+string(name)+".json", doc); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile(schemaURL + string(typ) + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestGoldenFilesObeyTheSchemas(t *testing.T) {
	for _, typ := range Types {
		schema := compile(t, typ)
		for _, name := range []string{string(typ), string(typ) + ".min"} {
			text, err := corpus.Latest(factCorpus, Version, name+".json")
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			object := doc.(map[string]any)
			object["a_field_to_come"] = "kept"
			if err := schema.Validate(doc); err != nil {
				t.Errorf("%s with an unknown field: %v", name, err)
			}
			object["at"] = "yesterday"
			if schema.Validate(doc) == nil {
				t.Errorf("%s: the schema lets any time pass", name)
			}
		}
	}
}

// The samples with which everything else is compared leave nothing out.
func TestSamplesAreFull(t *testing.T) {
	var zero func(path string, v reflect.Value)
	zero = func(path string, v reflect.Value) {
		// Run.Shell and Spec.Handler exclude what the sample has, and the rate of a queue has no key.
		if strings.HasSuffix(path, ".Shell") || strings.HasSuffix(path, ".Handler") || path == "queue.limited.Rate.Key" {
			return
		}
		if v.IsZero() {
			t.Errorf("%s is not set", path)
		}
		switch {
		case v.Type() == reflect.TypeFor[*task.Step](): // has the fields of a spec again
		case v.Kind() == reflect.Pointer && !v.IsNil():
			zero(path, v.Elem())
		case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
			for i := range v.NumField() {
				zero(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
	for typ, f := range full() {
		zero(string(typ), reflect.ValueOf(f.Event))
		zero(string(typ), reflect.ValueOf(f.By))
	}
}

// What the encoder writes of a full event, what the decoder expects and what
// the schema lists are the same fields.
func TestSchemasListWhatIsWritten(t *testing.T) {
	for typ, f := range full() {
		raw, err := Encode(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := Schema(typ)
		var schema struct {
			Title, Description string
			Properties         map[string]json.RawMessage
			Additional         any `json:"additionalProperties"`
		}
		var written map[string]json.RawMessage
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &written); err != nil {
			t.Fatal(err)
		}
		if schema.Title != string(typ) || schema.Description == "" || schema.Additional != true {
			t.Errorf("the schema of %s has the title %q, the description %q and additionalProperties %v", typ, schema.Title, schema.Description, schema.Additional)
		}
		listed, keys := slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(maps.Keys(written))
		if !slices.Equal(listed, keys) {
			t.Errorf("%s: the schema lists %v, written are %v", typ, listed, keys)
		}
		form := formByType[typ]
		expected := append([]string{"type", "v", "id", "at", "actor", "cause", "corr", "by"}, form.body.names()...)
		if form.about != aboutNothing {
			expected = append(expected, form.about.name())
		}
		if slices.Sort(expected); !slices.Equal(expected, keys) {
			t.Errorf("%s: the decoder expects %v, written are %v", typ, expected, keys)
		}
	}
}

// No field of a type is called as one of every fact is, and there is a bit for each that says whether it was seen.
func TestFieldsAreTheTypesOwn(t *testing.T) {
	for i := range forms {
		f := &forms[i]
		names := f.body.names()
		if len(names) >= 64-aboutBit {
			t.Errorf("%s has %d fields", f.typ, len(names))
		}
		for _, name := range names {
			if _, common := envelope(name); common || name == f.about.name() {
				t.Errorf("%s has a field %s, as every fact has", f.typ, name)
			}
		}
	}
}

// Whoever reads a schema finds every field explained.
func TestSchemasDescribe(t *testing.T) {
	var described func(path string, v any)
	described = func(path string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			return
		}
		for _, list := range []string{"properties", "$defs"} {
			fields, _ := object[list].(map[string]any)
			for name, f := range fields {
				f := f.(map[string]any)
				if _, ok := f["$ref"]; !ok && f["description"] == nil {
					t.Errorf("%s.%s has no description", path, name)
				}
				described(path+"."+name, f)
			}
		}
	}
	for _, typ := range append(slices.Clone(Types), "fact") {
		text, _ := Schema(typ)
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		described(string(typ), doc)
	}
	files, err := schemas.ReadDir("schema")
	if err != nil || len(files) != len(Types)+1 {
		t.Errorf("there are %d schemas (%v), want one for each type and the shared one", len(files), err)
	}
	if _, ok := Schema("task.vanished"); ok {
		t.Error("there is a schema of a type that does not exist")
	}
}
