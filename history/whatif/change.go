package whatif

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/history/verify"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Only limits other settings to a job or schedule; "" is all.
type Only struct {
	Job      string
	Schedule string
}

// set is one setting: of the installation, of jobs, or of schedules.
type set struct {
	path  []string
	value any
}

// fields are the fields of a job that affect decisions in the log.
var fields = func() []string {
	all := []string{"timeout", "retry", "signal"}
	for i := range job.Rules {
		if job.Rules[i].Decided() {
			all = append(all, job.Rules[i].Name)
		}
	}
	return all
}()

// bounds are the settings of an installation that affect decisions.
var bounds = map[string]func(o *verify.Other, text string) error{
	"node_ttl":       period(func(o *verify.Other, d time.Duration) { o.NodeTTL = d }),
	"start_deadline": period(func(o *verify.Other, d time.Duration) { o.Bounds.StartDeadline = value.Duration(d) }),
	"ack_wait":       period(func(o *verify.Other, d time.Duration) { o.Bounds.AckWait = value.Duration(d) }),
	"flap_limit":     score(func(o *verify.Other, f float64) { o.Flap.Limit = f }),
	"flap_release":   score(func(o *verify.Other, f float64) { o.Flap.Release = f }),
}

func period(into func(*verify.Other, time.Duration)) func(*verify.Other, string) error {
	return func(o *verify.Other, text string) error {
		d, err := value.ParseDuration(text)
		switch {
		case err != nil:
			return errors.New("want a duration with a unit, such as 10s")
		case d <= 0:
			return fmt.Errorf("it is %v, want more than 0", d)
		}
		into(o, d)
		return nil
	}
}

func score(into func(*verify.Other, float64)) func(*verify.Other, string) error {
	return func(o *verify.Other, text string) error {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f == 0 {
			return errors.New("want a number other than 0")
		}
		into(o, f)
		return nil
	}
}

// Names lists all settings that can be changed: of the installation, fields of jobs, and
// "schedule".
func Names() []string {
	all := append([]string{"schedule"}, fields...)
	for name := range bounds {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Parse parses settings of the form NAME=VALUE: node_ttl=10s as in the settings file, retry.max=5
// as in a job file, schedule.catchup=all as in a schedule. A value is text or JSON.
func Parse(sets []string, only Only) (o verify.Other, err error) {
	var jobs, schedules []set
	given := map[string]bool{}
	for _, text := range sets {
		name, to, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return o, fmt.Errorf("%q sets nothing; want NAME=VALUE, such as retry.max=5", text)
		}
		if given[name] {
			return o, fmt.Errorf("%s is there twice", name)
		}
		given[name] = true
		path := strings.Split(name, ".")
		one := set{path, valueOf(to)}
		switch read := bounds[name]; {
		case read != nil:
			err = read(&o, to)
		case path[0] == "schedule" && len(path) > 1:
			one.path = path[1:]
			schedules = append(schedules, one)
			err = possible(job.Schedule{Every: value.Duration(time.Hour)}, one, func(s *job.Schedule) error { return schedule.Validate("any", *s) })
		case slices.Contains(fields, path[0]):
			jobs = append(jobs, one)
			err = possible(ruled, one, (*job.Spec).Validate)
		default:
			err = fmt.Errorf("it decides nothing that the log records; there are %s%s", strings.Join(Names(), ", "), meant(path[0]))
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", text, err)
		}
	}
	if len(jobs) > 0 {
		o.Spec = specs(jobs, only.Job)
	}
	if len(schedules) > 0 {
		o.Schedule = func(name string, when job.Schedule) job.Schedule {
			if only.Schedule != "" && name != only.Schedule {
				return when
			}
			other, err := changed(when, schedules, false)
			if err != nil || schedule.Validate(name, other) != nil {
				return when
			}
			return other
		}
	}
	return o, nil
}

// ruled is a spec with all rules, so that each field of a rule can be set alone.
var ruled = func() job.Spec {
	spec := job.Spec{Handler: "any", Signal: &job.Signal{Name: "any"}}
	for i := range job.Rules {
		if job.Rules[i].Decided() {
			job.Rules[i].Least(&spec)
		}
	}
	return spec
}()

// possible refuses a setting that a value of its kind cannot have.
func possible[T any](of T, one set, validate func(*T) error) error {
	is, err := changed(of, []set{one}, true)
	var field *json.UnmarshalTypeError
	unknown := ""
	if err != nil {
		unknown, _ = strings.CutPrefix(err.Error(), "json: unknown field ")
	}
	switch {
	case errors.As(err, &field):
		want := kindOf(field.Type)
		if names := namesIn(reflect.TypeFor[T](), one.path); len(names) > 0 {
			want = "one of its fields: " + strings.Join(names, ", ")
		}
		return fmt.Errorf("%s is a %s, want %s", strings.Join(one.path, "."), field.Value, want)
	case unknown != "" && unknown != err.Error():
		return fmt.Errorf("there is no field %s; there are %s", unknown, strings.Join(namesIn(reflect.TypeFor[T](), one.path[:len(one.path)-1]), ", "))
	case err != nil:
		return err
	}
	if err := validate(&is); err != nil {
		return err
	}
	if rule := one.path[0]; len(one.path) > 1 && slices.Contains(fields, rule) && !slices.Contains(always, rule) {
		tree, err := treeOf(is)
		if list, _ := tree[rule].([]any); err != nil || tree[rule] == nil || list != nil && len(list) == 0 {
			return errors.Join(err, fmt.Errorf("nothing is left of %s then; want another value than 0", rule))
		}
	}
	return nil
}

// always lists the fields that every job has, whatever its file says.
var always = []string{"timeout", "retry"}

// kindOf says in words of job files what values of a type are.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	}
	return `a list, such as ["exit=75"]`
}

