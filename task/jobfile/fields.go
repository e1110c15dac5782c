package jobfile

import (
	"encoding/json"
	"fmt"
	"reflect"

	"millrace/internal/form"
	"millrace/task/breaker"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/param"
	"millrace/task/value"
	"millrace/task/where"
)

// The fields of a job are declared in package task/job: the tags give their names, and mostly the
// types decide how they are read. This file adds only what types do not tell: which words a field
// accepts, or what kind of name it holds.

// fields returns how to read the fields of a struct, each by its type except for the special ones.
func (r *reader) fields(of any, special setters) setters {
	v := reflect.ValueOf(of).Elem()
	all := setters{}
	for _, f := range form.Fields(v.Type()) {
		if all[f.Name] = special[f.Name]; all[f.Name] == nil {
			all[f.Name] = r.setter(v.FieldByIndex(f.Index).Addr().Interface())
		}
	}
	for name := range special {
		if all[name] == nil {
			panic(fmt.Sprintf("jobfile: %s has no field %s", v.Type(), name))
		}
	}
	return all
}

// into makes a function of the value's type read it.
func into[T any](to *T, read func(entry) T) func(entry) { return func(v entry) { *to = read(v) } }

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
	case **float64:
		return into(to, r.bound)
	case *param.Params:
		return into(to, r.params)
	case *map[string]job.Secret:
		return into(to, r.secrets)
	case *where.Selector:
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
	case **job.Handlers:
		return into(to, r.handlers)
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
	case **breaker.Breaker:
		return into(to, r.breaker)
	case **job.Schedule:
		return into(to, r.schedule)
	case *job.Timeout:
		return into(to, r.timeout)
	case *job.Retry:
		return into(to, r.retry)
	case *job.Place:
		return into(to, r.place)
	case *job.Resources:
		return into(to, r.resources)
	case *job.Keep:
		return into(to, r.keep)
	case *job.Unique:
		return into(to, r.unique)
	case *limit.Concurrencies:
		return into(to, r.concurrency)
	case *limit.Budgets:
		return into(to, r.budget)
	case *limit.Rates:
		return into(to, r.rate)
	case *limit.PerNodes:
		return into(to, r.perNode)
	}
	panic(fmt.Sprintf("jobfile: %T is read in no known way", of))
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
var vocabulary = func() map[string][]string {
	all := map[string][]string{}
	for path, of := range map[string]reflect.Type{
		"": reflect.TypeFor[job.Job](), "run": reflect.TypeFor[job.Run](), "timeout": reflect.TypeFor[job.Timeout](), "retry": reflect.TypeFor[job.Retry](),
		"signal": reflect.TypeFor[job.Signal](), "breaker": reflect.TypeFor[breaker.Breaker](),
		"place": reflect.TypeFor[job.Place](), "place.prefer": reflect.TypeFor[job.Preference](),
		"steps": reflect.TypeFor[job.Step](), "steps.needs": reflect.TypeFor[job.StepNeed](), "params": reflect.TypeFor[param.Param](), "each": reflect.TypeFor[job.Each](), "on": reflect.TypeFor[job.Handlers](),
		"files": reflect.TypeFor[job.Files](), "artifacts": reflect.TypeFor[job.Artifacts](), "schedule": reflect.TypeFor[job.Schedule](),
		"concurrency": reflect.TypeFor[limit.Concurrency](), "budget": reflect.TypeFor[limit.Budget](), "rate": reflect.TypeFor[limit.Rate](), "per_node": reflect.TypeFor[limit.PerNode](), "unique": reflect.TypeFor[job.Unique](),
		"keep": reflect.TypeFor[job.Keep](), "resources": reflect.TypeFor[job.Resources](),
	} {
		for _, f := range form.Fields(of) {
			if path != "steps" || !ofJobs[f.Name] {
				all[path] = append(all[path], f.Name)
			}
		}
	}
	return all
}()

// ofJobs are the fields of a spec that steps do not have.
var ofJobs = map[string]bool{"steps": true, "on": true, "unique": true, "breaker": true}
