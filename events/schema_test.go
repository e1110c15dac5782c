package events

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	fields "millrace/internal/form"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
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
			text, err := testkit.Latest(factCorpus, Version, name+".json")
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

// The samples, with which everything else is compared, set every field.
func TestSamplesAreFull(t *testing.T) {
	var zero func(path string, v reflect.Value)
	zero = func(path string, v reflect.Value) {
		// Run.Shell and Spec.Handler exclude fields that the sample sets, and the rate of a queue
		// has no key.
		if strings.HasSuffix(path, ".Shell") || strings.HasSuffix(path, ".Handler") ||
			strings.HasSuffix(path, ".Fold.Carry") || path == "queue.limited.Rate.Key" || path == "queue.carried.Fold.Rate.Key" {
			return
		}
		if v.IsZero() {
			t.Errorf("%s is not set", path)
		}
		switch {
		case v.Type() == reflect.TypeFor[*job.Step](): // has a spec's fields again
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

// The encoder's output for a full event, the decoder's fields and the schema's fields are the same.
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
		expected := append([]string{"type", "v", "id", "at", "actor", "cause", "corr", "repeats", "by"}, form.Names()...)
		if form.about != aboutNothing {
			expected = append(expected, form.about.name())
		}
		if slices.Sort(expected); !slices.Equal(expected, keys) {
			t.Errorf("%s: the decoder expects %v, written are %v", typ, expected, keys)
		}
	}
}

// The files equal the generated schemas.
func TestSchemaFiles(t *testing.T) {
	for _, typ := range append(slices.Clone(Types), "fact") {
		want, _ := Schema(typ)
		path := filepath.Join("schema", string(typ)+".json")
		if *testkit.Update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the type and the words say (%v): go test ./events -run TestSchemaFiles -update", path, err)
		}
	}
}

// A field added to a type appears in its schema without any words: only its description is missing.
func TestAddedFieldsAreInSchemas(t *testing.T) {
	for of, typ := range map[string]reflect.Type{
		"task.submitted": reflect.TypeFor[task.Work](), "spec": reflect.TypeFor[job.Spec](), "usage": reflect.TypeFor[task.Usage](), "by": reflect.TypeFor[task.By](),
	} {
		types := []reflect.Type{reflect.TypeFor[value.Duration](), reflect.TypeFor[[]task.ID](), reflect.TypeFor[map[string]int](), reflect.TypeFor[*task.Usage](), reflect.TypeFor[bool]()}
		wants := []string{`{"$ref":"#/$defs/duration"}`, `{"type":"array","items":{"$ref":"#/$defs/ulid"}}`, `{"type":"object","additionalProperties":{"type":"integer"}}`, `{"$ref":"#/$defs/usage"}`, `{"type":"boolean"}`}
		var with []reflect.StructField
		for i := range typ.NumField() {
			f := typ.Field(i)
			f.Anonymous = false
			if f.Tag == "" {
				f.Tag = reflect.StructTag(`json:"` + strings.ToLower(f.Name) + `"`)
			}
			with = append(with, f)
		}
		for i, more := range types {
			with = append(with, reflect.StructField{Name: "Added" + string(rune('A'+i)), Type: more, Tag: reflect.StructTag(`json:"added_` + string(rune('a'+i)) + `,omitzero"`)})
		}
		s := scribe{of: of}
		all := s.properties("", reflect.StructOf(with))
		for i, m := range all[len(all)-len(types):] {
			got, err := json.Marshal(m.value)
			if err != nil || m.key != "added_"+string(rune('a'+i)) || string(got) != wants[i] {
				t.Errorf("%s, %s: %s, %v; want %s", of, m.key, got, err, wants[i])
			}
		}
	}
}

// All words are about existing fields.
func TestWordsHaveFields(t *testing.T) {
	paths := map[string]map[string]bool{}
	var walk func(in map[string]bool, path string, typ reflect.Type)
	walk = func(in map[string]bool, path string, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		in[path] = true
		if _, shared := sharedTypes[typ]; shared && path != "" || reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return
		}
		switch typ.Kind() {
		case reflect.Slice:
			walk(in, path+"[]", typ.Elem())
		case reflect.Map:
			walk(in, path+"{}", typ.Elem())
		case reflect.Struct:
			for _, f := range fields.Fields(typ) {
				walk(in, strings.TrimPrefix(path+"."+f.Name, "."), f.Type)
			}
		}
	}
	any := map[string]bool{}
	for i := range forms {
		f := &forms[i]
		in := map[string]bool{f.about.name(): true}
		walk(in, "", f.event)
		paths[string(f.typ)] = in
		maps.Copy(any, in)
	}
	paths["*"] = any
	for typ, name := range sharedTypes {
		if _, said := words().Shared[name]; !said {
			paths[name] = map[string]bool{}
			walk(paths[name], "", typ)
		}
	}
	for of, said := range words().Words {
		for path := range said {
			if !paths[of][path] {
				t.Errorf("words speak of %s of %s, which has no such field", path, of)
			}
		}
	}
}

// No field of a type has the name of a common field, and there is a bit for each that records
// whether it was seen.
func TestFieldsAreTheTypesOwn(t *testing.T) {
	for i := range forms {
		f := &forms[i]
		names := f.Names()
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

// The schemas explain every field.
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
	files, err := os.ReadDir("schema")
	if err != nil || len(files) != len(Types)+2 {
		t.Errorf("there are %d schemas (%v), want one for each type, the shared one and the words", len(files), err)
	}
	if _, ok := Schema("task.vanished"); ok {
		t.Error("there is a schema of a type that does not exist")
	}
}
