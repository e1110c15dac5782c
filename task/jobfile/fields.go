package jobfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"millrace/internal/form"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

// The fields of a job are declared in package task/job and below. A field is read by its type and
// its tags. A test writes the JSON Schema of job files from the same:
//
//	names:"queue"         it names a queue
//	words:"stop,adopt"    it is one of these words
//	read:"line"           its text is not empty
//	read:"any"            of a list of texts: they may be empty
//	read:"scalar"         its text may be written as a number, true or false
//	read:"failure"        one of its words, or exit codes
//	read:"priority"       a priority
//	read:"mapping"        JSON that is a mapping
//	short:"text"          a text in place of the whole mapping sets this field; so may a list
//	alone:"text"          a text may stand in place of a list of one; none: nothing may. Without the
//	                      tag a mapping may
//	list:"timetable"      a list sets the field timetable instead
//	least:"0"             zero means zero, and not the default
//	like:"{max: 5}"       a mapping as it may look

// fieldsOf returns the fields of a struct as a file may set them, under their names there, in the
// order of messages.
func fieldsOf(t reflect.Type) []reflect.StructField {
	if known, ok := fieldLists.Load(t); ok {
		return known.([]reflect.StructField)
	}
	var all []reflect.StructField
	for _, f := range form.Fields(t) {
		if t != reflect.TypeFor[job.Step]() || !ofJobs[f.Name] {
			all = append(all, reflect.StructField{Name: f.Name, Type: f.Type, Tag: t.FieldByIndex(f.Index).Tag, Index: f.Index})
		}
	}
	fieldLists.Store(t, all)
	return all
}

var fieldLists sync.Map // of what [fieldsOf] returns, by type

// ofJobs are the fields of a spec that steps do not have.
var ofJobs = map[string]bool{"steps": true, "on": true, "unique": true, "collapse": true, "breaker": true}

// namesIn are the names of the fields of a struct.
func namesIn(t reflect.Type) (names []string) {
	for _, f := range fieldsOf(t) {
		names = append(names, f.Name)
	}
	return names
}

// fieldNamed returns a field of a struct by its name in a file.
func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	all := fieldsOf(t)
	i := slices.IndexFunc(all, func(f reflect.StructField) bool { return f.Name == name })
	if i < 0 {
		return reflect.StructField{}, false
	}
	return all[i], true
}

// kindNames are the kinds of values in tags.
var kindNames = map[kind]string{number: "number", text: "text", list: "list", mapping: "mapping"}

// has tells whether a tag of a field names a kind.
func has(f reflect.StructField, tag string, is kind) bool {
	return kindNames[is] != "" && slices.Contains(strings.Split(f.Tag.Get(tag), ","), kindNames[is])
}

// wants say what a value of a type may be. Without an entry that is a mapping or a list, such as the
// tag "like" of its field.
var wants = map[reflect.Type]string{
	reflect.TypeFor[job.Run]():       "a shell line, a list of arguments or a mapping",
	reflect.TypeFor[job.Signal]():    "a name, or a mapping such as {name: approval, timeout: 1h}",
	reflect.TypeFor[job.Files]():     "the name of a bundle, a folder or a mapping such as {bundle: app}",
	reflect.TypeFor[job.Artifacts](): "patterns or a mapping such as {paths: [out/**], when: always}",
	reflect.TypeFor[job.Keep]():      "a duration such as 30d, or a mapping such as {finished: 7d, error: 90d}",
	reflect.TypeFor[job.Each]():      "a list of values, or a mapping such as {param: files}",
	reflect.TypeFor[job.Step]():      "a step such as {name: build, run: make}",
	reflect.TypeFor[job.StepNeed]():  "the name of a step, or a mapping such as {step: test, when: end}",
	reflect.TypeFor[job.Secret]():    "where the value is found, such as {file: /run/secrets/api_key}",

	reflect.TypeFor[job.Schedule]():      `a cron expression or a mapping such as {cron: "30 4 * * *"}`,
	reflect.TypeFor[job.NamedSchedule](): `a cron expression or a mapping such as {cron: "30 4 * * *"}`,
	reflect.TypeFor[param.Param]():       "a mapping such as {name: depth, type: integer, default: 2}",

	reflect.TypeFor[[]job.Step]():          "a list of steps such as [{name: build, run: make}]",
	reflect.TypeFor[[]job.StepNeed]():      "the name of a step, or a list such as [build, {step: test, when: end}]",
	reflect.TypeFor[[]job.Preference]():    "a list such as [{labels: {zone: eu}, weight: 10}]",
	reflect.TypeFor[[]job.NamedSchedule](): `a list of schedules such as ["0 3 * * *", {name: saturdays, cron: "0 15 * * 6"}]`,
	reflect.TypeFor[limit.PerNodes]():      "a number, a mapping such as {max: 1}, or a list of such",

	reflect.TypeFor[[]json.RawMessage]():     "a list of values that is not empty",
	reflect.TypeFor[map[string]string]():     "a mapping from names to text",
	reflect.TypeFor[map[string]job.Secret](): "a mapping such as {API_KEY: {file: /run/secrets/api_key}}",
}

// wanted says what a value of a struct in a field may be.
func wanted(t reflect.Type, f reflect.StructField) string {
	if want := wants[t]; want != "" {
		return want
	}
	if like := f.Tag.Get("like"); like != "" {
		return "a mapping such as " + like
	}
	return "a mapping"
}