// namesIn lists the names of the fields at a path.
func namesIn(t reflect.Type, path []string) (names []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "":
		case len(path) == 0:
			names = append(names, name)
		case name == path[0]:
			return namesIn(f.Type, path[1:])
		}
	}
	slices.Sort(names)
	return names
}

func meant(name string) string {
	if word := value.Word(name, Names()); word != "" {
		return "; did you mean " + word + "?"
	}
	return ""
}

// valueOf parses a value as JSON, or else takes it as text.
func valueOf(text string) any {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	return v
}

// manySpecs bounds the remembered specs: many facts share one.
const manySpecs = 1 << 10

// specs returns a function that changes the specs of tasks.
func specs(sets []set, name string) func(string, *job.Spec) *job.Spec {
	known := map[*job.Spec]*job.Spec{}
	others := slices.DeleteFunc(slices.Clone(sets), func(s set) bool { return s.path[0] == value.Breaker })
	return func(of string, spec *job.Spec) *job.Spec {
		if name != "" && of != name {
			return spec
		}
		sets := sets
		if of == "" {
			sets = others // only jobs have breakers
		}
		if other, ok := known[spec]; ok {
			return other
		}
		is := spec
		if other, err := changed(*spec, sets, false); err == nil {
			is = &other
		}
		if len(known) >= manySpecs {
			clear(known)
		}
		known[spec] = is
		return is
	}
}

// changed returns a value with some fields set. It adds a missing section only if all of it is set,
// or if makes is.
func changed[T any](was T, sets []set, makes bool) (is T, err error) {
	tree, err := treeOf(was)
	if err != nil {
		return was, err
	}
	for _, s := range sets {
		if !makes && len(s.path) > 1 && tree[s.path[0]] == nil && !slices.Contains(always, s.path[0]) {
			continue // it has no such rule
		}
		if err := put(tree, s.path, s.value); err != nil {
			return was, err
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return was, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&is)
	return is, err
}

// treeOf returns a value as a tree of JSON.
func treeOf(of any) (tree map[string]any, err error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return tree, d.Decode(&tree)
}

// put sets a field of an object, or of all objects of a list.
func put(tree map[string]any, path []string, value any) error {
	name := path[0]
	if len(path) == 1 {
		tree[name] = value
		return nil
	}
	switch in := tree[name].(type) {
	case nil:
		made := map[string]any{}
		tree[name] = made
		return put(made, path[1:], value)
	case map[string]any:
		return put(in, path[1:], value)
	case []any:
		for _, one := range in {
			if in, ok := one.(map[string]any); ok {
				if err := put(in, path[1:], value); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return fmt.Errorf("%s has no fields", name)
}
