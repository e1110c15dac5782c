package jobfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"millrace/internal/testkit"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

type object = map[string]any

// schemaFields returns the properties of the schema's objects, in the form of [below].
func schemaFields(t *testing.T) map[string][]string {
	t.Helper()
	var root object
	if err := json.Unmarshal(job.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	props := func(o object) object { return o["properties"].(object) }
	top := props(root)
	forms := top["run"].(object)["oneOf"].([]any)
	all := map[string][]string{}
	for path, p := range map[string]object{
		"":        top,
		"run":     props(forms[len(forms)-1].(object)),
		"timeout": props(top["timeout"].(object)),
		"retry":   props(top["retry"].(object)),
		"breaker": props(top["breaker"].(object)),
		"place":   props(top["place"].(object)),

		"keep":      props(oneForm(top["keep"], 1)),
		"files":     props(oneForm(top["files"], 1)),
		"artifacts": props(oneForm(top["artifacts"], 1)),
		"schedule":  props(top["schedule"].(object)["oneOf"].([]any)[1].(object)),
	} {
		all[path] = slices.Sorted(maps.Keys(p))
	}
	return all
}

// oneForm returns the n-th form that a field may have.
func oneForm(field any, n int) object { return field.(object)["oneOf"].([]any)[n].(object) }

// jobFields returns the JSON names of a struct's fields, including embedded ones.
func jobFields(s reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(s) {
		if !f.Anonymous {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestFieldsAgree compares the fields of the types, which the parser uses, with those of the
// schema.
func TestFieldsAgree(t *testing.T) {
	schema := schemaFields(t)
	for path, s := range map[string]reflect.Type{
		"":        reflect.TypeFor[job.Job](),
		"run":     reflect.TypeFor[job.Run](),
		"timeout": reflect.TypeFor[job.Timeout](),
		"retry":   reflect.TypeFor[job.Retry](),
		"breaker": reflect.TypeFor[limit.Breaker](),
		"place":   reflect.TypeFor[job.Place](),

		"keep":      reflect.TypeFor[job.Keep](),
		"files":     reflect.TypeFor[job.Files](),
		"artifacts": reflect.TypeFor[job.Artifacts](),
		"schedule":  reflect.TypeFor[job.Schedule](),
	} {
		want := jobFields(s)
		if got := schema[path]; !slices.Equal(got, want) {
			t.Errorf("the schema of %q has the fields %v, %v has %v", path, got, s, want)
		}
		if got := slices.Sorted(slices.Values(below(path))); !slices.Equal(got, want) {
			t.Errorf("the vocabulary of %q has the fields %v, %v has %v", path, got, s, want)
		}
		for _, name := range want {
			at := join(path, name)
			data := []byte(name + ": ~\n")
			if path != "" {
				data = []byte(path + ": {" + name + ": ~}\n")
			}
			_, err := Parse("", data)
			if err == nil || strings.Contains(err.Error(), "unknown field") || !strings.Contains(err.Error(), at+": want ") {
				t.Errorf("the parser does not know %s: %v", at, err)
			}
		}
	}
	for at := range reserved {
		if path, name, ok := strings.Cut(at, "."); ok && slices.Contains(below(path), name) || slices.Contains(below(""), at) {
			t.Errorf("%s is reserved and in the vocabulary", at)
		}
	}
	for name, there := range foreign {
		for _, at := range there {
			path, last, ok := strings.Cut(at, ".")
			if !ok {
				path, last = "", at
			}
			if !reserved[at] && !slices.Contains(below(path), last) {
				t.Errorf("%s leads to %s, which does not exist", name, at)
			}
		}
	}
}

// A field is read by its type: declaring it is enough.
func TestFieldsAreReadByType(t *testing.T) {
	type rule struct {
		For value.Duration `json:"for"`
		Key string         `json:"key"`
	}
	var got struct {
		job.Timeout
		Rule  rule              `json:"rule"`
		Other *rule             `json:"other"`
		Few   []rule            `json:"few"`
		One   []rule            `json:"one"`
		Size  value.Size        `json:"size"`
		Lines []string          `json:"lines"`
		Yes   bool              `json:"yes"`
		Texts map[string]string `json:"texts"`
	}
	r := &reader{report: &report{}, where: map[string]position{}}
	root := compose(document{text: "run: 5m\nsize: 3MiB\nlines: [a, b]\nyes: true\ntexts: {a: 1}\nrule: {for: 1s}\nother: {key: k}\nfew: [{key: a}, {for: 2s}]\none: {key: b}\n"}, r.report)
	r.object(entry{node: root}, reflect.ValueOf(&got).Elem(), "")
	want := got
	want.Run, want.Size, want.Lines, want.Yes, want.Texts = value.Duration(5*time.Minute), 3<<20, []string{"a", "b"}, true, map[string]string{"a": "1"}
	want.Rule.For, want.Other = value.Duration(time.Second), &rule{Key: "k"}
	want.Few, want.One = []rule{{Key: "a"}, {For: value.Duration(2 * time.Second)}}, []rule{{Key: "b"}}
	if err := r.err(); err != nil || !reflect.DeepEqual(got, want) || got.Run == 0 {
		t.Errorf("read are %+v, %v", got, err)
	}
}

// TestAllFieldsAreRead checks that no accepted field is dropped.
func TestAllFieldsAreRead(t *testing.T) {
	data, err := testkit.Latest("testdata/corpus/jobfile", 1, "all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := Parse("all.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	first := jobs[0]
	for _, s := range []any{first, *first.Run, first.Timeout, first.Retry, first.Place, first.Keep, *first.Schedule, *first.Files, *first.Artifacts} {
		v := reflect.ValueOf(s)
		for _, f := range reflect.VisibleFields(v.Type()) {
			// These fields exclude those that are set.
			if f.Name == "Handler" || f.Name == "Shell" || f.Name == "Every" || f.Name == "At" || f.Name == "Timetable" {
				continue
			}
			// Some fields of a place, and of what runs, exclude each other: one of the documents must set each.
			set := slices.ContainsFunc(jobs, func(j job.Job) bool {
				return v.Type() == reflect.TypeFor[job.Place]() && !reflect.ValueOf(j.Place).FieldByIndex(f.Index).IsZero() ||
					v.Type() == reflect.TypeFor[job.Run]() && j.Run != nil && !reflect.ValueOf(*j.Run).FieldByIndex(f.Index).IsZero() ||
					v.Type() == reflect.TypeFor[job.Job]() && !reflect.ValueOf(j).FieldByIndex(f.Index).IsZero()
			})
			if !set && v.FieldByIndex(f.Index).IsZero() {
				t.Errorf("%v.%s is not set by all.yaml", v.Type(), f.Name)
			}
		}
	}
}

// TestSchemaAgreesWithParser checks every document of the samples with both.
func TestSchemaAgreesWithParser(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(job.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("urn:millrace:job", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("urn:millrace:job")
	if err != nil {
		t.Fatal(err)
	}
	agree := func(t *testing.T, data string) {
		t.Helper()
		r := &report{}
		root := compose(document{text: data}, r)
		if root == nil {
			return
		}
		encoded := (&reader{report: r}).appendJSON(nil, entry{node: root})
		if err := r.err(); err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
		if err != nil {
			t.Fatal(err)
		}
		_, parserSays := Parse("", []byte(data))
		if schemaSays := schema.Validate(instance); (parserSays == nil) != (schemaSays == nil) {
			t.Errorf("%s\nthe parser says: %v\nthe schema says: %v", data, parserSays, schemaSays)
		}
	}

	good, err := filepath.Glob("testdata/corpus/jobfile/v*/*.yaml")
	bad, badErr := filepath.Glob("testdata/invalid/*.yaml")
	files := append(good, bad...)
	if err := errors.Join(err, badErr); err != nil || len(good) < 9 || len(files) < 30 {
		t.Fatalf("found %d samples (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range split(string(data)) {
				agree(t, d.text)
			}
		})
	}

	// One value each, in an otherwise valid job.
	for field, values := range map[string][]string{
		"timeout.run":      {"1h30m", "90s", "0s", "0.0s", "0.5s", ".5s", "1.s", "0h0m1s", "1h0m", "-1s", "+1s", "5", `"5"`, "1 s", "1d", "1S", "s", ".s", "1us", "1µs", "1μs", `""`, "~", "[1s]"},
		"retry.max":        {"0", "3", "3.0", "3e0", "0x3", "-1", "1.5", `"3"`, "2147483647", "2147483648", "true"},
		"retry.jitter":     {"0", "0.5", ".5", "1", "1.01", "-0.1", `"0"`, "1e-9"},
		"retry.on":         {"[]", "[exit]", "[exit, task]", "[user]", "exit", "[[exit]]", "[exit=75]", "[exit=64-78, network]", "[exit=0]", "[exit=256]", "[exit=]", "[exit=-1]", "[timeout=3]"},
		"retry.avoid_node": {"true", "false", "True", "yes", "1", `"true"`},
		"breaker":          {"{failures: 1}", "{}", "{failures: 0}", "{failures: 1, within: 5s, cooldown: 1m, half_open: 2, on_open: hold}", "{failures: 1, half_open: 0}", "{failures: 2, on_open: close}", "3"},
		"retry.budget":     {"1h", "0s", "5"},
		"retry.backoff": {
			"fixed", "linear", "exponential", "Fixed", `""`, "1"},
		"place.sticky": {"job", "attempt", `"{params.a}"`, `""`, "1"},
		"place.prefer": {"[]", "[{labels: gpu}]", "[{labels: gpu, weight: 0}]", "[{weight: 1}]", "[{labels: [a, b>=1], weight: 1000}]", "[{labels: a, weight: 1001}]",
			"[{labels: a}, {labels: b}, {labels: c}, {labels: d}, {labels: e}]", "{labels: a}", "~"},
		"title":  {`""`, "x", "5", "yes", "true", "2026-01-01"},
		"queue":  {"a", `""`, "-a", "a.b", "'1'", "1", strings.Repeat("a", 64), strings.Repeat("a", 65), "é"},
		"labels": {"{}", "{a: b}", "{a: 1, b: 1.10, c: true}", "{a: ~}", "{a: []}", `{"": a}`, "[]"},
		"params": {"{}", "{a: ~}", "{a: {b: [1]}}", "[]", "x", "[{name: a}]", "[{name: a, type: integer, min: 1, max: 2.0, default: 1}]", "[{}]", "[{name: a b}]", "[a]", "{name: a}", "[{name: a, min: 1}]", "[{name: a, type: string, min: 1, pattern: x}]", "[{name: a, pattern: x}]",
			"[{name: a, secret: true}]", "[{name: a, secret: true, type: string}]", "[{name: a, secret: false, type: string}]", "[{name: a, enum: []}]", "[{name: a, enum: [1, ~]}]", "[{name: a, type: int}]", "[{name: a, schema: x}]", "[{name: a, schema: {}}]", "[{name: a, optional: 1}]", "[{name: a, default: ~}]", "[{name: a, description: 5}]"},
		"timeout": {"{}", "~", "1s", "[]"},
	} {
		t.Run(field, func(t *testing.T) {
			path, name, ok := strings.Cut(field, ".")
			for _, v := range values {
				if ok {
					v = "{" + name + ": " + v + "}"
				}
				agree(t, "name: a\nrun: x\n"+path+": "+v+"\n")
			}
		})
	}
	t.Run("run", func(t *testing.T) {
		for _, v := range []string{
			"x", `""`, `"a\0b"`, "5", "true", "[]", "[x]", "[x, 5, true, '']", "['', x]", "[5]", "[[x]]", "[~]", `["a\0"]`, "~",
			"{}", "{argv: [x]}", "{argv: []}", "{shell: x}", "{shell: ''}", "{argv: [x], shell: x}", "{argv: [x], shell: ''}", "{dir: x}", "{shell: x, dir: ''}",
			`{shell: x, dir: "\0"}`, "{shell: x, env: {}}", "{shell: x, env: {A: 1, B: '', C: true}}", "{shell: x, env: {A=B: x}}", "{shell: x, env: {'': x}}", `{shell: x, env: {A: "\0"}}`, "{shell: x, env: {A: ~}}",
		} {
			agree(t, "name: a\nrun: "+v+"\n")
		}
	})
}

// The schema has each rule in a step, except the breaker, and in no job that has steps.
func TestSchemaHasEachRule(t *testing.T) {
	var root object
	if err := json.Unmarshal(job.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	at := func(of any, names ...string) any {
		for _, name := range names {
			of, _ = of.(object)[name]
		}
		return of
	}
	stepped := at(root["oneOf"].([]any)[2], "properties").(object)
	step := at(root, "$defs", "step", "properties").(object)
	for _, r := range job.Rules {
		if is, there := stepped[r.Name]; !there || is != false {
			t.Errorf("oneOf[2].properties lets a job with steps have %s", r.Name)
		}
		if _, there := step[r.Name]; there == ofJobs[r.Name] {
			t.Errorf("a step has %s: %v", r.Name, there)
		}
	}
}