// read reads a value into a field of a struct, or an element of one.
func (r *reader) read(v entry, to reflect.Value, f reflect.StructField) {
	switch to := to.Addr().Interface().(type) {
	case *value.Duration:
		*to = r.duration(v)
		return
	case *value.Size:
		*to = r.size(v)
		return
	case **value.Number:
		if n, ok := r.exact(v, "a number"); ok {
			*to = &n
		}
		return
	case *json.RawMessage:
		*to = r.json(v, f)
		return
	case *map[string]json.RawMessage:
		*to = r.defaults(v)
		return
	case *param.Params:
		if v.kind != list {
			to.Defaults = r.defaults(v)
			return
		}
		r.slice(v, reflect.ValueOf(&to.Declared).Elem(), f)
		return
	case *placement.Selector:
		*to = r.selector(v)
		return
	case *limit.PerNodes:
		if v.kind == number {
			*to = limit.PerNodes{{Max: r.whole(v, 1)}}
			return
		}
	}
	switch to.Kind() {
	case reflect.String:
		to.SetString(r.string(v, f))
	case reflect.Bool:
		to.SetBool(r.yes(v))
	case reflect.Int:
		to.SetInt(int64(r.integer(v, f)))
	case reflect.Float64:
		to.SetFloat(r.float(v))
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		r.read(v, to.Elem(), f)
	case reflect.Slice:
		r.slice(v, to, f)
	case reflect.Map:
		r.table(v, to)
	case reflect.Struct:
		r.object(v, to, wanted(to.Type(), f))
	default:
		value.Assert(false, "jobfile: %v is read in no known way", to.Type())
	}
}

// object reads a mapping, or what is short for it, into a struct. Want says what it may be.
func (r *reader) object(v entry, to reflect.Value, want string) {
	t := to.Type()
	if v.kind != mapping {
		for _, f := range fieldsOf(t) {
			if has(f, "short", v.kind) {
				r.read(v, to.FieldByIndex(f.Index), f)
				return
			}
		}
		r.want(v, want)
		return
	}
	for _, f := range v.fields {
		at := entry{f.node, join(v.path, f.name), f.pos}
		is, known := fieldNamed(t, f.name)
		if !known {
			r.add(f.pos, at.path, "%s", r.unknown(v.path, f.name, t))
			continue
		}
		if r.where[at.path] = f.pos; f.node.kind == list && is.Tag.Get("list") != "" {
			is, _ = fieldNamed(t, is.Tag.Get("list"))
		}
		before, into := len(r.problems), to.FieldByIndex(is.Index)
		if r.read(at, into, is); len(r.problems) == before && into.IsZero() && value.ZeroIsDefault(is) {
			r.refuse(at, "want more than zero: leave the field out for its default")
		}
	}
}

// slice reads a list, or one that stands alone.
func (r *reader) slice(v entry, to reflect.Value, f reflect.StructField) {
	of := to.Type().Elem()
	structs := of.Kind() == reflect.Struct
	if _, said := f.Tag.Lookup("alone"); !said && structs {
		f.Tag += ` alone:"mapping"`
	}
	want := cmp.Or(wants[to.Type()], "a list")
	if _, own := wants[to.Type()]; !own && has(f, "alone", mapping) {
		want = wanted(of, f) + ", or a list of such"
	}
	items := []entry{v}
	switch {
	case v.kind == list:
		if len(v.items) == 0 {
			r.refuse(v, "the list is empty: fill it or leave the field out")
		}
		items = items[:0]
		for i, n := range v.items {
			items = append(items, entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos})
		}
	case !has(f, "alone", v.kind):
		r.want(v, want)
		return
	}
	if f.Type = of; of.Kind() == reflect.String && f.Tag.Get("read") == "" {
		f.Tag += ` read:"line"`
	}
	all := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, at := range items {
		if structs {
			r.where[at.path] = at.pos
		}
		r.read(at, all.Index(i), f)
		if _, named := at.field("name"); of == reflect.TypeFor[job.Step]() && at.kind == mapping && !named {
			r.refuse(at, "name is missing: a step needs one")
		}
	}
	to.Set(all)
}

// table reads a mapping from names that are the author's. Its texts may be numbers.
func (r *reader) table(v entry, to reflect.Value) {
	if v.kind != mapping {
		r.want(v, wants[to.Type()])
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for _, f := range v.fields {
		one := reflect.New(to.Type().Elem()).Elem()
		r.read(entry{f.node, join(v.path, f.name), f.pos}, one, reflect.StructField{Tag: `read:"scalar"`})
		to.SetMapIndex(reflect.ValueOf(f.name), one)
	}
}

// string reads text, as the tags of its field say.
func (r *reader) string(v entry, f reflect.StructField) string {
	how := f.Tag.Get("read")
	words, isWord := f.Tag.Lookup("words")
	if how == "failure" && v.kind == text && strings.Contains(v.text, "=") {
		if err := job.ValidFailure(v.text); err != nil {
			r.refuse(v, "%v", err)
		}
		return v.text
	}
	switch what := f.Tag.Get("names"); {
	case what != "":
		return r.name(v, what)
	case isWord:
		return r.oneOf(v, strings.Split(words, ","))
	case how == "line":
		return r.line(v)
	case how == "scalar":
		return r.scalar(v)
	}
	return r.text(v)
}

// integer reads a whole number that is at least 1 where zero would silently be the default.
func (r *reader) integer(v entry, f reflect.StructField) int {
	switch {
	case f.Tag.Get("read") == "priority":
		return r.priority(v)
	case value.ZeroIsDefault(f):
		return r.whole(v, 1)
	}
	return r.whole(v, math.MinInt32)
}
