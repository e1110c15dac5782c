package httpapi

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"millrace/task/value"
)

// wordsText holds the docstrings of the types in the document. A test writes the file.
//
//go:embed words.json
var wordsText []byte

// words are the docstrings of types, by type and by the name of a field in JSON; "" is the type's.
var words = sync.OnceValue(func() (all map[string]map[string]string) {
	err := json.Unmarshal(wordsText, &all)
	value.Assert(err == nil, "words.json: %v", err)
	return all
})

// home is what the import paths of this module begin with, which may be published under any.
var home = strings.TrimSuffix(reflect.TypeFor[field]().PkgPath(), "service/httpapi")

// wordsKey names a type of this module in the words.
func wordsKey(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return strings.TrimPrefix(t.PkgPath(), home) + "." + name
}

// about returns the docstring of a field.
func (f *field) about() string { return words()[wordsKey(f.owner)][f.name] }

// describe gives each schema, and each property of it, the docstring of its type and field.
func describe(schemas huma.Registry) {
	for name, schema := range schemas.Map() {
		t := schemas.TypeFromRef("#/components/schemas/" + name)
		if t == nil || t.Kind() != reflect.Struct {
			continue
		}
		schema.Description = words()[wordsKey(t)][""]
		for _, f := range fieldsOf(t) {
			if property := schema.Properties[f.name]; property != nil {
				property.Description = f.about()
			}
			if f.optional { // also if a struct around it is missing
				schema.Required = slices.DeleteFunc(schema.Required, func(name string) bool { return name == f.name })
			}
		}
	}
}
