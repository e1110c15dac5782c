package httpapi

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"millrace/events/jet/rights"
	"millrace/service/answers"
)

// prefix begins the paths of all requests. An incompatible change gets another number.
const prefix = "/api/v1"

// route says where a verb of the service is.
type route struct {
	verb         rights.Verb
	method, path string
}

// operation is a route with its endpoint.
type operation struct {
	route
	endpoint answers.Endpoint
	fields   map[string]field // of the request, by their names in JSON
	named    []string         // those in the path
}

// operations returns all of them, in the order of the endpoints.
func operations() (all []operation) {
	for _, e := range answers.Endpoints() {
		for _, r := range e.Routes {
			o := operation{route: route{e.Verb, r.Method, r.Path}, endpoint: e, fields: fieldsOf(e.Request)}
			for part := range strings.SplitSeq(r.Path, "/") {
				if name, ok := strings.CutPrefix(part, "{"); ok {
					o.named = append(o.named, strings.TrimSuffix(name, "}"))
				}
			}
			if r.Only != nil {
				maps.DeleteFunc(o.fields, func(name string, _ field) bool {
					return !slices.Contains(r.Only, name) && !slices.Contains(o.named, name)
				})
			}
			all = append(all, o)
		}
	}
	return all
}

// field is a field of a request or an answer.
type field struct {
	name  string // in JSON
	is    reflect.Type
	owner reflect.Type // the struct that declares it

	optional bool
}

// fieldsOf returns the fields of a type by their names in JSON; fields of embedded types count
// unless a field of the type itself has the name.
func fieldsOf(t reflect.Type) map[string]field {
	all := map[string]field{}
	collect(t, false, all)
	return all
}

// collect adds the fields of a struct; optional tells that the struct itself may be missing.
func collect(t reflect.Type, optional bool, into map[string]field) {
	if t.Kind() == reflect.Pointer {
		t, optional = t.Elem(), true
	}
	var within []reflect.Type
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		_, known := into[name]
		switch {
		case f.Anonymous && name == "":
			within = append(within, f.Type)
		case f.IsExported() && name != "-" && name != "" && !known && f.Tag.Get("hidden") == "":
			into[name] = field{name, f.Type, t, optional || strings.Contains(options, "omit")}
		}
	}
	for _, t := range within {
		collect(t, optional, into)
	}
}
