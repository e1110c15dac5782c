package jobfile

import (
	"encoding/json"
	"reflect"
	"sync"

	"millrace/internal/form"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

// The fields of a job are declared in package task/job: the tags give their names, and mostly the
// types decide how they are read. The tag "names" of a field says what it names. This file adds
// only what these do not tell, such as which words a field accepts.

// fields returns how to read the fields of a struct, each by its type except for the special ones.
func (r *reader) fields(of any, special setters) setters {
	v := reflect.ValueOf(of).Elem()
	all := setters{}
	for _, f := range form.Fields(v.Type()) {
		to := v.FieldByIndex(f.Index).Addr().Interface()
		if all[f.Name] = special[f.Name]; all[f.Name] != nil {
			continue
		}
		at := v.Type().FieldByIndex(f.Index)
		if what := at.Tag.Get("names"); what != "" {
			all[f.Name] = r.named(to.(*string), what)
		} else if all[f.Name] = r.setter(to); value.ZeroIsDefault(at) {
			all[f.Name] = r.aboveZero(all[f.Name], v.FieldByIndex(f.Index))
		}
	}
	for name := range special {
		value.Assert(all[name] != nil, "jobfile: %s has no field %s", v.Type(), name)
	}
	return all
}

// into makes a function of the value's type read it.
func into[T any](to *T, read func(entry) T) func(entry) { return func(v entry) { *to = read(v) } }

// aboveZero refuses a zero, which would silently be the default.
func (r *reader) aboveZero(set func(entry), field reflect.Value) func(entry) {
	if to, ok := field.Addr().Interface().(*int); ok {
		return into(to, r.atLeastOne)
	}
	return func(v entry) {
		before := len(r.problems)
		if set(v); len(r.problems) == before && field.IsZero() {
			r.refuse(v, "want more than zero: leave the field out for its default")
		}
	}
}

// setter returns how to read the target of a pointer, by its type.
func (r *reader) setter(of any) func(entry) {
	switch to := of.(type) {
	case *string:
		return into(to, r.text)
	case *bool:
		return into(to, r.yes)
	case *int:
		return into(to, r.whole)
	case *float64:
		return into(to, r.number)
	case *value.Duration:
		return into(to, r.duration)
	case *value.Size:
		return into(to, r.size)
	case *[]string:
		return into(to, r.lineList)
	case *map[string]string:
		return into(to, r.texts)
	case *map[string]json.RawMessage:
		return into(to, r.defaults)
	case *json.RawMessage:
		return into(to, r.json)
	case **value.Number:
		return into(to, r.bound)
	case *param.Params:
		return into(to, r.params)
	case *map[string]job.Secret:
		return into(to, r.secrets)
	case *placement.Selector:
		return into(to, r.selector)
	case *[]job.Preference:
		return into(to, r.preferences)
	case *[]job.Step:
		return into(to, r.steps)
	case *[]job.StepNeed:
		return into(to, r.stepNeeds)
	case *[]json.RawMessage:
		return into(to, r.values)
	case **job.Step:
		return into(to, r.handler)
	case **job.Each:
		return into(to, r.each)
	case **job.Run:
		return into(to, r.run)
	case **job.Files:
		return into(to, r.files)
	case **job.Artifacts:
		return into(to, r.artifacts)
	case **job.Signal:
		return into(to, r.signal)
	case *job.Retry:
		return into(to, r.retry)
	case *job.Place:
		return into(to, r.place)
	case *job.Unique:
		return into(to, r.unique)
	case *limit.PerNodes:
		return r.perNode(to)
	}
	switch v := reflect.ValueOf(of).Elem(); {
	case v.Kind() == reflect.Struct:
		return func(at entry) { r.mapping(at, v, "a mapping", "") }
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		return func(at entry) {
			v.Set(reflect.New(v.Type().Elem()))
			r.mapping(at, v.Elem(), "a mapping", "")
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		return func(at entry) { r.mappings(at, v, "") }
	}
	value.Assert(false, "jobfile: %T is read in no known way", of)
	return nil
}

// examples are objects whose fields are read by their types alone. Types outside of package job
// have theirs in a method.
var examples = map[reflect.Type]string{
	reflect.TypeFor[job.Timeout](): "{run: 30m}", reflect.TypeFor[job.Resources](): "{memory: 512MiB}", reflect.TypeFor[job.Keep](): "{done: 24h, failed: 720h}",
	reflect.TypeFor[job.Handlers](): "{failure: {run: ./alert.sh}}",
}

// mapping reads an object into a struct. What says that it may be one, and also what else it may
// be.
func (r *reader) mapping(v entry, to reflect.Value, what, also string) {
	of := to.Addr().Interface()
	example := examples[to.Type()]
	if its, ok := of.(interface{ Example() string }); ok {
		example = its.Example()
	}
	if example != "" {
		what += " such as " + example
	}
	special := setters{}
	if its, ok := of.(interface{ Choices() map[string][]string }); ok {
		for _, f := range form.Fields(to.Type()) {
			if words := its.Choices()[f.Name]; words != nil {
				special[f.Name] = r.words(to.FieldByIndex(f.Index).Addr().Interface().(*string), words)
			}
		}
	}
	r.object(v, what+also, r.fields(of, special))
}

// mappings reads an object, or a list of objects, into a slice of structs. Before says what else it
// may be.
func (r *reader) mappings(v entry, to reflect.Value, before string) {
	r.oneOrMore(v, func(at entry) {
		one := reflect.New(to.Type().Elem()).Elem()
		r.mapping(at, one, before+"a mapping", ", or a list of such")
		to.Set(reflect.Append(to, one))
	})
}

// words reads one of several words; named reads the name of a thing.
func (r *reader) words(to *string, words []string) func(entry) {
	return func(v entry) { *to = r.oneOf(v, words) }
}

func (r *reader) named(to *string, what string) func(entry) {
	return func(v entry) { *to = r.name(v, what) }
}

// vocabulary lists the fields of a job file by the object that holds them, in the order of
// messages.
var vocabulary = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	add := func(path string, of reflect.Type) {
		for _, f := range form.Fields(of) {
			if path != "steps" || !ofJobs[f.Name] {
				all[path] = append(all[path], f.Name)
			}
		}
	}
	of := reflect.TypeFor[job.Job]()
	add("", of)
	for _, f := range form.Fields(of) {
		is := f.Type
		for is.Kind() == reflect.Pointer || is.Kind() == reflect.Slice {
			is = is.Elem()
		}
		if is == reflect.TypeFor[param.Params]() {
			is = reflect.TypeFor[param.Param]()
		}
		if is.Kind() == reflect.Struct {
			add(f.Name, is)
		}
	}
	add("place.prefer", reflect.TypeFor[job.Preference]())
	add("steps.needs", reflect.TypeFor[job.StepNeed]())
	return all
})

// ofJobs are the fields of a spec that steps do not have.
var ofJobs = map[string]bool{"steps": true, "on": true, "unique": true, "breaker": true}
